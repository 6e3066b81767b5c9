"""Selects segments of a running encode for other workers, and encodes such a range.

They share the segment store alone: helpers store later segments, and the encode of the job skips segments
that exist when it reaches them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.missing_runs import VideoRun
from tqstudio.engine.media.encode.runs import Batch, Launcher, Task, batches
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState, streams
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.segments.collector import SeamError
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError


@dataclass(frozen=True, slots=True)
class DivisiblePart:
    """The part of an encode that other workers may make: of each of these streams, some segments."""

    missing: Sequence[tuple[int, int]]
    """Ranges of segments, from the one that is being encoded; each is given by its first one, and its end."""
    segment_s: float
    """Length of a segment."""
    streams: Mapping[str, str]
    """Rendition → stream key."""
    encoder: str
    build: str
    """Build of ffmpeg. Another encoder or another build makes streams that cannot be joined."""


def catches_up(encode: LadderEncode) -> bool:
    """Whether some renditions are being encoded as far as the others; meanwhile the division stays."""
    return any(task.planned is not None and task.planned.stop is not None for task in encode.tasks)


def division(encode: LadderEncode) -> DivisiblePart | None:
    """Return what other workers may make of an encode at present; None for nothing.

    Only the encode itself can tell where the source ends, so the last segment is its own. Where seeking is
    not accurate, a part could begin with the wrong picture.
    """
    spec = encode.spec
    if spec.facts.unseekable or spec.facts.video.still or burnt_subtitles(spec.facts, spec.profile):
        return None
    for task in encode.tasks:
        is_whole = task.planned is not None and task.planned.stop is None
        if task.kind == "video" and is_whole and task.encoder != COPY:
            if not all(output.store.init_path.exists() for output in task.outputs):
                return None  # others compare theirs with it
            front = min(output.complete_segments for output in task.outputs)
            stored = frozenset.intersection(*(output.ahead for output in task.outputs))
            keys = {each.name: each.stream_key for each in encode.renditions if each.name in task.names}
            segment_s = float(spec.grid.segment_s)
            missing = gaps(front, spec.grid.segment_count - 1, stored)
            return DivisiblePart(missing, segment_s, keys, task.encoder, spec.ffmpeg.build)
    return None


def gaps(first: int, end: int, taken: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges from `first` up to `end` without the numbers that are taken."""
    found = []
    for number in sorted({each for each in taken if first <= each < end} | {end}):
        if first < number:
            found.append((first, number))
        first = number + 1
    return found


class RangeEncode:
    """Encodes the segments from `first` up to `end` of some streams, which are another worker's job.

    Call `step` as that of `LadderEncode`, from the main thread. Whatever fails ends it: the worker that has
    the job comes to these segments too, and knows what to do.
    """

    def __init__(self, spec: EncodeSpec, first: int, end: int, wanted: Mapping[str, str]) -> None:
        """
        Args:
            wanted: rendition → stream key.

        Raises:
            TqError: UNSUPPORTED if this worker does not encode all of these streams.
        """
        self._spec, self._first, self._end = spec, first, end
        self._launcher = Launcher(spec)
        self.runs = self._launcher.records
        self._states = {rung.name: found for rung in spec.rungs if (found := _find(spec, rung, wanted))}
        if self._states.keys() != wanted.keys():
            raise TqError(ErrorCode.UNSUPPORTED, "this worker has another encoder or another ffmpeg")
        self._batches = deque(batches(list(self._states.values())))
        self._task: Task | None = None
        self.done = dict.fromkeys(self._states, 0)
        """Finished segments by rendition."""
        self.last_advance = time.monotonic()

    def step(self) -> bool:
        """Store finished segments and start the next run; False when all is done.

        Raises:
            TqError, InitDiffersError, SeamError, OwnershipLostError: it cannot be continued; call `kill`.
        """
        task = self._task
        if task is None:
            if not self._batches:
                return False
            self._start(self._batches.popleft())
            return True
        status = task.run.poll()
        if status is not None:
            task.run.wait()
        if task.has_advanced(self._spec.identity.size):
            self.last_advance = time.monotonic()
        if task.find_damage(self._spec.grid) is not None:
            raise TqError(ErrorCode.SOURCE_DAMAGED, "the source is damaged here")
        task.require_like_cpu()
        try:
            self._collect(task, ended=status == 0)
        except SeamError:
            assert task.batch is not None
            if task.batch.early or not self._is_unfinished(task):
                raise
            self.kill()
            self._start(replace(task.batch, early=True))
            return True
        if status is None:
            return True
        if status != 0:
            raise classify_exit(status, task.run.log_tail())
        if self._is_unfinished(task):
            raise TqError(ErrorCode.OUTPUT_EMPTY, "the source has fewer pictures than expected")
        self.kill()
        return True

    def kill(self) -> None:
        """Kill its ffmpeg. Idempotent."""
        if self._task is not None:
            self._launcher.end(self._task)
            self._task = None

    def _start(self, batch: Batch) -> None:
        first, end = (self._spec.grid.fragments_of(each).start for each in (self._first, self._end))
        planned = VideoRun(first, end, batch.names, apart=True)
        stores = {name: SegmentStore(self._states[name].directory) for name in batch.names}
        self._task = self._launcher.video(planned, stores, batch)
        self.last_advance = time.monotonic()

    def _collect(self, task: Task, *, ended: bool) -> None:
        for output in task.outputs:
            output.collect([], ended=ended)
            self.done[output.name] = output.complete_segments - self._first

    def _is_unfinished(self, task: Task) -> bool:
        return any(output.complete_segments < self._end for output in task.outputs)


def _find(spec: EncodeSpec, rung: Rung, wanted: Mapping[str, str]) -> RenditionState | None:
    if rung.name not in wanted or rung.skipped or rung.is_audio_only:
        return None
    return next((state for state in streams(spec, rung) if state.stream_key == wanted[rung.name]), None)
