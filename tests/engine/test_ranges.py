"""Running jobs are divided among idle workers: who gets which segments, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import Worker
from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.ranges import Range, Ranges, cut, joined, without
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.lifecycle import Control
from tqstudio.protocol import calls
from tqstudio.protocol.requests import Division, RangeAbility

from .conftest import Desk
from .test_api import error_of, report

OWNER = LeaseToken(1, 1, "its own")
KEYS = {"720p": "one", "360p": "two"}
OFFERED: dict[str, Any] = {"segment_s": 6, "encoder": "libx264", "build": "a build"}
ABILITY = RangeAbility(build="a build", encoders=["libx264", "libx265"])


class Machine:
    """A running job, and the time since boot in seconds."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.now_s = 0
        clock = RunningClock(1_000_000_000, lambda: self.now_s * 1_000_000)
        self.running_jobs = RunningJobs(Leases(1, 60_000_000, 10_000_000, clock))
        self.running_jobs.begin(OWNER, "cpu-0", 0)
        # Three segments of 6 s in half a minute.
        self.running_jobs.jobs[1] = replace(self.running_jobs.jobs[1], speed=0.6)
        self.ranges = Ranges(self.running_jobs, enabled=enabled, lease_us=60_000_000)

    def offer(self, *missing: tuple[int, int], owner: LeaseToken = OWNER, **streams: str) -> Machine:
        offered = Division(missing=list(missing), streams=streams or KEYS, **OFFERED)
        self.ranges.offer(owner, offered)
        return self

    def assign(self, instance: str) -> Range | None:
        return self.ranges.assign(instance, f"worker {instance}", "cpu", ABILITY)

    def assigned(self, instance: str) -> tuple[int, int]:
        found = self.assign(instance)
        assert found is not None
        return found.first, found.end

    def end(self, part: Range | None, problem: str = "") -> None:
        assert part is not None
        self.ranges.end(part.token, problem)


@pytest.mark.parametrize(
    ("ranges", "taken", "left"),
    [
        ([(0, 9)], [], [(0, 9)]),
        ([(0, 9)], [(3, 5)], [(0, 3), (5, 9)]),
        ([(0, 9)], [(0, 9)], []),
        ([(0, 4), (6, 9)], [(2, 7), (8, 12)], [(0, 2), (7, 8)]),
        ([(3, 3), (5, 6)], [(0, 1)], [(5, 6)]),
    ],
)
def test_what_is_taken_is_left_out(ranges: Any, taken: Any, left: Any) -> None:
    assert without(ranges, taken) == left


@pytest.mark.parametrize(
    ("free", "wanted", "workers", "found"),
    [
        ([(1, 100)], 3, 2, (97, 100)),
        ([(1, 100)], 80, 2, (51, 100)),
        ([(1, 100)], 0, 2, (99, 100)),
        ([(1, 4), (6, 8)], 9, 2, (6, 8)),
        ([(1, 4)], 9, 2, (3, 4)),
        ([(1, 3)], 9, 2, None),
        ([], 9, 2, None),
    ],
)
def test_a_range_is_cut_from_the_end(free: Any, wanted: int, workers: int, found: Any) -> None:
    assert cut(free, wanted, workers) == found


@pytest.mark.parametrize("speeds", [(1,), (1, 1), (1, 2, 4), (3, 1), (1,) * 15])
def test_all_finish_at_about_the_same_time(speeds: tuple[int, ...]) -> None:
    """Workers of several speeds make an hour; no segment is made twice but at the end."""
    machine, count, front = Machine(), 600, 0
    at: dict[str, float] = {f"w{number}": 0.0 for number in range(len(speeds))}
    speed = dict(zip(at, speeds, strict=True))
    held: dict[str, Range | None] = dict.fromkeys(at)
    stored: set[int] = set()
    made = 0
    for now in range(100_000):
        machine.now_s = now
        if front == count:
            break
        # Its own worker makes a segment a second, and goes where one is missing.
        if now:
            stored.add(front)
            made += 1
        while front in stored:
            front += 1
        gaps = without([(front, count)], [(each, each + 1) for each in stored])
        machine.offer(*gaps) if gaps else None
        for name in at:
            if (part := held[name]) is not None and at[name] <= now:
                stored |= set(range(part.first, part.end))
                made += part.end - part.first
                machine.end(part)
                held[name] = None
            if held[name] is None and (part := machine.assign(name)) is not None:
                held[name], at[name] = part, now + (part.end - part.first) / speed[name]
        machine.ranges.heartbeat([part.token for part in held.values() if part is not None])
    ideal = count / (1 + sum(speeds))
    assert made <= count + 2 * len(speeds)
    assert machine.now_s <= ideal * 1.1 + 4


