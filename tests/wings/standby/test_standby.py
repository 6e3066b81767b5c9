"""Several supervisors on one PostgreSQL: one leads, the others lend it their workers and take over."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

import postgres
from certificates import certificate
from e2e.conftest import LEASES, MakeClip, MakeFleet
from e2e.ladder import check_ladder
from e2e.studio import Studio
from harness import until_ended
from tqstudio.engine.store.dialects import postgresql
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

RUNGS = ("180p", "120p", "90p")


def stand_by(studio: Studio) -> None:
    """Start a supervisor, and wait until it stands by and knows the one that leads."""
    studio.launch()
    until(lambda: stands_by(studio), "it stands by")


def stands_by(studio: Studio) -> bool:
    try:
        studio.status()
    except TqError as error:
        return error.code is ErrorCode.REFUSED and studio.home.leader.exists()
    return False


def leads(studio: Studio) -> bool:
    try:
        return bool(studio.status()["supervisor"]["pid"] == studio.process.pid)
    except TqError:
        return False


def log_of(studio: Studio) -> str:
    return studio.home.supervisor_log.read_text()


def statuses(studio: Studio) -> list[tuple[str, str]]:
    return [(worker["name"], worker["status"]) for worker in studio.status()["workers"]]


def check_once(studio: Studio, job: int, *, frames: int) -> None:
    """The job is done once, without a crash, and its ladder is whole."""
    assert studio.done(job)["crashes"] == 0
    check_ended_once(studio, job, frames=frames)


def check_ended_once(studio: Studio, job: int, *, frames: int) -> None:
    """The job is done once, and its ladder is whole."""
    done = studio.done(job)
    assert [event["target"] for event in studio.events(job)].count("done") == 1
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=frames, fps=Fraction(25), names=RUNGS)


def no_work_left(studio: Studio) -> bool:
    return not any(path.is_file() for path in studio.out.glob(".tqstudio/*/segments/**/*"))


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor that leads is killed, while another one stands by",
    "Once its lease has run out, the other leads; jobs continue from their finished segments",
    area="supervisor",
)
def test_the_next_one_takes_over_from_one_that_is_killed(
    fleet: MakeFleet, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    with first.paced(1), second.paced(1):
        job = first.add(copy(clip(seconds=12), "long.mp4"))
        first.running(job)
        first.kill()
    until(lambda: leads(second), "the second one leads")
    check_once(second, job, frames=300)
    assert second.job(job)["attempts_log"][-1]["resumed_from"] is not None
    stand_by(first)
    assert [each["name"] for each in second.status()["supervisor"]["standbys"]] == ["first"]


@pytest.mark.slow
def test_one_that_stands_by_lends_its_workers_and_sends_commands_to_the_one_that_leads(
    fleet: MakeFleet, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    first, second = fleet("first", "second", lease_s=120)
    first.up()
    for worker in first.status()["workers"]:
        first.client.send(calls.worker_action(worker["name"], "disable"))
    stand_by(second)
    until(lambda: ("second", "idle") in statuses(first), "its worker has joined")
    added = second("add", copy(clip(), "clip.mp4"), "--json")
    assert added.code == 0, added.err
    (row,) = first.client.send(calls.jobs())["jobs"]
    assert first.done(row["id"])["worker"] is None
    assert {attempt["worker"] for attempt in first.job(row["id"])["attempts_log"]} == {"second"}
    shown = second("status").out
    assert f"pid {first.process.pid}" in shown
    assert "standby     second, seen" in shown
    up = second("up", "--detach")
    assert f"pid {second.process.pid}" in up.out
    # With the lease ended in order, the other one need not wait for it.
    assert first.stop() == 0
    until(lambda: leads(second), "the second one leads")
    assert not second.home.leader.exists()
    until(lambda: statuses(second) == [("cpu-0", "idle")], "its own worker alone is listed, and enabled")
    assert "first was stopped" in second("events").out
    assert second("job", "list").out.count("clip.mp4") == 1
    assert second("down").code == 0


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor that leads is stopped for longer than its lease, then continued",
    "Another one leads; the first writes and publishes nothing more, and stands by",
    area="supervisor",
)
def test_one_that_was_stopped_stands_by_when_it_continues(
    fleet: MakeFleet, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    with first.paced(1):
        job = first.add(copy(clip(seconds=12), "long.mp4"))
        encoders = first.running(job)
        until(first.has_locked_output, "its output is locked")
        first.process.send_signal(signal.SIGSTOP)
        # It may write to its output at any moment, and holds the lock of that.
        until(lambda: "waiting for the supervisor that has led before" in log_of(second), "it waits")
        first.process.send_signal(signal.SIGCONT)
    until(lambda: leads(second), "the second one leads")
    until(lambda: stands_by(first), "the first one stands by")
    until_ended(encoders)
    check_once(second, job, frames=300)
    second.stop()
    until(lambda: leads(first), "the first one leads again")
    check_once(first, job, frames=300)
    until(lambda: no_work_left(first), "no work is left over")


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor that leads is cut off from PostgreSQL, while it and its workers run on",
    "Another one leads when the lease has run out; the first publishes nothing, and stands by later",
    area="supervisor",
)
def test_one_that_is_cut_off_publishes_nothing(
    on_postgresql: Callable[..., Studio],
    fleet: MakeFleet,
    database: URL,
    clip: MakeClip,
    copy: Callable[..., Path],
) -> None:
    line = postgres.Line()
    first = on_postgresql(line.url(database), name="first", standby="true", listen="127.0.0.1:0", **LEASES)
    (second,) = fleet("second")
    first.out = second.out
    first.up()
    stand_by(second)
    with first.paced(2), second.paced(1):
        job = first.add(copy(clip(seconds=12), "long.mp4"))
        first.running(job)
        line.cut()
        until(lambda: leads(second), "the second one leads")
        # The first encodes to the end meanwhile, and cannot publish.
        detail = until(lambda: _is_claimed(second, job), "it has the job")
        assert detail["video_view"]["generation"] is None
        second.running(job)
    check_once(second, job, frames=300)
    line.mend()
    until(lambda: stands_by(first), "the first one stands by")
    check_once(second, job, frames=300)
    until(lambda: no_work_left(second), "no work is left over")


def _is_claimed(studio: Studio, job: int) -> dict | None:
    detail = studio.job(job)
    return detail if detail["status"] == "in_progress" else None


@pytest.mark.slow
def test_one_of_three_takes_over_and_the_others_stand_by(fleet: MakeFleet) -> None:
    first, *others = fleet("first", "second", "third")
    first.up()
    for other in others:
        stand_by(other)
    assert first.stop() == 0
    until(lambda: [*map(leads, others)].count(True) == 1, "one of them leads")
    last = next(each for each in others if not leads(each))
    until(lambda: stands_by(last), "the other one stands by")


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor that leads is killed, while a worker of one that stands by encodes",
    "The worker continues for the next one that leads, in the same attempt",
    area="supervisor",
)
def test_lent_workers_stay_when_another_one_leads(
    fleet: MakeFleet, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    first, second, third = fleet("first", "second", "third", reconnect_s=30)
    first.up()
    first.client.send(calls.worker_action("cpu-0", "disable"))
    stand_by(third)
    with third.paced(1):
        job = first.add(copy(clip(seconds=24), "long.mp4"))
        until(lambda: ("third", "busy") in statuses(first), "its worker has the job")
        # That of the next one that leads has no job to take.
        second.launch()
        until(lambda: stands_by(second), "it stands by")
        third.process.send_signal(signal.SIGSTOP)
        first.kill()
        until(lambda: leads(second), "the second one leads")
        third.process.send_signal(signal.SIGCONT)
    check_once(second, job, frames=600)
    (attempt,) = second.job(job)["attempts_log"]
    assert attempt["worker"] == "third"


@pytest.mark.more
def test_one_that_leads_is_reached_by_its_certificate(fleet: MakeFleet, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    first, second = fleet("first", "second", tls_cert=str(cert), tls_key=str(key), hosts="localhost")
    first.up()
    stand_by(second)
    assert "https://localhost:" in second.home.leader.read_text()
    assert f"pid {first.process.pid}" in second("status").out


@pytest.mark.more
def test_without_a_listener_commands_say_where_to_run_them(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second", listen="")
    first.up()
    second.launch()
    until(lambda: "REFUSED" in second("status").err, "it stands by")
    assert "first leads the queue, and cannot be reached from here" in second("status").err


@pytest.mark.more
def test_a_name_is_given_once(fleet: MakeFleet) -> None:
    first, *others = fleet("first", "first", "second", "second")
    first.up()
    for one, other in ((first, others[0]), (others[1], others[2])):
        if one is not first:
            stand_by(one)
        other.launch()
        assert other.ended() == 2
        assert "another supervisor of this database has the name" in other.output.read_text()
    assert stands_by(others[1])


@pytest.mark.more
@pytest.mark.fault(
    "A supervisor stands by for one that has not created the database yet, and that one is stopped",
    "It leads, and creates the database then",
    area="supervisor",
)
def test_it_stands_by_for_one_that_has_not_created_the_database(fleet: MakeFleet, database: URL) -> None:
    (studio,) = fleet("second")
    address = database.render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as other:
        other.execute(postgresql._LOCK)
        studio.launch()
        until(lambda: "REFUSED" in studio("status").err, "it stands by")
    until(lambda: leads(studio), "it leads")


@pytest.mark.slow
def test_a_file_of_sqlite_has_one_supervisor(make_studio: Callable[..., Studio]) -> None:
    studio = make_studio(standby="true")
    studio.launch()
    assert studio.ended() == 2
    assert "BAD_CONFIG: standby needs a queue on PostgreSQL" in studio.output.read_text()


@pytest.mark.more
@pytest.mark.timeout(1800)
@pytest.mark.fault(
    "Supervisors of one database are killed, stopped and cut off at random, again and again",
    "Each job is done once, each ladder is whole, and no work is left over",
    area="supervisor",
)
def test_storm(
    on_postgresql: Callable[..., Studio],
    database: URL,
    clip: MakeClip,
    tmp_path: Path,
) -> None:
    """`make chaos FLEET=1` runs more of it."""
    faults = int(os.environ.get("FLEET_FAULTS", "8"))
    chance = random.Random(int(os.environ.get("FLEET_SEED", "1")))
    fleet = _Fleet(on_postgresql, database, tmp_path / "out")
    drop = tmp_path / "drop"
    drop.mkdir()
    fleet.members[0].up()
    folder = calls.add_folder(encode(drop), output_b64=encode(tmp_path / "out"), settle_s=0.1)
    fleet.members[0].client.send(folder)
    for number in range(faults):
        for each in range(2):
            shutil.copyfile(clip(seconds=6), drop / f"{number}-{each}.mp4")
        fleet.disturb(chance)
    leader = fleet.calm()
    jobs = until(lambda: _ended(leader, 2 * faults), "every job is done", timeout_s=900)
    for job in jobs:
        # One that stands by may have been killed with the worker that it had lent, which is a crash.
        check_ended_once(leader, job, frames=150)
    until(lambda: no_work_left(leader), "no work is left over")
    with psycopg.connect(database.render_as_string(hide_password=False)) as rows:
        assert rows.execute("SELECT count(*) FROM publication").fetchone() == (0,)


def _ended(studio: Studio, count: int) -> list[int]:
    jobs = studio.client.send(calls.jobs(limit=200))["jobs"]
    assert not [job for job in jobs if job["status"] in ("failed", "cancelled")]
    done = [job["id"] for job in jobs if job["status"] == "done"]
    return done if len(done) == count else []


class _Fleet:
    """Three supervisors, each with a line of its own to the database."""

    def __init__(self, make: Callable[..., Studio], database: URL, out: Path) -> None:
        self._database = database
        self.lines = [postgres.Line() for _ in range(3)]
        settings = {"standby": "true", "listen": "127.0.0.1:0", "max_crashes": 100, **LEASES}
        self.members = [
            make(line.url(database), name=f"member-{number}", **settings)
            for number, line in enumerate(self.lines)
        ]
        for member in self.members:
            member.out = out

    def disturb(self, chance: random.Random) -> None:
        """Start what does not run, wait for a while of work, and hurt one, mostly the one that leads."""
        self._start()
        leader = until(self._leading, "one leads")
        until(self._works, "one works") if chance.random() < 0.8 else None
        leader = until(self._leading, "one leads")
        hurt = leader if chance.random() < 0.7 else chance.choice(self.members)
        line, name = self.lines[number := self.members.index(hurt)], f"member-{number}"
        match chance.choice(("kill", "stop", "cut", "down", "blink")):
            case "kill":
                hurt.kill()
            case "stop":
                hurt.process.send_signal(signal.SIGSTOP)
                until(lambda: self._newest() != name, "another one has the lock")
                hurt.process.send_signal(signal.SIGCONT)
            case "cut":
                line.cut()
                until(lambda: hurt is not leader or self._leading(hurt), "another one leads")
                line.mend()
            case "down":
                assert hurt("down").code == 0
                hurt.ended()
            case "blink":
                line.cut()
                until(leader.home.root.exists)
                line.mend()

    def calm(self) -> Studio:
        """Let all run undisturbed; returns the one that leads."""
        self._start()
        leader = until(self._calm_leader, "one leads, and the others stand by")
        assert leader is not None
        return leader

    def _calm_leader(self) -> Studio | None:
        leader = self._leading()
        return leader if all(stands_by(each) for each in self.members if each is not leader) else None

    def _newest(self) -> str:
        """The supervisor that has got the lock last."""
        with psycopg.connect(self._database.render_as_string(hide_password=False)) as rows:
            found = rows.execute("SELECT name FROM supervisor ORDER BY id DESC LIMIT 1").fetchone()
        assert found is not None
        return str(found[0])

    def _works(self) -> bool:
        """Whether one leads and works; one that has been stopped leads no longer, and notices it later."""
        leader = self._leading()
        with suppress(TqError):
            return leader is not None and bool(leader.status()["jobs"]["in_progress"])
        return False

    def _start(self) -> None:
        for member in self.members:
            if not member.started:
                member.launch()

    def _leading(self, *but: Studio) -> Studio | None:
        found = [each for each in self.members if each.started and each not in but and leads(each)]
        return found[0] if found else None
