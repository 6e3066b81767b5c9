"""The queue on PostgreSQL: a real server that is restarted, cuts connections, and lets one supervisor write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import URL

import postgres
from tqstudio.engine.store.dialects import postgresql
from tqstudio.errors import TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio

PASSWORD = "open-sesame-4711"
RUNGS = ("180p", "120p", "90p")
SHORT_LEASES = {"lease_s": 2, "heartbeat_s": 0.5, "scan_s": 0.5}


@pytest.fixture
def database() -> URL:
    """A new database, with a password that must be shown nowhere; the server does not ask for it."""
    return postgres.empty_database().set(password=PASSWORD)


@pytest.fixture
def on_postgresql(make_studio: MakeStudio, database: URL) -> Callable[..., Studio]:
    """Makes studios, not started yet, whose settings file names the database."""

    def make(**settings: str | float) -> Studio:
        studio = make_studio(**settings)
        studio.home.database.unlink()
        text = database.render_as_string(hide_password=False)
        studio.home.config.write_text(f"database = {json.dumps(text)}\n")
        return studio

    return make


def _end_server(how: signal.Signals) -> None:
    """Shut the server down: SIGINT ends its connections, SIGQUIT is as if it had crashed."""
    process = psutil.Process(postgres.server().get_postmaster_info().pid)
    process.send_signal(how)
    process.wait(60)


@contextmanager
def ended_server(how: signal.Signals) -> Iterator[None]:
    """No server within."""
    _end_server(how)
    try:
        yield
    finally:
        postgres.server().start()


def cut(database: URL, which: str = "true") -> None:
    """End connections to a database, on the server's side."""
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.database}'"
    postgres.execute(f"{ended} AND {which}")


def cut_writer(database: URL) -> None:
    held = f"locktype = 'advisory' AND objid = {postgresql._WRITER} AND granted"
    cut(database, f"pid IN (SELECT pid FROM pg_locks WHERE {held})")


def waits_for_lock(database: URL) -> bool:
    """Whether a second writer waits."""
    with psycopg.connect(postgres.server().get_uri()) as admin:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event = 'advisory'"
        return bool(admin.execute(asked, (database.database,)).fetchone() != (0,))


def master_of(studio: Studio, job: int) -> Path:
    """The master playlist of a job that is done, in its first attempt."""
    done = studio.done(job)
    outcomes = [attempt["outcome"] for attempt in done["attempts_log"]]
    assert (done["attempts"], done["crashes"], outcomes) == (0, 0, ["done"])
    return Path(done["video_view"]["generation"]["master"])


def test_an_added_and_a_dropped_file_become_ladders(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, tmp_path: Path
) -> None:
    studio = on_postgresql().up()
    drop = tmp_path / "drop"
    drop.mkdir()
    studio.client.send(calls.add_folder(encode(drop), output_b64=encode(studio.out), settle_s=0))
    added = studio.add(copy(clip(), "added.mp4"))
    shutil.copyfile(clip(seconds=2), drop / "dropped.mp4")
    rows = until(lambda: [row for row in studio.client.send(calls.jobs())["jobs"] if row["id"] != added])
    check_ladder(master_of(studio, added), frames=100, fps=Fraction(25), names=RUNGS)
    check_ladder(master_of(studio, rows[0]["id"]), frames=50, fps=Fraction(25), names=RUNGS)
    assert not studio.home.database.exists()
    studio.down()
    studio.up()
    assert studio.status()["jobs"]["done"] == 2


def _shown_to_children(studio: Studio) -> list[str]:
    """The command lines and environments of the processes that the supervisor has started."""
    shown = []
    for process in psutil.Process(studio.process.pid).children(recursive=True):
        try:
            shown += [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
    return shown


@pytest.mark.parametrize("given", ["in the settings file", "in the environment"])
def test_the_password_is_shown_nowhere(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, database: URL, given: str
) -> None:
    studio = on_postgresql()
    if given == "in the environment":
        studio.home.config.unlink()
        studio.environment["TQSTUDIO_DATABASE"] = database.render_as_string(hide_password=False)
    studio.up()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=4), "clip.mp4"))
        studio.running(job)
    shown = _shown_to_children(studio)
    assert any("libx264" in text for text in shown), "ffmpeg is one of them"
    commands = ("status", "--json"), ("doctor",), ("doctor", "--json"), ("job", "show", str(job))
    answers = [studio(*command) for command in commands]
    assert "postgresql://postgres:***@" in answers[1].out
    with ended_server(signal.SIGINT):
        refused = until(lambda: answer if (answer := studio("status")).code else None, "it is noticed")
        assert "DATABASE_UNREACHABLE" in refused.err
        answers += [refused, *(studio(*command) for command in commands)]
    until(lambda: not studio("status").code, "it is there again")
    studio.done(job)
    shown += [text for answer in answers for text in (answer.out, answer.err)]
    assert studio.stop() == 0
    logs = [path for path in studio.home.root.rglob("*") if path.is_file() and path != studio.home.config]
    shown += [path.read_text(errors="replace") for path in (*logs, studio.output)]
    assert not [text for text in shown if PASSWORD in text]


@pytest.mark.fault(
    "PostgreSQL crashes and is restarted while a worker encodes",
    "The encode goes on; the job is done in its first attempt",
    area="database",
)
def test_a_crash_of_the_server_costs_no_attempt(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy
) -> None:
    studio = on_postgresql(**SHORT_LEASES).up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=8), "long.mp4"))
        encoders = studio.running(job)
    with ended_server(signal.SIGQUIT):
        assert set(encoders) <= set(studio.encoders_of_all())
    check_ladder(master_of(studio, job), frames=200, fps=Fraction(25), names=RUNGS)


@pytest.mark.slow
@pytest.mark.fault(
    "PostgreSQL is gone for longer than a lease while a worker encodes",
    "`DATABASE_UNREACHABLE` for every command; the encode ends, and the job is done in its first attempt",
    area="database",
)
def test_a_server_that_is_gone_for_long_costs_no_attempt(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy
) -> None:
    studio = on_postgresql(**SHORT_LEASES).up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=24), "long.mp4"))
        encoders = studio.running(job)
    os.truncate(studio.home.supervisor_log, 0)
    with ended_server(signal.SIGINT):
        refused = until(lambda: _refused(studio), "it is noticed")
        assert refused.code == "DATABASE_UNREACHABLE"
        assert "the queue resumes automatically" in refused.hint
        for command in (("status",), ("job", "list"), ("add", copy(clip(), "other.mp4")), ("doctor",)):
            answer = studio(*command)
            assert answer.code != 0
            assert "cannot be reached" in answer.out + answer.err
        until(lambda: not [pid for pid in encoders if psutil.pid_exists(pid)], "everything is encoded")
        lines = studio.home.supervisor_log.read_text().splitlines()
        assert len([line for line in lines if "cannot be written" in line]) == 1
        assert len(lines) < 10, lines
    check_ladder(master_of(studio, job), frames=600, fps=Fraction(25), names=RUNGS)
    assert not studio.status()["gates"]


def _refused(studio: Studio) -> TqError | None:
    try:
        studio.status()
    except TqError as error:
        return error
    return None