def test_nothing_is_assigned_twice() -> None:
    machine = Machine().offer((0, 20))
    assert [machine.assigned(each) for each in "ab"] == [(17, 20), (14, 17)]
    view = machine.ranges.view(1)
    assert view is not None
    assert [(each["worker"], each["first"], each["end"]) for each in view["ranges"]] == [
        ("worker b", 14, 17),
        ("worker a", 17, 20),
    ]
    assert view["missing"] == [(0, 20)]
    assert view["renditions"] == ["360p", "720p"]


def test_what_is_made_is_not_assigned_again_before_its_worker_has_seen_it() -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    machine.now_s = 10
    machine.end(part)
    assert machine.assigned("a") == (9, 17), "nine in thirty seconds, but at most half of sixteen"
    machine.offer((1, 17))
    assert machine.assigned("b") == (7, 9)


def test_what_was_not_made_is_assigned_to_another() -> None:
    machine = Machine().offer((0, 20))
    machine.end(machine.assign("a"), "ENCODER_EXIT: it exits")
    assert machine.assign("a") is None, "it could not make it"
    assert machine.assigned("b") == (17, 20)
    machine.now_s = 61
    assert machine.assigned("a") == (17, 20), "perhaps it can now"
    assert machine.offer((0, 20), a="another").assigned("c") == (17, 20)


def test_a_range_ends_without_heartbeats() -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    assert part is not None
    machine.now_s = 59
    assert machine.ranges.heartbeat([part.token, OWNER]) == [part.token]
    machine.now_s = 118
    assert machine.ranges.is_live(part.token)
    machine.now_s = 119
    assert not machine.ranges.is_live(part.token)
    assert machine.assigned("b") == (17, 20)
    assert machine.ranges.of_worker("worker a") is None


@pytest.mark.parametrize("why", ["control", "ended", "claimed again", "other streams", "nothing left", "off"])
def test_a_range_ends_with_the_encode(why: str) -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    assert part is not None
    match why:
        case "control":
            machine.running_jobs.control(1, Control.PAUSE)
        case "ended":
            machine.running_jobs.end(1)
        case "claimed again":
            machine.running_jobs.begin(LeaseToken(1, 2, "another"), "cpu-1", 0)
        case "other streams":
            machine.offer((0, 20), **{"480p": "three"})
        case "nothing left":
            machine.ranges.offer(OWNER, Division(missing=[], streams=KEYS, **OFFERED))
        case "off":
            machine.ranges.offer(OWNER, None)
    assert not machine.ranges.is_live(part.token)
    assert machine.ranges.heartbeat([part.token]) == []
    assert why == "other streams" or machine.assign("b") is None


def test_a_job_of_another_machine_is_offered_when_its_headers_are_here() -> None:
    """Workers that began before were refused, and idle for a minute."""
    machine = Machine()
    machine.ranges.begin_to_receive(OWNER, ["720p/one/seg_00000.m4s"])
    machine.offer((0, 30))
    assert (machine.ranges.is_any_offered, machine.assign("a")) == (False, None)
    machine.ranges.note_received(OWNER, ["720p/one/init.mp4"])
    assert machine.offer((0, 30)).assign("a") is None, "of the other quality it is not"
    machine.ranges.note_received(OWNER, ["360p/two/init.mp4"])
    assert machine.offer((0, 30)).assign("a") is not None


def test_a_later_attempt_waits_for_its_own_headers() -> None:
    machine = Machine()
    machine.ranges.begin_to_receive(OWNER, ["720p/one/init.mp4", "360p/two/init.mp4"])
    machine.running_jobs.end(1)
    later = replace(OWNER, epoch=2)
    machine.running_jobs.begin(later, "cpu-0", 0)
    machine.ranges.begin_to_receive(later, [])
    assert machine.offer((0, 30), owner=later).assign("a") is None


def test_a_job_that_began_before_a_restart_is_offered() -> None:
    """Its worker sends `init.mp4` no second time."""
    machine = Machine()
    machine.ranges.note_received(OWNER, ["720p/one/seg_00017.m4s"])
    assert machine.offer((0, 30)).assign("a") is not None


def test_it_can_be_switched_off() -> None:
    machine = Machine(enabled=False).offer((0, 20))
    assert machine.assign("a") is None
    assert not machine.ranges.is_any_offered


def claim(worker: Worker) -> Any:
    return worker.send("claim", wait_s=0, ranges=ABILITY.model_dump())["job"]


