"""A worker that slept in the middle of a step, beyond its lease, and wakes beside its successor."""

from __future__ import annotations

import shutil

import pytest

from tqstudio.engine.media.encode.finish import finish
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import OwnershipLostError
from tqstudio.engine.media.segments.store import SegmentStore

from .conftest import MakeClip, MakeEncode, run_to_end


def _stored(encode: LadderEncode) -> dict[str, tuple[str, ...]]:
    """Names of the finished segments of each quality."""
    video = (state for state in encode.renditions if state.kind == "video")
    return {state.name: SegmentStore(state.directory).listing() for state in video}


@pytest.mark.slow
@pytest.mark.fault(
    "A worker is suspended beyond its lease and continues beside the next one",
    "It stores, verifies and removes nothing",
    area="resume",
)
def test_it_judges_nothing_of_what_its_successor_made(clip: MakeClip, encode: MakeEncode) -> None:
    source = clip("late.mp4", seconds=10)
    sleeps = False
    late = encode(source, is_owner=lambda: not sleeps)
    late.start()
    for task in late.tasks:  # its ffmpegs keep running while it sleeps
        task.run.wait()
    sleeps = True
    shutil.rmtree(late.spec.scratch)  # as the successor does
    own = encode(source)
    run_to_end(own, lambda: min(map(len, _stored(own).values())) >= 2)
    before = _stored(own)
    with pytest.raises(OwnershipLostError):
        late.step()
    with pytest.raises(OwnershipLostError):
        finish(late.spec, [state for state in own.renditions if state.kind == "video"])
    late.kill(store=False)
    assert all(set(names) <= set(_stored(own)[quality]) for quality, names in before.items())
    run_to_end(own)
    assert (own.state, own.warnings) == ("done", [])
    assert [run.starts_at_s for run in own.runs if run.label.startswith("video")] == [0]
