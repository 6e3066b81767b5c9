"""What lists of jobs and workers show of a job that is divided among several workers."""

from __future__ import annotations

import pytest

from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.ranges import Range, Ranges
from tqstudio.engine.live.running_jobs import LiveBoard
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.protocol.requests import Division

OWNER = Token(1, 4, "one")


def test_a_finished_range_is_not_missing_before_the_worker_of_the_job_has_found_it() -> None:
    board = LiveBoard(Leases(1, 10**9, 10**9, RunningClock(1000)))
    board.begin(OWNER, "cpu-0", 0)
    ranges = Ranges(board, enabled=True, lease_us=10**9)
    offered = Division(missing=[(2, 19)], streams={"720p": "key", "360p": "other"})
    ranges.offer(OWNER, offered)
    assert ranges.view(1) is None, "nobody else works on it"
    found = ranges.assign("two", "cpu-1")
    assert found is not None
    assert (found.first, found.end, found.shown_step) == (16, 19, "seg 16–18")
    ranges.progress(found.token, 2)
    assert ranges.view(1) == {
        "renditions": ["360p", "720p"],
        "missing": [(2, 19)],
        "ranges": [{"worker": "cpu-1", "first": 16, "end": 19, "done": 2}],
    }
    ranges.end(found.token, "")
    shown = {"renditions": ["360p", "720p"], "missing": [(2, 16)], "ranges": []}
    assert ranges.view(1) == shown
    ranges.offer(OWNER, Division(missing=[(3, 16)], streams=offered.streams))
    assert ranges.view(1) == shown | {"missing": [(3, 16)]}
    ranges.offer(OWNER, None)
    assert ranges.view(1) is None


@pytest.mark.parametrize(("end", "step"), [(17, "seg 16"), (18, "seg 16–17"), (1201, "seg 16–1200")])
def test_a_worker_names_the_segments_it_makes(end: int, step: str) -> None:
    assert Range(OWNER, "cpu-1", 16, end, {}, 0, 1).shown_step == step
