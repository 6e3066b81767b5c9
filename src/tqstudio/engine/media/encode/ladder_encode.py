"""Makes a ladder: runs ffmpeg, stores what it makes, and finds out which rendition fails.

Knows nothing of jobs: the caller asks `step` every 100 – 200 ms from the thread that lives longest (the
parent-death signal of ffmpeg also fires when the spawning thread ends) and reads the properties.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tqstudio.engine.files import durable
from tqstudio.engine.media.encode.rendition_states import Board
from tqstudio.engine.media.encode.runs import Batch, Launcher, Task
from tqstudio.engine.media.encode.values import EncodeSpec, NotOursError, RenditionState, RunRecord, State
from tqstudio.engine.media.ffmpeg.command import PosterPicture, is_indexed
from tqstudio.engine.media.ffmpeg.process import classify_exit, from_os_error, from_output_error
from tqstudio.engine.media.plan.file_names import CPU_ENCODER, GPU_ENCODERS, POSTER_NAME
from tqstudio.engine.media.plan.missing_runs import Mode, plan
from tqstudio.engine.media.plan.warnings import of_damage
from tqstudio.engine.media.segments.collector import InitDiffersError, NewSegment, SeamError, StreamOutput
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import Damage
from tqstudio.errors import ErrorClass, ErrorCode, JobWarning, TqError, WarningCode, class_of

# What an ffmpeg may read without a frame coming out: a source whose streams lie far apart is read to and fro.
_READS = 4
_READS_BESIDE = 64 * 1024 * 1024
_PROBE_NAME = "can-be-written"
_DECODE_ERROR = re.compile(
    rb"\] corrupt decoded frame|\] Error submitting packet to decoder: Invalid data|\] corrupt input packet"
)


class LadderEncode:
    """One encode of one source, from its first `step` to `done`, `failed` or `killed`."""

    def __init__(self, spec: EncodeSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: State = "idle"
        self.error: TqError | None = None
        """Why it failed."""
        self.warnings: list[JobWarning] = []
        """What a person should know though it is done; the caller may add what it knows of the source."""
        self.damage: list[Damage] = []
        """What did not decode, as far as the facts do not have it: the first of each kind."""
        self.notes: list[str] = []
        """For the log: detours that the result shows nothing of."""
        self.poster: Path | None = None
        """The poster in the scratch directory, once made."""
        self.poster_s = 0.0
        """Seconds for which ffmpeg worked on the poster, beside everything else; of runs that have ended."""
        self.last_advance = clock()
        """Clock time at which something was last seen to move; the caller decides what a stall is."""
        self._spec = spec
        self._clock = clock
        self._board = Board(spec)
        self._batches: deque[Batch] = deque()
        self._tasks: list[Task] = []
        self._launcher = Launcher(spec)
        self._pictures = deque(PosterPicture)
        """Those that may still become the poster."""

    @property
    def mode(self) -> Mode:
        """How runs reach their first frame. Once it became linear, it should stay so for this source."""
        return self._spec.mode

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """Every ffmpeg run so far, in the order of their start."""
        return tuple(self._launcher.records)

    @property
    def renditions(self) -> tuple[RenditionState, ...]:
        """Every rendition that is to exist: video largest first, then audio. Empty before `look_up`."""
        return self._board.states

    @property
    def fraction(self) -> float:
        """Progress of the video, weighted by pixels: 0 … 1."""
        return self._board.fraction

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running ffmpegs."""
        return tuple(task.run.pid for task in self._tasks)

    def look_up(self) -> None:
        """See what the store has; `start` does it otherwise. 0.1 s for two hours of video."""
        self._board.look_up()
        if self._spec.linear_mark.exists():
            self._become_linear()

    def start(self) -> None:
        """Start what is missing. Finished segments are not made again."""
        if not self.renditions:
            self.look_up()
        self.state = "running"
        missing = [state for state in self._board.video if state.status != "completed"]
        for encoder in dict.fromkeys(state.encoder for state in missing):
            names = tuple(state.name for state in missing if state.encoder == encoder)
            self._batches.append(Batch(names, encoder))
        try:
            for name, rendition in self._board.audio.items():
                if self._board[name].status != "completed":
                    store = SegmentStore(self._board[name].directory)
                    self._watch(self._launcher.audio(rendition, store))
            if self._spec.poster:
                self._watch(self._launcher.poster(self._pictures.popleft()))
            self._next()
        except TqError as error:
            self._give_up(error)
        # While ffmpeg works: only the end needs PyAV, and it would be a fifth of a worker's start.
        import tqstudio.engine.media.encode.finish  # noqa: F401 - loads PyAV

    def step(self) -> list[NewSegment]:
        """Look at the runs, store what they finished, start what comes next. Call it until `state` changes.

        Returns:
            The segments that were stored by this call.

        Raises:
            NotOursError: another worker has the job; `kill` without storing is all that is left to do.
        """
        new: list[NewSegment] = []
        for task in list(self._tasks):
            try:
                self._advance(task, new)
            except InitDiffersError as differs:
                self._start_over(task, differs)
            except SeamError as miss:
                self._miss(task, miss)
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

    def kill(self, store: bool = True) -> None:
        """End every ffmpeg now. What is stored stays. May be called at any time, again and again.

        Args:
            store: also store what they finished since the last step.
        """
        for task in list(self._tasks):
            task.run.kill()
            if store:
                for output in task.outputs:
                    with contextlib.suppress(TqError, OSError, InitDiffersError, SeamError, NotOursError):
                        output.collect([])
                        self._show_progress(task, output)
            self._end_task(task)
        self._batches.clear()
        self._board.rest()
        if self.state in ("idle", "running"):
            self.state = "killed"

    # Starting runs

    def _next(self) -> None:
        """Start the next video run when none is under way; conclude when nothing is left."""
        while self.state == "running" and self._batches and not any(t.kind == "video" for t in self._tasks):
            self._start_video(self._batches.popleft())
        if self.state == "running" and not self._tasks and not self._batches:
            for name, error in self._board.drop_shorter().items():
                self._rendition_failed(name, error)
            self.error = self._board.verdict()
            self.state = "failed" if self.error else "done"

    def _start_video(self, batch: Batch) -> None:
        """Start the first of the runs that a batch still needs; the others follow when it has ended."""
        for name in batch.names:
            if self.runs:
                self._board.look_again(name, batch.encoder)
        states = [self._board[name] for name in batch.names]
        todo = plan(
            self._spec.grid,
            {state.name: state.stream_key for state in states},
            {} if batch.fresh else {state.name: state.stored for state in states},
            self.mode,
            batch.latest,
        )
        if todo.whole:
            self._batches.extend(Batch((name,), batch.encoder) for name in self._finish(todo.whole))
            batch = batch.without(todo.whole)
        if todo.runs and self.state == "running":
            stores = {state.name: SegmentStore(state.directory) for state in states}
            self._watch(self._launcher.video(todo.runs[0], stores, batch))
            for name in todo.runs[0].names:
                self._board.update(name, status="in_progress")

    def _watch(self, task: Task) -> None:
        self._tasks.append(task)
        if task.kind == "audio":
            self._board.update(task.names[0], status="in_progress")
        self.last_advance = self._clock()

    # Watching runs

    def _advance(self, task: Task, new: list[NewSegment]) -> None:
        """Store what a run finished, adding to `new`, and see to its end."""
        # The exit status is read first: what is collected after it is all there will be.
        status = task.run.poll()
        if status is not None:
            task.run.wait()
            self._spec.require_ours()
        self._see_movement(task)
        self._see_damage(task)
        for output in task.outputs:
            output.collect(new, ended=status == 0)
            self._show_progress(task, output)
        if status is None:
            return
        if status != 0:
            raise classify_exit(status, task.run.log_tail())
        if task.kind == "poster":
            self._poster_made(task)
        else:
            self._streams_made(task)
        self._end_task(task)

    def _see_movement(self, task: Task) -> None:
        frame = task.run.progress.frame or 0
        if frame > task.last_frame:
            task.last_frame = frame
            self.last_advance = self._clock()
        elif not task.last_frame:
            # Nothing comes out while it decodes its way to its first one; but it reads, and not for ever.
            task.idle_until = time.monotonic()
            read = min(task.run.bytes_read, _READS * self._spec.identity.size + _READS_BESIDE)
            if read > task.bytes_read:
                task.bytes_read = read
                self.last_advance = self._clock()

    def _see_damage(self, task: Task) -> None:
        """Look for decoding errors in what ffmpeg has said since the last look."""
        known = {damage.kind for damage in (*self._spec.facts.damage, *self.damage)}
        kind: Literal["pictures", "sound"] = "sound" if task.kind == "audio" else "pictures"
        if task.kind == "poster" or kind in known:
            return
        said, task.log_read = task.run.log_from(task.log_read)
        # A run that begins at a cut decodes pictures first that are not shown, and some of them in vain.
        if (not task.start or task.last_frame) and _DECODE_ERROR.search(said):
            grid = self._spec.grid
            found = Damage(kind, (task.start * grid.gop + task.last_frame) / float(grid.fps))
            if task.kind == "audio" and task.run.progress.out_time_us:
                found = Damage(kind, max(0.0, task.run.progress.out_time_us / 1_000_000))
            self.damage.append(found)
            self.warnings.append(of_damage(found))

    def _show_progress(self, task: Task, output: StreamOutput) -> None:
        grid, frames = self._spec.grid, task.last_frame
        fraction, kept, speed = 0.0, 0.0, task.run.progress.speed
        if task.kind == "video":
            fraction = (task.start * grid.gop + frames) / grid.total_frames
            kept = output.next_piece * grid.gop / grid.total_frames
            elapsed = time.monotonic() - (task.idle_until or task.run.started)
            speed = frames / float(grid.fps) / elapsed if frames else None
        self._board.advance(output.name, output.whole_segments, fraction, speed, kept=kept)

    def _streams_made(self, task: Task) -> None:
        """A run ended with 0: verify what is whole, go on with what is not."""
        batch, planned = task.batch, task.planned
        if batch is not None and planned is not None:
            if planned.start and any(output.made_nothing for output in task.outputs):
                self._no_frame_left(task, batch)
                return
            if planned.stop is not None:
                self._range_made(task, batch, planned.stop)
                return
        for name, failure in self._finish(task.names).items():
            if batch is not None and len(task.names) > 1:
                self.notes.append(f"{name} is made again: {failure.message}")
                self._batches.append(Batch((name,), task.encoder))
            else:
                self._rendition_failed(name, failure)

    def _range_made(self, task: Task, batch: Batch, stop: int) -> None:
        """Renditions that lagged behind have caught up with the others."""
        short = [output.name for output in task.outputs if output.next_piece < stop]
        for name in short:
            error = TqError(
                ErrorCode.OUTPUT_INVALID, f"{name} ended before {self._at(stop)}, where others go on"
            )
            self._rendition_failed(name, error)
        self._batches.appendleft(batch.without(tuple(short)))

    def _no_frame_left(self, task: Task, batch: Batch) -> None:
        """The source seems to end before this run began. The fragment before it has frames: it proves the
        end, or shows that the seek went astray."""
        if batch.latest is None:
            self._batches.appendleft(replace(batch, latest=task.start - 1))
        elif self.mode == "seek":
            self._go_linear(batch)
        else:
            self._task_failed(
                task, TqError(ErrorCode.OUTPUT_EMPTY, f"no frame came from {self._at(task.start)} on")
            )

    def _at(self, fragment: int) -> str:
        """Where a fragment begins, for messages."""
        return f"{float(fragment * self._spec.grid.fragment_s):.1f} s"

    def _go_linear(self, batch: Batch) -> None:
        """Make a batch by decoding from the start; what is finished stays."""
        mark = self._spec.linear_mark
        try:
            durable.make_folder(mark.parent)
            mark.touch()
            durable.sync_folder(mark.parent)
        except OSError as error:
            raise from_output_error(error, "the way to decode the source cannot be remembered") from error
        self._become_linear()
        self._batches.appendleft(batch)

    def _become_linear(self) -> None:
        self._spec = replace(self._spec, facts=replace(self._spec.facts, linear=True))
        self._launcher.spec = self._spec

    def _finish(self, names: Sequence[str]) -> dict[str, TqError]:
        """Verify renditions whose segments are all stored.

        Returns:
            Those that did not pass, and why. None of them when the encode was given up.
        """
        from tqstudio.engine.media.encode.finish import finish

        end = finish(self._spec, [self._board[name] for name in names])
        if end.misfit is not None:
            # It concerns the source, so every rendition alike: making them one by one shows nothing new.
            self._give_up(end.misfit)
            return {}
        for name, check in end.passed.items():
            self._board.complete(name, check)
        self.last_advance = self._clock()
        return dict(end.failures)

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
            if task.kind == "poster":
                self.poster_s += time.monotonic() - task.run.started

    # When something fails

    def _start_over(self, task: Task, differs: InitDiffersError) -> None:
        """One rendition cannot be continued: the others go on, then it is made from its start."""
        self._end_task(task)
        if task.batch is None:
            return
        self.notes.append(f"{differs}: its finished segments cannot be continued; it starts again")
        if others := task.batch.without((differs.name,)).names:
            self._batches.append(replace(task.batch, names=others))
        self._batches.append(Batch((differs.name,), task.encoder, fresh=True))

    def _miss(self, task: Task, miss: SeamError) -> None:
        """The first fragment of a run does not fit.

        Where the key frame at the cut was too late, starting early helps. Decoding from the start, on a clock
        of its own, always does.
        """
        self._end_task(task)
        if self.mode == "seek" and task.batch is not None:
            if is_indexed(self._spec.facts) and not task.batch.early:
                self._batches.appendleft(replace(task.batch, early=True))
            else:
                self._go_linear(task.batch)
        else:
            self._task_failed(task, TqError(ErrorCode.OUTPUT_INVALID, str(miss)))

    def _task_failed(self, task: Task, error: TqError) -> None:
        """Decide what follows: give up, fall back to the CPU, try one by one, or fail one rendition."""
        names = task.names
        if task.kind == "poster":
            self._poster_failed(error)
            return
        error = self._cause(error)
        if class_of(error.code) in (ErrorClass.FATAL, ErrorClass.RESOURCE) or (
            error.code is ErrorCode.SOURCE_CHANGED
        ):
            # Neither another encoder nor another order helps.
            self._give_up(error)
        elif task.batch is not None and task.encoder in GPU_ENCODERS:
            self._warn(
                WarningCode.GPU_FAILED,
                f"{task.encoder} failed and {CPU_ENCODER} made the rest: {error.message}",
            )
            self._batches.append(Batch(task.batch.names, CPU_ENCODER))
        elif task.batch is not None and len(names) > 1:
            # One failing output ends its siblings. One by one, the culprit fails alone.
            self.notes.append(f"the qualities are made one by one: {error.message}")
            self._batches.extend(Batch((name,), task.encoder) for name in task.batch.names)
        else:
            self._rendition_failed(names[0], error)
            if task.batch is not None and (others := task.batch.without(names).names):
                self._batches.append(replace(task.batch, names=others))

    def _cause(self, error: TqError) -> TqError:
        """Whatever went wrong, a source that is not the same any more is the reason for it, or an output that
        takes no file."""
        probe = self._spec.scratch / _PROBE_NAME
        try:
            source_file.require_same(self._spec.source, self._spec.identity)
            probe.touch()
            probe.unlink()
        except TqError as cause:
            return cause
        except OSError as cause:
            return from_output_error(cause, f"{error.message}; nothing can be written to the output")
        return error

    def _poster_failed(self, error: TqError) -> None:
        if not self._pictures:
            self._warn(WarningCode.POSTER_MISSING, f"no poster was made: {error.message}")
            return
        with contextlib.suppress(TqError):
            self._watch(self._launcher.poster(self._pictures.popleft()))

    def _rendition_failed(self, name: str, error: TqError) -> None:
        self._board.fail(name, error)
        if not self._board[name].required:
            self._warn(WarningCode.RENDITION_LEFT_OUT, f"{name} was left out: {error.message}")

    def _warn(self, code: WarningCode, text: str) -> None:
        self.warnings.append(JobWarning(code, text))

    def _give_up(self, error: TqError) -> None:
        self.kill()
        self.state = "failed"
        self.error = error
