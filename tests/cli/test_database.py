"""`database copy` moves the queue of a home to PostgreSQL and back, and `backup` copies it from there."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres
from databases import committed
from harness import Program
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.machine import gates
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind

from .test_with_supervisor import QUICKER


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Its queue is paused, which copies keep."""
    made = Home(tmp_path / "home")
    made.create()
    migrate(made.database)
    with committed(made.database) as db:
        gates.shut(db, GateKind.USER, "the test looks", now=1, actor="user")
    return made


@pytest.fixture
def shell(home: Home) -> Iterator[Program]:
    made = Program(home.root, **QUICKER)
    yield made
    made("down")


@pytest.mark.slow
def test_a_queue_is_moved_to_postgresql_and_back(shell: Program, home: Home, tmp_path: Path) -> None:
    url = postgres.empty_database().render_as_string()
    copied = shell("database", "copy", str(home.database), url, "--json")
    assert (copied.code, copied.json()["rows"]) == (0, 2)
    home.database.unlink()
    home.config.write_text(f"database = {json.dumps(url)}\n")
    assert shell("up", "--detach").code == 0
    assert shell("status", "--json").json()["gates"][0]["reason"] == "the test looks"
    assert "PostgreSQL" in shell("doctor").out
    assert "ALREADY_RUNNING" in shell("doctor", "--repair").err
    saved = tmp_path / "saved.db"
    assert shell("backup", str(saved)).code == 0
    assert not home.database.exists()
    refused = shell("database", "copy", str(saved), url)
    assert refused.code == 4
    shell("down")
    assert "rebuilt the counts of postgresql://" in shell("doctor", "--repair").err
    back = tmp_path / "back.db"
    assert shell("database", "copy", url, str(back)).code == 0
    assert stat.S_IMODE(back.stat().st_mode) == 0o600
    # Only a home is locked, by files that stay there.
    assert not Home(tmp_path).lock.exists()
    with committed(back) as db:
        assert gates.shut(db, GateKind.USER, "again", now=1, actor="user") is False


@pytest.mark.slow
def test_the_queue_of_a_running_supervisor_is_not_copied(shell: Program, home: Home, tmp_path: Path) -> None:
    assert shell("up", "--detach").code == 0
    refused = shell("database", "copy", str(home.database), str(tmp_path / "copy.db"))
    assert refused.code == 4
    assert "ALREADY_RUNNING" in refused.err
    assert not (tmp_path / "copy.db").exists()
