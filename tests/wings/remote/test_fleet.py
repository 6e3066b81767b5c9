"""Machines that join a studio by one token, and machines with several workers."""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from e2e.conftest import MakeClip
from e2e.studio import Studio
from harness import until_ended
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from waiting import until

from .test_studio import Far, check, studio

__all__ = ["studio"]

MakeFar = Callable[..., Far]


@pytest.fixture
def machine(studio: Studio, tmp_path: Path) -> Iterator[MakeFar]:
    """Makes machines with the token `fleet`, by which they join, or with another one."""
    made: list[Far] = []
    fleet = studio.send(calls.create_token("fleet", "join"))["token"]

    def make(name: str, token: str = fleet) -> Far:
        made.append(Far(studio, tmp_path / f"machine-{len(made)}", name, token))
        return made[-1]

    yield make
    for far in made:
        if far.process is not None:
            far.end(signal.SIGKILL)


def start(far: Far, *options: str, slots: int = 1) -> None:
    far.start("", "--name", far.name, "--slots", str(slots), *options)


def slots_of(far: Far) -> list[int]:
    """The processes of a machine's slots, without their ffmpegs."""
    assert far.process is not None
    return sorted(each.pid for each in psutil.Process(far.process.pid).children())


def until_idle(studio: Studio, *names: str) -> None:
    def idle() -> bool:
        found = {each["name"]: each["status"] for each in studio.status()["workers"]}
        return all(found.get(name) == "idle" for name in names)

    until(idle, f"{names} are idle")


def joins(studio: Studio, kind: str = "worker_joined") -> list[tuple[str, str]]:
    """Who joined by which token, oldest first."""
    events = studio.send(calls.events(limit=500))["events"]
    return [(each["worker"], each["actor"]) for each in events if each["trigger"] == kind][::-1]


def until_registered(studio: Studio, name: str, times: int) -> None:
    found = (name, name)
    until(lambda: joins(studio, "worker_registered").count(found) == times, f"{name} has registered")


def end(far: Far) -> int:
    """End a machine's program by SIGTERM; returns its exit status."""
    process = far.process
    assert process is not None
    assert "Traceback" not in far.end()
    return process.returncode


@pytest.mark.slow
def test_two_slots_encode_two_jobs_at_once(
    studio: Studio, machine: MakeFar, clip: MakeClip, copy: Any
) -> None:
    rack, sources = machine("rack"), [copy(clip(seconds=12), f"film-{number}.mp4") for number in range(2)]
    start(rack, "--shared", str(sources[0].parent), slots=2)
    until_idle(studio, "rack", "rack_2")
    with studio.paced(2):
        jobs = [studio.add(source) for source in sources]
        until(lambda: {studio.job(job)["worker"] for job in jobs} == {"rack", "rack_2"}, "both encode")
    for job in jobs:
        check(studio.done(job), 12)
    assert sorted(joins(studio)) == [("rack", "token:fleet"), ("rack_2", "token:fleet")]
    tokens = sorted(rack.work.glob("*/worker.token"))
    assert [path.parent.name for path in tokens] == ["1", "2"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tokens} == {0o600}
    pids, process = slots_of(rack), rack.process
    assert rack.end().count("the source is shared") == 2
    assert process is not None
    assert process.returncode == 0
    until_ended(pids)


@pytest.mark.slow
def test_a_signal_ends_all_slots_and_their_work_is_kept(
    studio: Studio, machine: MakeFar, clip: MakeClip, copy: Any
) -> None:
    rack = machine("rack")
    start(rack, slots=2)
    until_idle(studio, "rack", "rack_2")
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=1)
        assert end(rack) == 0
    view = studio.job(job)
    assert (view["status"], view["attempts"], view["crashes"]) == ("pending", 0, 0)
    assert studio.stored_segments(view["video"])
    start(rack, slots=2)
    done = studio.done(job)
    check(done, 12)
    until_registered(studio, "rack", 2)
    assert done["attempts_log"][-1]["resumed_from"] > 0
    assert len(joins(studio)) == 2, "the tokens are kept"


@pytest.mark.slow
def test_a_slot_that_is_killed_is_started_again(studio: Studio, machine: MakeFar) -> None:
    rack = machine("rack")
    start(rack, slots=2)
    until_idle(studio, "rack", "rack_2")
    [first] = [pid for pid in slots_of(rack) if "--name=rack" in psutil.Process(pid).cmdline()]
    psutil.Process(first).kill()
    until_registered(studio, "rack", 2)
    assert len(joins(studio)) == 2, "it has the token of the one before"
    pids = slots_of(rack)
    assert len(pids) == 2
    rack.end(signal.SIGKILL)
    until_ended(pids)


