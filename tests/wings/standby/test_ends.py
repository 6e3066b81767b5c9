"""Supervisors that stand by, when they are stopped, or what they need is missing."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import URL

import postgres
from e2e.conftest import LEASES, MakeClip, MakeFleet
from e2e.studio import Studio
from waiting import until

from .test_standby import check_once, leads, log_of, stand_by, stands_by, statuses

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.mark.more
def test_after_it_was_killed_it_leads_and_its_commands_reach_it(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    second.kill()
    assert first.stop() == 0
    second.launch()
    until(lambda: leads(second), "it leads")
    shown = second("status")
    assert shown.code == 0, shown.err
    assert f"pid {second.process.pid}" in shown.out


@pytest.mark.more
def test_it_ends_when_asked_to_while_its_workers_end_before_it_leads(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    lent = until(lambda: psutil.Process(second.process.pid).children(), "its workers run")
    lent[0].suspend()
    assert first.stop() == 0
    until(lambda: "no other supervisor leads any more" in log_of(second), "it is about to lead")
    assert second.terminate() == 0
    assert "supervisor started" not in log_of(second)


@pytest.mark.more
def test_one_that_is_cut_off_ends_when_asked_to(on_postgresql: Callable[..., Studio], database: URL) -> None:
    line = postgres.Line()
    studio = on_postgresql(line.url(database), standby="true", **LEASES)
    studio.up()
    line.cut()
    assert studio.terminate(signal.SIGTERM) == 4
    line.mend()
    assert studio.last_words().strip().startswith("→ start PostgreSQL")


@pytest.mark.more
def test_one_whose_database_hangs_ends_when_asked_to(fleet: MakeFleet, database: URL) -> None:
    first, second = fleet("first", "second", lease_s=120)
    first.up()
    with psycopg.connect(database.render_as_string(hide_password=False), autocommit=True) as rows:
        of_first = rows.execute(f"SELECT pid {OTHERS}").fetchall()
        stand_by(second)
        later = set(rows.execute(f"SELECT pid {OTHERS}").fetchall()) - set(of_first)
        backends = [psutil.Process(pid) for (pid,) in later]
        for backend in backends:
            backend.suspend()
        try:
            time.sleep(1.5)  # its next look waits by then
            assert second.terminate() == 0
        finally:
            for backend in backends:
                backend.resume()


@pytest.mark.slow
def test_while_it_waits_for_outputs_it_answers_and_touches_none(
    fleet: MakeFleet, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    with first.paced(1):
        job = first.add(copy(clip(seconds=12), "long.mp4"))
        first.running(job)
        until(first.has_locked_output, "its output is locked")
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: "waiting for the supervisor that has led before" in log_of(second), "it waits")
        until(lambda: "REFUSED: this supervisor waits for the one" in second("status").err, "it answers")
        assert second("down").code == 0
        assert second.ended() == 0
        assert "supervisor started" not in log_of(second)
        first.process.send_signal(signal.SIGCONT)
    until(lambda: "supervisor started" in log_of(first).partition("standing by")[2], "it leads again")
    check_once(first, job, frames=300)


@pytest.mark.more
def test_one_that_is_cut_off_while_it_waits_for_outputs_stands_by(
    on_postgresql: Callable[..., Studio],
    database: URL,
    fleet: MakeFleet,
    clip: MakeClip,
    copy: Callable[..., Path],
) -> None:
    line, (first,) = postgres.Line(), fleet("first")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    second = on_postgresql(line.url(database), standby="true", listen=f"127.0.0.1:{port}", **LEASES)
    second.out = first.out
    first.up()
    stand_by(second)
    with first.paced(1):
        first.running(first.add(copy(clip(seconds=12), "long.mp4")))
        until(first.has_locked_output, "its output is locked")
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: "waiting for the supervisor that has led before" in log_of(second), "it waits")
        line.cut()
        until(lambda: "the database does not answer" in log_of(second), "it is cut off")
        line.mend()
        first.kill()
    until(lambda: leads(second), "it leads, and listens at the same port")


@pytest.mark.slow
def test_systemd_is_not_asked_to_end_one_that_stands_by(fleet: MakeFleet, tmp_path: Path) -> None:
    first, second = fleet("first", "second")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        first.launch(NOTIFY_SOCKET=str(tmp_path / "notify"))
        until(lambda: leads(first), "it leads")
        stand_by(second)
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: "waiting" in log_of(second) or leads(second), "the other one has the lock")
        first.process.send_signal(signal.SIGCONT)
        until(lambda: stands_by(first), "it stands by")
        received = b""
        with contextlib.suppress(BlockingIOError):
            while True:
                received += manager.recv(4096)
    assert b"STATUS=standing by for second" in received
    assert b"STOPPING" not in received


@pytest.mark.slow
def test_a_database_that_cannot_be_written_for_a_while_is_waited_for(fleet: MakeFleet, database: URL) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    set_read_only = f'ALTER DATABASE "{database.database}" SET default_transaction_read_only = '
    with psycopg.connect(database.render_as_string(hide_password=False), autocommit=True) as rows:
        rows.execute(f"{set_read_only} on")
        rows.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
        until(lambda: log_of(first).count("cannot lead") > 1, "it has tried to lead")
        began, tried = time.monotonic(), log_of(first).count("cannot lead")
        until(lambda: log_of(first).count("cannot lead") >= tried + 2, "it tries again")
        assert time.monotonic() - began > 1, "between tries there is a pause"
        rows.execute("SET default_transaction_read_only = off")
        rows.execute(f"{set_read_only} off")
        rows.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    until(lambda: leads(first) or leads(second), "one leads again")
    other = second if leads(first) else first
    until(lambda: stands_by(other), "the other one stands by")


@pytest.mark.more
def test_a_home_that_cannot_be_written_for_a_while_is_waited_for(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second", lease_s=120)
    first.up()
    in_the_way = second.home.root / "join.token"
    in_the_way.mkdir()
    second.launch()
    until(lambda: second.home.supervisor_log.exists(), "it has begun")
    until(lambda: "the home cannot be written" in log_of(second), "it is reported")
    in_the_way.rmdir()
    until(lambda: ("second", "idle") in statuses(first), "its worker has joined")
    assert log_of(second).count("the home cannot be written") == 1


@pytest.mark.more
def test_one_that_waits_for_an_older_version_answers(fleet: MakeFleet, database: URL) -> None:
    first, second = fleet("first", "second", lease_s=120)
    first.up()
    with psycopg.connect(database.render_as_string(hide_password=False)) as rows:
        rows.execute("UPDATE alembic_version SET version_num = '0013'")
    second.launch()
    until(lambda: "REFUSED: this supervisor stands by" in second("status").err, "it answers")
    assert second("down").code == 0
    assert second.ended() == 0
    with psycopg.connect(database.render_as_string(hide_password=False)) as rows:
        assert rows.execute("SELECT version_num FROM alembic_version").fetchone() == ("0013",)
