"""What is recorded of running jobs: who made which segments, and the course of speeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tqstudio.engine.live.recorder import Course, Recorded, Recorder
from tqstudio.engine.store.db.event_row import EventRow

from .test_ranges import OWNER, Machine

pytestmark = pytest.mark.anyio


def quality(done: int, total: int = 20, name: str = "720p") -> Any:
    return {"name": name, "segments_done": done, "segments_total": total}


def event(target: str, kind: str = "complete") -> EventRow:
    return EventRow(1, 1, kind, OWNER.job, 1, None, "in_progress", target, "worker", None, None)


class Watched:
    """A divided job, and what is recorded of it."""

    def __init__(self) -> None:
        self.machine = Machine().offer((0, 19))
        self.recorder = Recorder(self.machine.running_jobs, self.machine.ranges)

    async def start(self, *, adopts: bool = False) -> Watched:
        """Look once, before the job runs unless it is adopted."""
        running, self.machine.running_jobs.jobs = self.machine.running_jobs.jobs, {}
        if adopts:
            self.machine.running_jobs.jobs = running
        await self.recorder.sample()
        self.machine.running_jobs.jobs = running
        return self

    async def report(self, done: int, **more: Any) -> None:
        live = self.machine.running_jobs.jobs[OWNER.job]

        self.machine.running_jobs.jobs[OWNER.job] = replace(live, renditions=(quality(done),), **more)
        await self.recorder.sample()

    @property
    def runs(self) -> list[tuple[str | None, int]]:
        return list(self.recorder.jobs[OWNER.job].runs("720p"))


async def test_each_segment_is_of_the_worker_that_made_it() -> None:
    watched = await Watched().start()
    await watched.report(2)
    assert watched.runs == [("cpu-0", 2), (None, 18)]
    part = watched.machine.assign("b")
    assert part is not None
    watched.machine.ranges.progress(part.token, 2, 0.0)
    await watched.report(3 + 2)
    middle = part.first - 3
    assert watched.runs == [("cpu-0", 3), (None, middle), ("worker b", 2), (None, 20 - part.first - 2)]
    assert watched.recorder.jobs[OWNER.job].front("720p") == 3
    # The job's own worker knows of a segment of the other one before its report.
    await watched.report(4 + 2)
    assert watched.runs[0] == ("cpu-0", 4)
    # It ends between two looks, after the rest of its range.
    watched.machine.end(part)
    await watched.report(4 + part.end - part.first)
    assert watched.runs[0] == ("cpu-0", 4)
    assert dict(watched.runs)["worker b"] == part.end - part.first
    # The job's own worker passes what the other one made.
    await watched.report(20)
    assert watched.runs == [("cpu-0", part.first), ("worker b", part.end - part.first), ("cpu-0", 1)]


async def test_what_a_lost_range_lacked_is_missing_until_it_is_made() -> None:
    watched = await Watched().start()
    await watched.report(1)
    part = watched.machine.assign("b")
    assert part is not None
    watched.machine.ranges.progress(part.token, 1, 0.0)
    await watched.report(2 + 1)
    watched.machine.end(part, "its ffmpeg failed")
    await watched.report(2 + 1)
    assert watched.runs[0] == ("cpu-0", 2)
    assert dict(watched.runs)["worker b"] == 1


async def test_what_an_attempt_found_is_of_an_unknown_worker() -> None:
    watched = await Watched().start()
    await watched.report(7, resumed_from=5)
    assert watched.runs == [("", 5), ("cpu-0", 2), (None, 13)]


async def test_a_range_that_was_made_and_joined_between_two_looks_is_of_its_worker() -> None:
    """Then nothing says any more that the job was divided."""
    watched = await Watched().start()
    await watched.report(2)
    part = watched.machine.assign("b")
    assert part is not None
    await watched.report(2)
    size = part.end - part.first
    watched.machine.end(part)
    watched.machine.ranges.offer(OWNER, None)
    assert watched.machine.ranges.view(OWNER.job) is None
    await watched.report(2 + size)
    assert watched.runs[:3] == [("cpu-0", 2), (None, part.first - 2), ("worker b", size)]


async def test_of_a_job_that_ran_before_the_start_the_makers_are_unknown() -> None:
    watched = await Watched().start(adopts=True)
    await watched.report(7)
    await watched.report(9)
    assert watched.runs == [("", 7), ("cpu-0", 2), (None, 11)]


async def test_a_job_is_forgotten_when_it_has_ended_not_when_it_waits() -> None:
    watched = await Watched().start()
    await watched.report(3)
    watched.machine.running_jobs.end(OWNER.job)
    watched.recorder.on_events([event("pending")])
    await watched.recorder.sample()
    assert watched.runs == [("cpu-0", 3), (None, 17)]
    watched.recorder.on_events([event("done")])
    assert not watched.recorder.jobs


async def test_a_job_that_is_deleted_is_forgotten() -> None:
    """As after the deletion of a paused job, whose former attempts are recorded."""
    watched = await Watched().start()
    await watched.report(3)
    watched.recorder.on_events([event("paused", "deleted")])
    assert not watched.recorder.jobs


def test_another_plan_of_a_quality_begins_again() -> None:
    """As after a restart of the job with other settings, whose ladder has other segments."""
    recorded, live = Recorded(), Machine().running_jobs.jobs[OWNER.job]

    recorded.take(replace(live, renditions=(quality(4),)), None)
    recorded.take(replace(live, renditions=(quality(1, total=10),)), None)
    assert list(recorded.runs("720p")) == [("cpu-0", 1), (None, 9)]


def test_a_course_spans_its_whole_time() -> None:
    course = Course()
    for value in range(1_000):
        course.add(float(value))
    assert 60 <= len(course.values) < 120
    assert course.values[0] < 16 < 900 < course.values[-1]
    steps = {
        round(after - before, 6) for before, after in zip(course.values, course.values[1:], strict=False)
    }
    assert len(steps) == 1


async def test_the_load_is_sampled_every_ten_seconds() -> None:
    watched = await Watched().start()
    for _ in range(20):
        await watched.report(1, speed=0.6)
    assert watched.recorder.load == {"interval_s": 10, "speed": [0.0, 0.6, 0.6], "cpu_percent": [0.0] * 3}
