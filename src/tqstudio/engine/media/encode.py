"""Makes a ladder: runs ffmpeg, stores what it makes, and finds out which rendition fails.

Knows nothing of jobs: the caller asks `step` every 100 – 200 ms from the thread that lives longest (the
parent-death signal of ffmpeg also fires when the spawning thread ends) and reads the properties.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tqstudio.engine.media.encode_runs import Launcher, Task
from tqstudio.engine.media.encode_state import (
    ALMOST,
    EncodeSpec,
    RenditionState,
    RunRecord,
    State,
    look_up_audio,
    look_up_video,
)
from tqstudio.engine.media.ladder import AudioRendition, audio_renditions
from tqstudio.engine.media.layout import CPU_ENCODER, GPU_ENCODERS, POSTER_NAME
from tqstudio.engine.media.plan import plan
from tqstudio.engine.media.process import classify_exit, from_os_error
from tqstudio.engine.media.rendition import RenditionCheck
from tqstudio.engine.media.segment_store import SegmentStore
from tqstudio.engine.media.segments import verified_prefix
from tqstudio.engine.media.stream import InitDiffersError, NewSegment, StreamOutput
from tqstudio.engine.media.verify import check_end
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of


@dataclass
class _Batch:
    """A video run to be made."""

    names: list[str]
    encoder: str


class LadderEncode:
    """One encode of one source, from its first `step` to `done`, `failed` or `killed`."""

    def __init__(self, spec: EncodeSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: State = "idle"
        self.error: TqError | None = None
        """Why it failed."""
        self.warnings: list[str] = []
        """What a person should know though it is done: fallbacks, optional renditions that failed."""
        self.poster: Path | None = None
        """The poster in the scratch directory, once made."""
        self.last_advance = clock()
        """Clock time at which something was last seen to move; the caller decides what a stall is."""
        self._spec = spec
        self._clock = clock
        self._rungs = {rung.name: rung for rung in spec.rungs if not rung.skipped}
        self._audio: dict[str, AudioRendition] = {
            rendition.name: rendition for rendition in audio_renditions(spec.facts, spec.profile)
        }
        self._states: dict[str, RenditionState] = {}
        self._batches: deque[_Batch] = deque()
        self._tasks: list[Task] = []
        self._launcher = Launcher(spec)
        self._poster_at_start = False

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """Every ffmpeg run so far, in the order of their start."""
        return tuple(self._launcher.records)

    @property
    def renditions(self) -> tuple[RenditionState, ...]:
        """Every rendition that is to exist: video largest first, then audio."""
        return tuple(self._states.values())

    @property
    def fraction(self) -> float:
        """Progress of the video, weighted by pixels: 0 … 1."""
        video = [state for state in self._states.values() if state.kind == "video"]
        pixels = sum(state.pixels for state in video)
        return sum(state.fraction * state.pixels for state in video) / pixels if pixels else 0.0

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running ffmpegs."""
        return tuple(task.run.pid for task in self._tasks)

    def start(self) -> None:
        """Look at what the store has, and start what is missing. Finished renditions are not made again."""
        spec = self._spec
        self.state = "running"
        for rung in self._rungs.values():
            self._states[rung.name] = look_up_video(spec, rung)
        for rendition in self._audio.values():
            self._states[rendition.name] = look_up_audio(spec, rendition)
        missing = [name for name in self._rungs if self._states[name].status != "completed"]
        if missing:
            self._batches.append(_Batch(missing, spec.encoder))
        try:
            for name, rendition in self._audio.items():
                if self._states[name].status != "completed":
                    self._start_audio(rendition)
            if spec.poster:
                self._watch(self._launcher.poster(None))
            self._next()
        except TqError as error:
            self._give_up(error)

    def step(self) -> list[NewSegment]:
        """Look at the runs, store what they finished, start what comes next. Call it until `state` changes.

        Returns:
            The segments that were stored by this call.
        """
        new: list[NewSegment] = []
        for task in list(self._tasks):
            try:
                self._advance(task, new)
            except InitDiffersError as differs:
                self._end_task(task)
                self.warnings.append(f"{differs}: its finished segments cannot be continued; it starts again")
                self._batches.appendleft(_Batch(task.names, task.encoder))
            except (TqError, OSError) as error:
                self._end_task(task)
                self._task_failed(
                    task, error if isinstance(error, TqError) else from_os_error(error, "the encode stopped")
                )
            if self.state != "running":
                return new
        if new:
            self.last_advance = self._clock()
        try:
            self._next()
        except TqError as error:
            self._give_up(error)
        return new

    def kill(self) -> None:
        """End every ffmpeg now. What is stored stays. May be called at any time, again and again."""
        for task in list(self._tasks):
            self._end_task(task)
        self._batches.clear()
        for state in self.renditions:
            if state.status == "in_progress":
                self._update(state.name, status="pending", speed=None)
        if self.state in ("idle", "running"):
            self.state = "killed"

    # Starting runs

    def _next(self) -> None:
        """Start the next video run when none is under way; conclude when nothing is left."""
        if self.state != "running":
            return
        if not any(task.kind == "video" for task in self._tasks) and self._batches:
            self._start_video(self._batches.popleft())
        if not self._tasks and not self._batches:
            self._conclude()

    def _start_video(self, batch: _Batch) -> None:
        spec = self._spec
        for name in batch.names:
            if self._states[name].encoder != batch.encoder:
                self._change_encoder(name, batch.encoder)
        stores = {name: SegmentStore(self._states[name].directory) for name in batch.names}
        prefixes = (
            {name: verified_prefix(stores[name].root, spec.grid) for name in batch.names}
            if spec.resume_segments
            else {}
        )
        todo = plan(
            spec.grid,
            [self._rungs[name] for name in batch.names],
            prefixes,
            frozenset(),
            spec.resume_segments,
        )
        self._watch(self._launcher.video(todo.rungs, stores, batch.encoder, todo.resume_at))
        for name in batch.names:
            self._update(name, status="in_progress")

    def _start_audio(self, rendition: AudioRendition) -> None:
        store = SegmentStore(self._states[rendition.name].directory)
        self._watch(self._launcher.audio(rendition, store))
        self._update(rendition.name, status="in_progress")

    def _watch(self, task: Task) -> None:
        self._tasks.append(task)
        self.last_advance = self._clock()

    # Watching runs

    def _advance(self, task: Task, new: list[NewSegment]) -> None:
        """Store what a run finished, adding to `new`, and see to its end."""
        # The exit status is read first: what is collected after it is all there will be.
        status = task.run.poll()
        if status is not None:
            task.run.wait()
        for output in task.outputs:
            output.collect(new, ended=status == 0)
            self._update_progress(task, output)
        if status is None:
            return
        if status != 0:
            raise classify_exit(status, task.run.log_tail())
        if task.kind == "poster":
            self._poster_made(task)
        else:
            self._streams_made(task)
        self._end_task(task)

    def _update_progress(self, task: Task, output: StreamOutput) -> None:
        spec, state = self._spec, self._states[output.name]
        frame = task.run.progress.frame or 0
        if frame > task.last_frame:
            task.last_frame = frame
            self.last_advance = self._clock()
        done = max(state.segments_done, output.next_segment)
        total = max(state.segments_total, done)
        fraction = done / total
        speed = task.run.progress.speed
        if task.kind == "video":
            made = task.resumed_from * spec.grid.seg_frames + task.last_frame
            fraction = max(fraction, made / spec.grid.total_frames)
            elapsed = time.monotonic() - task.run.started
            speed = task.last_frame / float(spec.grid.fps) / elapsed if task.last_frame else None
        self._update(
            output.name,
            segments_done=done,
            segments_total=total,
            fraction=max(state.fraction, min(ALMOST, fraction)),
            speed=speed,
        )

    def _streams_made(self, task: Task) -> None:
        """Verify what a run made that ended with 0. A rendition that does not pass fails alone."""
        failures: dict[str, TqError] = {}
        passed: list[tuple[StreamOutput, RenditionCheck]] = []
        for output in task.outputs:
            try:
                passed.append((output, output.check()))
            except TqError as error:
                # Whatever is wrong with it must not be found again by the next run.
                output.store.discard()
                failures[output.name] = error
        if task.kind == "video":
            try:
                for frames in {check.frames for _, check in passed}:
                    check_end(self._spec.source, self._spec.facts, self._spec.grid, frames)
            except TqError as error:
                # It concerns the source, so every rendition alike: making them one by one shows nothing new.
                self._give_up(error)
                return
        for output, check in passed:
            output.mark_complete(check, task.encoder)
            self._update(
                output.name,
                status="completed",
                check=check,
                segments_done=len(check.segments),
                segments_total=len(check.segments),
                fraction=1.0,
                speed=None,
            )
        self.last_advance = self._clock()
        for name, failure in failures.items():
            if len(task.outputs) > 1:
                self._batches.append(_Batch([name], task.encoder))
            else:
                self._rendition_failed(name, failure)

    def _poster_made(self, task: Task) -> None:
        made = task.directory / POSTER_NAME
        if not made.exists() or not made.stat().st_size:
            # A seek behind the last frame ends with 0 and writes nothing.
            raise TqError(ErrorCode.OUTPUT_EMPTY, "the poster is empty")
        self.poster = made.replace(self._spec.scratch / POSTER_NAME)

    def _end_task(self, task: Task) -> None:
        self._launcher.end(task)
        if task in self._tasks:
            self._tasks.remove(task)

    # When something fails

    def _task_failed(self, task: Task, error: TqError) -> None:
        """Decide what follows: give up, fall back to the CPU, try one by one, or fail one rendition."""
        names = task.names
        if task.kind == "poster":
            if not self._poster_at_start and self._spec.profile.poster_position > 0:
                # Behind the last picture there is nothing to be had; the first is always there.
                self._poster_at_start = True
                with contextlib.suppress(TqError):
                    self._watch(self._launcher.poster(0.0))
            else:
                self.warnings.append(f"no poster was made: {error.message}")
        elif class_of(error.code) in (ErrorClass.FATAL, ErrorClass.RESOURCE):
            # Neither another encoder nor another order helps.
            self._give_up(error)
        elif task.encoder in GPU_ENCODERS:
            self.warnings.append(f"{task.encoder} failed, {CPU_ENCODER} goes on: {error.message}")
            self._batches.append(_Batch(names, CPU_ENCODER))
        elif len(names) > 1:
            # One failing output ends its siblings. One by one, the culprit fails alone.
            self.warnings.append(f"the qualities are made one by one: {error.message}")
            self._batches.extend(_Batch([name], task.encoder) for name in names)
        else:
            self._rendition_failed(names[0], error)

    def _rendition_failed(self, name: str, error: TqError) -> None:
        self._update(name, status="failed", error=error, speed=None)
        if not self._states[name].required:
            self.warnings.append(f"{name} was left out: {error.message}")

    def _give_up(self, error: TqError) -> None:
        self.kill()
        self.state = "failed"
        self.error = error

    def _conclude(self) -> None:
        """Nothing runs and nothing is left to start: is this the whole ladder?"""
        self._require_same_length()
        failed = [state for state in self._states.values() if state.status == "failed"]
        required = next((state for state in failed if state.required), None)
        made = any(state.status == "completed" and state.kind == "video" for state in self._states.values())
        if required is None and (made or not failed):
            self.state = "done"
            return
        culprit = required or failed[0]
        cause = culprit.error or TqError(ErrorCode.INTERNAL, "it failed without a reason")
        self.state = "failed"
        self.error = TqError(cause.code, f"{culprit.name}: {cause.message}", cause.hint)

    def _require_same_length(self) -> None:
        """Renditions of several runs must agree too. A shorter one is dropped; the next attempt makes it."""
        frames = {
            name: state.check.frames
            for name, state in self._states.items()
            if state.check is not None and state.kind == "video"
        }
        if len(set(frames.values())) <= 1:
            return
        longest = max(frames.values())
        for name, count in frames.items():
            if count != longest:
                SegmentStore(self._states[name].directory).discard()
                self._rendition_failed(
                    name,
                    TqError(ErrorCode.OUTPUT_INVALID, f"{count} frames where its siblings have {longest}"),
                )

    def _change_encoder(self, name: str, encoder: str) -> None:
        old = self._states[name]
        new = look_up_video(self._spec, self._rungs[name], encoder)
        self._states[name] = replace(new, fraction=max(old.fraction, new.fraction))

    def _update(self, name: str, **changes: object) -> None:
        self._states[name] = replace(self._states[name], **changes)  # type: ignore[arg-type]