def beat(worker: Worker, claimed: Any) -> Any:
    named = [{"job": claimed["job"], "epoch": claimed["epoch"]}]
    return worker.send("heartbeat", jobs=named)


def divided(desk: Desk) -> tuple[Worker, Any]:
    owner, job = desk.running()
    report(owner, job, 1.0, speed=0.6, division={"missing": [[0, 20]], "streams": KEYS, **OFFERED})
    return owner, job


def test_an_idle_worker_gets_a_range(desk: Desk) -> None:
    owner, job = divided(desk)
    assert desk.worker().claim() is None, "one of an earlier version gets none"
    other = desk.worker()
    part = claim(other)
    assert part["range"] == {"first": 17, "end": 20, "streams": KEYS}
    same = ("job", "epoch", "video", "source", "work_dir", "profile", "facts", "dropped")
    assert {key: part[key] for key in same} == {key: job[key] for key in same}
    assert part["log"] != job["log"]
    assert desk.show(job["job"])["predicted_s"] is None
    assert beat(other, part) == {"controls": {}, "lost": []}
    progress = {"step": "transcode", "progress": 0, "renditions": []}
    for name, done in (("720p", 2), ("360p", 1)):
        progress["renditions"].append({"name": name, "status": "in_progress", "segments_done": done})
    other.send(f"jobs/{job['job']}/progress", epoch=part["epoch"], **progress)
    shown = desk.show(job["job"])
    assert shown["worker"] == owner.name
    assert shown["division"]["ranges"] == [{"worker": other.name, "first": 17, "end": 20, "done": 1}]
    workers = {each["name"]: each for each in desk.live.send(calls.workers())["workers"]}
    assert (workers[other.name]["status"], workers[other.name]["job"]) == ("busy", job["job"])
    other.send(f"jobs/{job['job']}/range", epoch=part["epoch"])
    assert desk.show(job["job"])["division"]["ranges"] == []


def test_a_job_that_waits_goes_before_a_range(desk: Desk) -> None:
    divided(desk)
    waiting = desk.job()
    other = desk.worker()
    assert claim(other)["job"] == waiting


@pytest.mark.parametrize("how", ["disable", "drain"])
def test_a_worker_that_may_not_work_gets_no_range(desk: Desk, how: str) -> None:
    divided(desk)
    other = desk.worker()
    desk.live.send(calls.worker_action(other.name, how))
    assert claim(other) is None


def test_no_range_is_assigned_while_the_queue_is_paused(desk: Desk) -> None:
    divided(desk)
    other = desk.worker()
    desk.live.send(calls.pause_queue())
    try:
        assert claim(other) is None
    finally:
        desk.live.send(calls.resume_queue())
    assert claim(other)["range"]["end"] == 20


def test_a_range_gives_no_right_to_the_job(desk: Desk) -> None:
    owner, job = divided(desk)
    other = desk.worker()
    part = claim(other)
    number, token = part["job"], {"instance": other.instance, "epoch": part["epoch"]}
    failing = {**token, "code": "NO_MEDIA", "text": "no video in it"}
    error_of(other.post(f"jobs/{number}/fail", **failing), 409)
    error_of(other.post(f"jobs/{number}/release", **token, reason="shutdown"), 409)
    assert desk.show(number)["status"] == "in_progress"
    assert beat(owner, job)["lost"] == []


def test_a_pause_ends_the_range_at_its_next_report(desk: Desk) -> None:
    _, job = divided(desk)
    other = desk.worker()
    part = claim(other)
    desk.act("pause", job["job"])
    progress = {"instance": other.instance, "epoch": part["epoch"], "step": "transcode", "progress": 0}
    error_of(other.post(f"jobs/{job['job']}/progress", **progress), 409)
    assert beat(other, part)["lost"] == [job["job"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"streams": None},
        {"segment_s": 0},
        {"missing": [[0, -1]]},
        {"missing": [[0]]},
        {"missing": [[0, 10**9]]},
        {"missing": [[0, 1]] * 10_001},
        {"streams": {"x" * 41: "one"}},
    ],
)
def test_what_is_no_division_is_refused(desk: Desk, wrong: dict[str, Any]) -> None:
    owner, job = desk.running()
    division = {"missing": [[0, 20]], "streams": KEYS, **OFFERED} | wrong
    body = {"epoch": job["epoch"], "step": "transcode", "progress": 0, "division": division}
    status, _ = owner.post(f"jobs/{job['job']}/progress", instance=owner.instance, **body)
    assert status in (400, 422)


