"""The queue on PostgreSQL: a server that is restarted, cuts connections, and lets one supervisor write."""

from __future__ import annotations

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
from harness import until_ended
from tqstudio.engine.store.dialects import postgresql
from tqstudio.errors import TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import PASSWORD, MakeClip
from .ladder import check_ladder
from .studio import Studio, Watch

RUNGS = ("180p", "120p", "90p")
SHORT_LEASES = {"lease_s": 2, "heartbeat_s": 0.5, "lease_scan_s": 0.5}


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
        return admin.execute(asked, (database.database,)).fetchone() != (0,)


def _stopped_between_transactions(studio: Studio, database: URL) -> bool:
    """Hold a supervisor still, but not in a transaction, which the server would end."""
    studio.process.send_signal(signal.SIGSTOP)
    with psycopg.connect(postgres.server().get_uri()) as admin:
        asked = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            " AND (state LIKE 'idle in transaction%%' OR state = 'active')"
        )
        if admin.execute(asked, (database.database,)).fetchone() == (0,):
            return True
    studio.process.send_signal(signal.SIGCONT)
    return False


def master_of(studio: Studio, job: int) -> Path:
    """The master playlist of a job that is done, in its first attempt."""
    done = studio.done(job)
    outcomes = [attempt["outcome"] for attempt in done["attempts_log"]]
    assert (done["attempts"], done["crashes"], outcomes) == (0, 0, ["done"])
    return Path(done["video_view"]["generation"]["master"])


@pytest.mark.slow
@pytest.mark.parametrize("version", [postgres.NEWEST, pytest.param(postgres.OLDEST, marks=pytest.mark.more)])
def test_an_added_and_a_dropped_file_become_ladders(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, tmp_path: Path, version: int
) -> None:
    studio = on_postgresql(postgres.empty_database(version)).up()
    drop = tmp_path / "drop"
    drop.mkdir()
    studio.client.send(calls.add_folder(encode(drop), output_b64=encode(studio.out), settle_s=0))
    added = studio.add(copy(clip(), "added.mp4"))
    shutil.copyfile(clip(seconds=2), drop / "dropped.mp4")
    rows = until(lambda: [row for row in studio.client.send(calls.jobs())["jobs"] if row["id"] != added])
    check_ladder(master_of(studio, added), frames=100, fps=Fraction(25), names=RUNGS)
    check_ladder(master_of(studio, rows[0]["id"]), frames=50, fps=Fraction(25), names=RUNGS)
    assert not studio.home.database.exists()


@pytest.mark.slow
def test_a_studio_starts_on_the_oldest_version_also_with_videos(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy
) -> None:
    studio = on_postgresql(postgres.empty_database(postgres.OLDEST)).up()
    [held] = studio.offer(copy(clip(), "held.mp4"), hold=True)
    assert studio.stop() == 0
    studio.up()
    assert studio.job(held["job"])["status"] == "paused"


def _shown_to_children(studio: Studio) -> list[str]:
    """The command lines and environments of the processes that the supervisor has started."""
    shown = []
    for process in psutil.Process(studio.process.pid).children(recursive=True):
        try:
            shown += [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
    return shown


@pytest.mark.slow
def test_the_password_is_shown_nowhere(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, database: URL
) -> None:
    studio = on_postgresql()
    # The environment of the supervisor has it too, which others would inherit.
    studio.environment["TQSTUDIO_DATABASE"] = database.render_as_string(hide_password=False)
    studio.up()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=4), "clip.mp4"))
        studio.running(job)
    shown = _shown_to_children(studio)
    assert any("libx264" in text for text in shown), "ffmpeg is one of them"
    with ended_server(signal.SIGINT):
        until(lambda: _refused(studio), "it is noticed")
        answers = [studio("status"), studio("doctor")]
        assert "DATABASE_UNREACHABLE" in answers[0].err
        assert "postgresql://postgres:***@" in answers[1].out
    until(lambda: not _refused(studio), "it is there again")
    answers.append(studio("status", "--json"))
    shown += [text for answer in answers for text in (answer.out, answer.err)]
    assert studio.stop() == 0
    files = [path for path in studio.home.root.rglob("*") if path.is_file() and path != studio.home.config]
    shown += [path.read_text(errors="replace") for path in (*files, studio.output)]
    assert not [text for text in shown if PASSWORD in text]


@pytest.mark.slow
@pytest.mark.fault(
    "PostgreSQL crashes and is restarted while a worker encodes",
    "The encode continues; the job is done in its first attempt",
    area="database",
)
def test_a_crash_of_the_server_costs_no_attempt(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy
) -> None:
    studio = on_postgresql(**SHORT_LEASES).up()
    with studio.paced(3):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job)
    with ended_server(signal.SIGQUIT):
        until(lambda: _refused(studio), "it is noticed")
    check_ladder(master_of(studio, job), frames=300, fps=Fraction(25), names=RUNGS)


