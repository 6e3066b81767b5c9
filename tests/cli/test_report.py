"""`doctor --report` prints what an issue needs, and no name of a film unless asked for."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness import Program
from tqstudio.engine.media.ffmpeg.binary import locate
from waiting import until

from .test_with_supervisor import QUICKER

FILM = "Grüße aus “Rom” & 'Nizza'"
PRIVATE = ("Rom”", "Nizza", "Season", "grusse-aus", "An Old Title", "hooks.example.org", "a-password")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A studio whose job has failed at a cut source, in a folder of a drop folder."""
    root = tmp_path_factory.mktemp("report")
    drop = root / "drop" / "Season One"
    drop.mkdir(parents=True)
    words = ["-f", "lavfi", "-i", "testsrc2=s=320x240:d=4", "-metadata", "title=An Old Title"]
    subprocess.run([locate().path, "-v", "error", *words, f"file:{drop / 'whole.mkv'}"], check=True)
    whole = (drop / "whole.mkv").read_bytes()
    (drop / "whole.mkv").unlink()
    (drop / f"{FILM}.mkv").write_bytes(whole[: len(whole) // 2])
    made = Program(
        root / "home",
        **QUICKER,
        TQSTUDIO_ALERT_WEBHOOK="https://hooks.example.org/a-password",
        TQSTUDIO_ON_DONE="notify --key a-password",
    )
    made("folder", "add", root / "drop", "--output", root / "site")
    until(lambda: "SOURCE_TRUNCATED" in made("job", "list").out, 60)
    yield made
    made("down")


def test_a_report_has_what_helps_and_no_names(shell: Program) -> None:
    answer = shell("doctor", "--report")
    assert (answer.code, answer.err) == (0, "")
    for wanted in (
        "Names of films and folders are replaced.",
        "tqstudio 0.1.0, Python 3.",
        "sqlalchemy=2.",
        "ok    database: intact",
        "alert_webhook = <set>",
        "on_done = <set>",
        'profile = "fast"',
        "1 failed",
        'event="supervisor started"',
        "code=SOURCE_TRUNCATED",
        "== logs/jobs/1/1.log",
        "failed: SOURCE_TRUNCATED: <film 1>.mkv",
    ):
        assert wanted in answer.out
    assert not [each for each in (*PRIVATE, str(shell.home.root.parent)) if each in answer.out]
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", answer.out)


def test_names_are_in_it_if_asked_for(shell: Program) -> None:
    answer = shell("doctor", "--report", "--with-names")
    assert "Names of films and folders are in it" in answer.out
    assert FILM in answer.out
    assert "a-password" not in answer.out


@pytest.mark.slow
def test_logs_are_left_out_where_the_database_cannot_name_the_films(shell: Program, tmp_path: Path) -> None:
    copy = Program(tmp_path / "home", **QUICKER)
    shutil.copytree(shell.home.logs, copy.home.logs)
    copy.home.root.chmod(0o700)
    copy.home.database.write_bytes(b"not a database" * 1000)
    answer = copy("doctor", "--report")
    assert answer.code == 0
    assert "Its logs are left out" in answer.out
    assert "FAIL" not in answer.out
    assert "fail  database:" in answer.out
    assert "== logs/" not in answer.out
    assert "== logs/" in copy("doctor", "--report", "--with-names").out


@pytest.mark.parametrize("database", [None, b"not a database" * 1000])
def test_paths_hosts_and_users_are_replaced_without_a_database(
    tmp_path: Path, database: bytes | None
) -> None:
    settings = {
        "TQSTUDIO_OUTPUT": "/library/My Secret/out",
        "TQSTUDIO_INCOMING": "/run/media/secret/in",
        "TQSTUDIO_NAME": "secret-studio",
        "TQSTUDIO_HOSTS": "films.secret.example",
        "TQSTUDIO_REDIS_PREFIX": "secret",
        "TQSTUDIO_HOURS": "22:00-06:00",
        "TQSTUDIO_LOG_LEVEL": "debug",
    }
    shell = Program(tmp_path / "Secret Home", **QUICKER | settings)
    shell.home.profiles.mkdir(parents=True)
    shell.home.root.chmod(0o700)
    (shell.home.profiles / "of-secret.toml").write_text("")
    if database:
        shell.home.database.write_bytes(database)
    answer = shell("doctor", "--report")
    assert (answer.code, answer.err) == (0, "")
    assert "secret" not in answer.out.lower()
    assert str(tmp_path) not in answer.out
    shown = (
        "free at <path>, of",
        "<profile 1>",
        "name = <set>",
        'hours = "22:00-06:00"',
        'log_level = "debug"',
    )
    assert not [each for each in shown if each not in answer.out]


def test_the_value_of_a_wrong_setting_is_replaced(tmp_path: Path) -> None:
    shell = Program(tmp_path / "home", **QUICKER, TQSTUDIO_NAME="My Secret")
    answer = shell("doctor", "--report")
    assert answer.code == 0
    assert "the setting name is invalid: it is <set> and must be" in answer.out
    assert "Secret" not in answer.out


@pytest.mark.parametrize("words", [("--report", "--json"), ("--with-names",)])
def test_options_that_do_not_fit_are_refused(shell: Program, words: tuple[str, ...]) -> None:
    answer = shell("doctor", *words)
    assert answer.code == 2
    assert "BAD_REQUEST" in answer.out + answer.err


def test_workers_and_removed_folders_are_replaced(shell: Program) -> None:
    """Changes the studio, so it comes last."""
    with closing(sqlite3.connect(shell.home.database)) as db, db:
        db.execute("INSERT INTO worker (name, type, kind) VALUES ('secret-laptop', 'remote', 'cpu')")
    assert shell("folder", "remove", "1").code == 0
    with shell.home.supervisor_log.open("a") as log:
        log.write("worker=secret-laptop at 'Season One'\n")
    answer = shell("doctor", "--report")
    assert "worker=<worker 1> at '<folder>'" in answer.out
    assert 'path="<folder>/<film 1>.mkv"' in answer.out
    assert not [each for each in (*PRIVATE, "secret-laptop") if each in answer.out]
    assert "secret-laptop" not in shell("doctor", "--report", "--with-names").out