@pytest.mark.parametrize(("speed", "first"), [(None, 19), (0.05, 19), (0.6, 17), (1.2, 14), (50.0, 11)])
def test_the_first_range_is_by_the_speed_of_the_job(speed: float | None, first: int) -> None:
    """About half a minute, which a job that is added meanwhile may have to wait, but at most half of it."""
    machine = Machine()
    machine.running_jobs.jobs[1] = replace(machine.running_jobs.jobs[1], speed=speed)
    assert machine.offer((0, 20)).assigned("a") == (first, 20)


def test_a_finished_range_is_not_missing_before_the_worker_of_the_job_has_found_it() -> None:
    machine = Machine().offer((2, 19))
    assert machine.ranges.view(1) is None, "no other worker works on it"
    part = machine.assign("a")
    assert part is not None
    machine.ranges.progress(part.token, 2, 0.0)
    assert machine.ranges.view(1) == {
        "renditions": ["360p", "720p"],
        "missing": [(2, 19)],
        "ranges": [{"worker": "worker a", "first": 16, "end": 19, "done": 2}],
    }
    machine.end(part)
    shown = {"renditions": ["360p", "720p"], "missing": [(2, 16)], "ranges": []}
    assert machine.ranges.view(1) == shown
    assert machine.offer((3, 16)).ranges.view(1) == shown | {"missing": [(3, 16)]}
    machine.ranges.offer(OWNER, None)
    assert machine.ranges.view(1) is None


@pytest.mark.parametrize(("end", "step"), [(17, "seg 16"), (18, "seg 16–17"), (1201, "seg 16–1200")])
def test_a_worker_names_the_segments_it_makes(end: int, step: str) -> None:
    assert Range(OWNER, "cpu-1", "cpu", 16, end, {}, 0, 1).shown_step == step


@pytest.mark.parametrize(
    "other",
    [{"build": "another"}, {"encoders": ["h264_nvenc"]}, {"encoders": []}],
)
def test_workers_that_encode_otherwise_get_no_range(other: dict[str, Any]) -> None:
    machine = Machine().offer((0, 20))
    ability = ABILITY.model_copy(update=other)
    assert machine.ranges.assign("a", "worker a", "gpu", ability) is None
    assert machine.ranges.helping_gpus() == 0


def test_a_gpu_that_helps_counts_as_soon_free() -> None:
    machine = Machine().offer((0, 20))
    assert machine.ranges.assign("a", "gpu-0", "gpu", ABILITY) is not None
    assert machine.ranges.helping_gpus() == 1
    machine.ranges.forget_worker("gpu-0")
    assert machine.ranges.helping_gpus() == 0


def test_a_gpu_that_was_blocked_and_died_does_not_count_for_ever() -> None:
    machine = Machine().offer((0, 20))
    part = machine.ranges.assign("a", "gpu-0", "gpu", ABILITY)
    assert part is not None
    machine.ranges.progress(part.token, 0, 0.5)
    machine.now_s = 61
    assert machine.ranges.helping_gpus() == 0
    assert machine.assigned("b") == (part.first, 20), "its segments are given to another"


def test_a_range_of_other_streams_is_not_counted() -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    machine.offer((0, 20), **{"480p": "three"})
    machine.end(part)
    assert machine.assigned("b") == (17, 20)


def test_a_blocked_worker_is_found_also_after_its_range() -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    assert part is not None
    machine.ranges.progress(part.token, 0, 6.0)
    assert machine.ranges.blocked(120.0, 5.0) == []
    machine.running_jobs.end(1)
    assert machine.ranges.blocked(120.0, 5.0) == ["worker a"]
    assert machine.assign("b") is None
    assert machine.ranges.blocked(120.0, 5.0) == ["worker a"], "it has not noticed yet"
    machine.ranges.progress(part.token, 0, 0.0)
    assert machine.ranges.blocked(120.0, 5.0) == []


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("720p/one/seg_00017.m4s", True),
        ("720p/one/seg_00016.m4s", False),
        ("720p/one/seg_00020.m4s", False),
        ("720p/two/seg_00017.m4s", False),
        ("480p/one/seg_00017.m4s", False),
        ("720p/one/init.mp4", True),
        ("720p/one/complete.json", False),
        ("720p/one/fragments/frag_00051.m4s", True),
        ("720p/one/other/frag_00051.m4s", False),
        ("poster.jpg", False),
    ],
)
def test_a_range_includes_its_segments(path: str, *, allowed: bool) -> None:
    machine = Machine().offer((0, 20))
    part = machine.assign("a")
    assert part is not None
    assert machine.ranges.includes(part.token, path.split("/")) is allowed


def test_adjoining_ranges_are_one() -> None:
    assert joined([(8, 9), (0, 3), (3, 5), (4, 6)]) == [(0, 6), (8, 9)]