@pytest.mark.slow
def test_a_killed_slot_leaves_no_zombies(studio: Studio, machine: MakeFar, clip: MakeClip, copy: Any) -> None:
    """Also as the first process of a container, where it inherits the ffmpeg of a dead worker."""
    rack = machine("rack")
    start(rack, slots=2)
    until_idle(studio, "rack", "rack_2")
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=1)
        workers = [psutil.Process(pid) for pid in slots_of(rack)]
        encoders = [child for worker in workers for child in worker.children(recursive=True)]
        for worker in workers:
            worker.kill()
    assert encoders
    until(
        lambda: not any(psutil.pid_exists(each.pid) for each in encoders), "they have ended, and are reaped"
    )
    studio.done(job)


@pytest.mark.more
def test_it_ends_when_all_slots_are_refused(studio: Studio, machine: MakeFar) -> None:
    rack = machine("rack")
    start(rack, slots=2)
    until_idle(studio, "rack", "rack_2")
    studio.send(calls.revoke_token("fleet"))
    studio.send(calls.revoke_token("rack_2"))
    until(lambda: len(slots_of(rack)) == 1, "the refused one has ended")
    until_idle(studio, "rack")
    studio.send(calls.revoke_token("rack"))
    with pytest.raises(TqError) as removed:
        studio.send(calls.worker_action("rack", "enable"))
    assert removed.value.code is ErrorCode.NOT_FOUND
    assert rack.process is not None
    assert rack.process.wait(timeout=60) == 4


@pytest.mark.more
def test_a_new_machine_takes_the_place_of_one_with_its_name(
    studio: Studio, machine: MakeFar, clip: MakeClip, copy: Any
) -> None:
    old, new = machine("pod"), machine("pod")
    start(old)
    until_idle(studio, "pod")
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"))
        studio.running(job, segments=2)
        start(new)
        assert old.process is not None
        assert old.process.wait(timeout=60) == 4
    done = studio.done(job)
    check(done, 12)
    assert [each["worker"] for each in done["attempts_log"]] == ["pod", "pod"]
    assert done["attempts_log"][-1]["resumed_from"] > 0
    assert joins(studio) == [("pod", "token:fleet")] * 2
    assert end(new) == 0


@pytest.mark.more
def test_it_joins_again_only_if_its_token_is_refused(studio: Studio, machine: MakeFar) -> None:
    pod = machine("pod")
    for started, joined in enumerate((1, 1, 2, 2), 1):
        if started == 3:
            studio.send(calls.revoke_token("pod"))
        if started == 4:
            studio.send(calls.revoke_token("fleet"))
        start(pod)
        until_registered(studio, "pod", started)
        assert len(joins(studio)) == joined
        assert end(pod) == 0


@pytest.mark.more
def test_a_machine_waits_for_the_studio_and_ends_meanwhile(machine: MakeFar) -> None:
    pod = machine("pod")
    pod.start("http://127.0.0.1:1", "--name", "pod")
    process = pod.process
    assert process is not None
    assert process.stderr is not None
    assert b"joining failed" in process.stderr.readline()
    process.terminate()
    assert process.wait(timeout=60) == 0


@pytest.mark.more
@pytest.mark.parametrize("options", [("--slots", "2"), ("--name", "other")])
@pytest.mark.parametrize("role", ["worker", "view"])
def test_other_tokens_run_one_worker_of_their_own_name(
    studio: Studio, machine: MakeFar, role: str, options: tuple[str, str]
) -> None:
    far = machine("attic", studio.send(calls.create_token("attic", role))["token"])
    far.start("", *options)
    assert far.process is not None
    _, said = far.process.communicate(timeout=60)
    assert (far.process.returncode, f"the token has the role {role}" in said.decode()) == (2, True)
    assert "tqstudio token create NAME --role join" in said.decode()


@pytest.mark.slow
def test_a_name_of_another_is_refused(studio: Studio, machine: MakeFar) -> None:
    studio.send(calls.create_token("attic", "worker"))
    far = machine("attic")
    start(far)
    assert far.process is not None
    _, said = far.process.communicate(timeout=60)
    assert (far.process.returncode, "choose another one with --name" in said.decode()) == (4, True)
