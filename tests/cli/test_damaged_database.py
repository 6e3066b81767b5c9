"""Jobs that only the indexes of the database have lost: commands say so, and no job is lost over it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from damage import forget_in_indexes, forget_rows
from databases import committed
from harness import Answer, Program
from tqstudio.engine.store.db.schema import migrate
from tqstudio.home import Home
from waiting import until

from .test_with_supervisor import QUICKER


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """With two jobs that wait and one that is done; no supervisor runs."""
    made = Home(tmp_path / "home")
    made.create()
    migrate(made.database)
    with committed(made.database) as db:
        for number, status in enumerate(("pending", "pending", "done"), 1):
            source = str(tmp_path / f"{number}.mp4").encode()
            db.execute(
                "INSERT INTO video (source, output_root, name, name_lower, title, slug, size, mtime_ns,"
                " created_at) VALUES (:source, x'2f', :slug, :slug, :slug, :slug, 1, 1, 1)",
                {"source": source, "slug": f"film-{number}"},
            )
            db.execute(
                "INSERT INTO job (video_id, profile, profile_json, status, created_at)"
                " VALUES (:video, 'web', '{}', :status, 1)",
                {"video": number, "status": status},
            )
        db.execute("INSERT INTO gate (kind, reason, since) VALUES ('user', 'the test looks', 1)")
    return made


@pytest.fixture
def shell(home: Home) -> Iterator[Program]:
    made = Program(home.root, **QUICKER)
    yield made
    made("down")


def _database(answer: Answer) -> tuple[str, str, str]:
    (check,) = (check for check in answer.json()["checks"] if check["name"] == "database" and not check["ok"])
    return check["name"], check["detail"], check["hint"]


def _listed(shell: Program) -> list[int]:
    return [row["id"] for row in shell("job", "list", "--json").json()["jobs"]]


@pytest.mark.more
@pytest.mark.fault(
    "An index has lost waiting jobs",
    "The next start rebuilds it; `doctor` and `backup` report it",
    area="database",
)
def test_a_start_finds_waiting_jobs_again_that_every_index_had_lost(home: Home, shell: Program) -> None:
    forget_in_indexes(home.database, (1, 2), "ix_job_waiting", "ix_job_status", "ix_job_ready")
    answer = shell("doctor", "--json")
    assert answer.code == 1
    name, detail, hint = _database(answer)
    assert (name, "row 1 missing from index" in detail) == ("database", True)
    assert hint.endswith("tqstudio doctor --repair")
    refused = shell("backup")
    assert (refused.code, refused.err.splitlines()[1].endswith("tqstudio doctor --repair")) == (5, True)
    assert refused.err.startswith(f"error: DATABASE_DAMAGED: the database {home.database} is damaged: row 1")
    assert not list(home.backups.glob("*"))

    assert shell("up", "--detach").code == 0
    assert _listed(shell) == [1, 2, 3]
    assert "the indexes and counts of the database were rebuilt" in home.supervisor_log.read_text()
    assert shell("backup").code == 0
    running = shell("doctor", "--repair")
    assert running.code == 4
    assert running.err.startswith("error: ALREADY_RUNNING: ")


@pytest.mark.more
@pytest.mark.fault(
    "The table has lost jobs",
    "The start stops with `DATABASE_DAMAGED`; `doctor --repair` accepts the loss",
    area="database",
)
def test_jobs_that_are_lost_are_given_up_by_a_user_alone(home: Home, shell: Program) -> None:
    forget_rows(home.database, (2,))
    assert "fewer pending jobs than were counted" in _database(shell("doctor", "--json"))[1]
    assert shell("backup").code == 5
    for _ in range(2):
        refused = shell("up", "--detach")
        assert refused.code == 5
        assert refused.err.startswith("error: DATABASE_DAMAGED: ")
        assert "backup" in refused.err
    repaired = shell("doctor", "--repair", "--json")
    assert "rebuilt the indexes" in repaired.err
    assert all(check["ok"] for check in repaired.json()["checks"] if check["name"] == "database")
    assert shell("up", "--detach").code == 0
    assert _listed(shell) == [1, 3]


@pytest.mark.more
def test_a_database_that_lost_the_version_of_its_schema(home: Home, shell: Program) -> None:
    with committed(home.database) as db:
        db.execute("DROP TABLE alembic_version")
    for words in (("up", "--detach"), ("up",), ("backup",)):
        answer = shell(*words)
        assert answer.code == 5
        assert answer.err.splitlines()[-2].startswith("error: DATABASE_DAMAGED: ")
        assert "alembic_version" in answer.err
    assert "alembic_version" in _database(shell("doctor", "--json"))[1]


@pytest.mark.slow
def test_a_command_reports_a_database_that_is_none(tqstudio: Program) -> None:
    tqstudio.home.create()
    tqstudio.home.database.write_bytes(b"no database" * 400)
    answer = tqstudio("job", "pause", "1")
    assert answer.code == 5
    assert "error: DATABASE_DAMAGED: " in answer.err


def test_there_is_nothing_to_repair_without_a_database(tqstudio: Program) -> None:
    answer = tqstudio("doctor", "--repair")
    assert (answer.code, "NOT_FOUND" in answer.err) == (4, True)
    assert not tqstudio.home.root.exists()


@pytest.mark.slow
def test_an_empty_file_where_there_was_a_database_is_neither_repaired_nor_copied(tqstudio: Program) -> None:
    tqstudio.home.create()
    tqstudio.home.job_logs(1).mkdir(parents=True)
    tqstudio.home.database.touch()
    for words in (("doctor", "--repair"), ("backup",)):
        answer = tqstudio(*words)
        assert answer.code == 5
        assert "DATABASE_DAMAGED" in answer.err
        assert "it is empty, but" in answer.err
        assert tqstudio.home.database.stat().st_size == 0
    assert not list(tqstudio.home.backups.glob("*"))


_CHECKS_AT_ONCE = """
from tqstudio.engine.assembly import maintenance
from tqstudio.engine.store.db import upkeep
upkeep.FIRST_S = upkeep.INTERVAL_S = 0
maintenance._PRUNE_S = 0.2
from tqstudio.config import load_settings
from tqstudio.engine import program
from tqstudio.home import current_home
program.run(current_home(), load_settings(current_home()))
"""


@pytest.mark.slow
@pytest.mark.fault(
    "The database is damaged while the supervisor runs",
    "A weekly check finds it; `status`, the log and `doctor` report it",
    area="database",
)
def test_the_weekly_check_of_a_running_supervisor_is_reported(home: Home, shell: Program) -> None:
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", _CHECKS_AT_ONCE], env=shell.environment, stdin=subprocess.DEVNULL
    )
    try:
        until(lambda: shell("status").code == 0, "it answers")
        log = home.supervisor_log
        until(lambda: 'event="the database was checked"' in log.read_text(), "the check has passed")
        assert "damage" not in shell("status", "--json").json()["supervisor"]
        forget_in_indexes(home.database, (1,), "ix_job_ready")
        until(lambda: "damage" in shell("status", "--json").json()["supervisor"], "the check has found it")
        shown = shell("status").out
        assert "database    DATABASE_DAMAGED: " in shown
        assert "tqstudio doctor --repair" in shown
        assert 'event="the database is damaged"' in log.read_text()
        name, detail, _ = _database(shell("doctor", "--json"))
        assert (name, "row 1 missing from index" in detail) == ("database", True)
    finally:
        program.terminate()
        assert program.wait(60) == 0