@pytest.mark.more
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
    watch = Watch(studio.home.socket)
    until(lambda: watch.seen, "a screen is shown")
    with ended_server(signal.SIGINT):
        refused = until(lambda: _refused(studio), "it is noticed")
        assert refused.code == "DATABASE_UNREACHABLE"
        assert "the queue resumes automatically" in refused.hint
        for command in (("status",), ("job", "list"), ("add", copy(clip(), "other.mp4")), ("doctor",)):
            answer = studio(*command)
            assert answer.code != 0
            assert "cannot be reached" in answer.out + answer.err
        until_ended(encoders)
        lines = studio.home.supervisor_log.read_text().splitlines()
        assert len([line for line in lines if "cannot be written" in line]) == 1
        assert len(lines) < 10, lines
    before = len(watch.seen)
    until(
        lambda: "worker" in {event.name for event in watch.seen[before:]},
        "screens are sent the workers again",
    )
    check_ladder(master_of(studio, job), frames=600, fps=Fraction(25), names=RUNGS)
    assert not studio.status()["gates"]


def _refused(studio: Studio) -> TqError | None:
    try:
        studio.status()
    except TqError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.fault(
    "Connections to PostgreSQL end again and again while jobs are claimed and finished",
    "Each transaction is repeated on a new connection; every job is done once, in its first attempt",
    area="database",
)
def test_connections_that_end_again_and_again_cost_nothing(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, database: URL
) -> None:
    studio = on_postgresql(workers=2, **SHORT_LEASES).up()
    watch = studio.watch()
    jobs = [studio.add(copy(clip(seconds=1), f"{number}.mp4")) for number in range(5)]

    seen = len(watch.stored())

    def all_are_done() -> bool:
        nonlocal seen
        events = watch.stored()
        if len(events) > seen:
            # Whatever is written next meets a dead connection.
            seen = len(events)
            cut(database)
        return [event["target"] for event in events].count("done") == len(jobs)

    until(all_are_done, "all are done")
    for job in jobs:
        assert master_of(studio, job).exists()
        assert [event["target"] for event in studio.events(job)].count("done") == 1
    sequence = [event["seq"] for event in watch.stored()]
    assert sequence == sorted(set(sequence))


@pytest.mark.slow
@pytest.mark.fault(
    "A supervisor is started on the database of PostgreSQL of another one",
    "`ALREADY_RUNNING`: it does not start, and the first one works on",
    area="supervisor",
)
def test_a_second_supervisor_is_refused(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, database: URL
) -> None:
    first, second = on_postgresql(), on_postgresql()
    first.up()
    with first.paced(1):
        job = first.add(copy(clip(seconds=24), "long.mp4"))
        first.running(job)
    second.launch()
    assert second.ended() == 4
    assert "ALREADY_RUNNING: another supervisor uses this database" in second.output.read_text()
    # One that is stopped keeps its connection, and so the lock; within a transaction it would lose both.
    until(lambda: _stopped_between_transactions(first, database), "it is stopped outside a transaction")
    second.launch()
    assert second.ended() == 4
    first.process.send_signal(signal.SIGCONT)
    master_of(first, job)


@pytest.mark.slow
@pytest.mark.fault(
    "Another supervisor gets the database of PostgreSQL while the connection of the first is cut",
    "The first writes nothing more, ends its workers, and shuts down",
    area="supervisor",
)
def test_a_supervisor_whose_database_was_taken_ends(
    on_postgresql: Callable[..., Studio], clip: MakeClip, copy, database: URL
) -> None:
    studio = on_postgresql(**SHORT_LEASES).up()
    with studio.paced(1):
        job = studio.add(copy(clip(seconds=60), "long.mp4"))
        encoders = studio.running(job)
        with psycopg.connect(database.render_as_string(hide_password=False), autocommit=True) as other:
            taking = threading.Thread(target=other.execute, args=(postgresql._LOCK,))
            taking.start()
            until(lambda: waits_for_lock(database), "another one waits for the lock")
            cut_writer(database)
            taking.join()
            before = _contents(other)
            assert studio.ended() == 4
            assert _contents(other) == before
    last = studio.output.read_text().splitlines()[-2]
    assert "another supervisor uses this database of PostgreSQL" in last
    until_ended(encoders)
    studio.until_gone()
    # Not one line for each of the writes that were refused.
    log = studio.home.supervisor_log.read_text()
    assert (log.count("level=error"), log.count("Traceback")) == (1, 0)
    os.truncate(studio.home.supervisor_log, 0)
    studio.up()
    assert studio.done(job)["crashes"] == 0


def _contents(database: psycopg.Connection) -> list[tuple[str, str]]:
    """Each table, and a digest of its rows."""
    named = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    digest = "SELECT coalesce(md5(string_agg(row::text, '|' ORDER BY row::text)), '') FROM {} AS row"
    return [
        (table, database.execute(digest.format(table)).fetchone()[0])  # type: ignore[index]
        for (table,) in database.execute(named).fetchall()
    ]
