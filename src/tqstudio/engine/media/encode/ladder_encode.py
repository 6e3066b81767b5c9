"""Encodes a ladder: starts ffmpeg runs, stores their segments, and retries or fails single renditions.

The caller calls `step` every 100 – 200 ms and reads the properties. All calls must come from the main thread:
the parent-death signal of ffmpeg also fires when the thread that spawned it ends.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from tqstudio.engine.media.encode.duplicate import take_over
from tqstudio.engine.media.encode.missing_runs import plan
from tqstudio.engine.media.encode.rendition_states import RenditionStates
from tqstudio.engine.media.encode.runs import Batch, Launcher, Task, batches
from tqstudio.engine.media.encode.side_runs import SIDE_KINDS, SideRuns
from tqstudio.engine.media.encode.subtitles import changed_sidecars
from tqstudio.engine.media.encode.values import (
    Duplicate,
    EncodeSpec,
    OwnershipLostError,
    RenditionState,
    RunRecord,
    State,
)
from tqstudio.engine.media.ffmpeg.command import is_indexed
from tqstudio.engine.media.ffmpeg.errors import classify_exit, from_os_error
from tqstudio.engine.media.plan.copying import COPY, DAMAGED
from tqstudio.engine.media.plan.video_codecs import GPU_ENCODERS
from tqstudio.engine.media.plan.warnings import of_damage
from tqstudio.engine.media.segments.collector import InitDiffersError, SeamError, StreamOutput
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import Damage
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of


class LadderEncode:
    """One encode of one source, from its first `step` to `done`, `failed` or `killed`."""

    def __init__(self, spec: EncodeSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: State = "idle"
        self.error: TqError | None = None
        """The reason of a failed encode."""
        self.damage: list[Damage] = []
        """Decoding errors that the facts do not contain: the first of each kind."""
        self.notes: list[str] = []
        """Log lines about retries that the result does not show."""
        self.last_advance = clock()
        """Clock time of the last progress; the caller detects stalls."""
        self.spec = spec
        """Its facts may become unseekable, never back."""
        self.tasks: list[Task] = []
        """The running ffmpegs."""
        self._clock = clock
        self._states = RenditionStates(spec)
        self.warnings = self._states.warnings
        """Warnings of the job; the caller may add those about the source."""
        self._batches: deque[Batch] = deque()
        self._launcher = Launcher(spec)
        self.runs: Sequence[RunRecord] = self._launcher.records
        """All ffmpeg runs so far, in the order of their start."""
        self.side = SideRuns(self._launcher, self._states)
        """The runs beside the pictures: poster, subtitles, loudness, audio, storyboard."""

    @property
    def renditions(self) -> tuple[RenditionState, ...]:
        """All renditions: video largest first, then audio, then subtitles. Empty before `look_up`."""
        return self._states.states

    @property
    def fraction(self) -> float:
        """Progress of the video, weighted by cost: 0 … 1."""
        return self._states.fraction

    def look_up(self) -> None:
        """Read the stored state; `start` calls it if needed. 0.1 s for two hours of video."""
        if self.spec.unseekable_mark.exists():
            self._become_unseekable()
        self._states.look_up()

    def take_over(self, duplicate: Duplicate, check: Callable[[], None]) -> None:
        """As `duplicate.take_over`; call it between `look_up` and `start`."""
        self.notes += take_over(self.spec, self._states, duplicate, check)

    def start(self) -> None:
        """Start encoding the missing parts. Stored segments are not encoded again."""
        if not self.renditions:
            self.look_up()
        self.state = "running"
        self._batches.extend(batches(self._states.video, self.spec.first))
        self.side.fill()
        try:
            self._next()
        except TqError as error:
            self._fail(error)
        # Load PyAV for `_finish` while ffmpeg works: its import takes a fifth of a worker's start.
        import tqstudio.engine.media.encode.finish  # noqa: F401 - loads PyAV

    def step(self) -> list[tuple[str, str]]:
        """Check the runs, store finished segments, start the next runs. Call it until `state` changes.

        Returns rendition and name of the segments stored by this call. After OwnershipLostError (another
        worker may have the job) the caller must `kill` without storing.
        """
        new: list[tuple[str, str]] = []
        for task in list(self.tasks):
            try:
                self._advance(task, new)
            except InitDiffersError as differs:
                self._start_over(task, differs)
            except SeamError as seam:
                self._seam_failed(task, seam)
            except (TqError, OSError) as error:
                self._end_task(task)
                known = error if isinstance(error, TqError) else from_os_error(error, "the encode stopped")
                self._task_failed(task, known)
            if self.spec.grid.copied and any(each.kind == "pictures" for each in self.damage):
                self._fail(TqError(ErrorCode.OUTPUT_INVALID, DAMAGED))
            if self.state != "running":
                return new
        if new:
            self.last_advance = self._clock()
        try:
            self._next()
        except TqError as error:
            self._fail(error)
        return new

    def kill(self, store: bool = True) -> None:
        """Kill all ffmpeg processes; with `store`, store what they have finished. Idempotent."""
        for task in list(self.tasks):
            task.run.kill()
            for output in task.outputs if store else ():
                with contextlib.suppress(TqError, OSError, InitDiffersError, SeamError, OwnershipLostError):
                    output.collect([])
                    self._show_progress(task, output)
            self._end_task(task)
        self._batches.clear()
        self.side.clear()
        self._states.reset_running()
        if self.state in ("idle", "running"):
            self.state = "killed"

    # Starting runs

    def _next(self) -> None:
        """Start the next runs, one of video and one beside it at a time; without any, set the final state."""
        while self.state == "running" and self.side and not any(t.kind in SIDE_KINDS for t in self.tasks):
            if task := self.side.start_next():
                self._watch(task)
        while self.state == "running" and self._batches and not self.side.holds_video:
            if any(task.kind == "video" for task in self.tasks):
                break
            self._start_video(self._batches.popleft())
        if self.state == "running" and not self.tasks and not self._batches and not self.side:
            lost = self._states.drop_shorter() | changed_sidecars(self.spec, self.renditions)
            for name, error in lost.items():
                self._states.fail(name, error)
            self.error = self._states.failure()
            if self.error is None and self.side.add_storyboard():
                self._next()
            else:
                self.state = "failed" if self.error else "done"

    def _start_video(self, batch: Batch) -> None:
        """Start the first of the missing runs of a batch; the others are planned when it has ended."""
        for name in batch.names if self.runs else ():
            self._states.reload(name, batch.encoder, batch.on_device)
        states = [self._states[name] for name in batch.names]
        complete = tuple(state.name for state in states if state.prefix.ended and not batch.fresh)
        if complete:
            self._batches.extend(Batch((name,), batch.encoder) for name in self._finish(complete))
            batch = batch.without(complete)
        if batch.encoder == COPY:
            # One that begins later may have other times.
            self._states.discard(batch.names)
        stored = {name: 0 if batch.fresh else self._states[name].prefix.fragments for name in batch.names}
        runs = plan(self.spec.grid, stored, batch.latest)
        if runs and self.state == "running":
            stores = {name: SegmentStore(self._states[name].directory) for name in runs[0].names}
            self._watch(self._launcher.video(runs[0], stores, batch))

    def _watch(self, task: Task) -> None:
        self.tasks.append(task)
        for name in task.names:
            self._states.update(name, status="in_progress")
        self.last_advance = self._clock()

    # Watching runs

    def _advance(self, task: Task, new: list[tuple[str, str]]) -> None:
        """Store the finished segments of a run, adding them to `new`, and handle its exit."""
        # Read the exit status first: after it, `collect` sees the complete output.
        status = task.run.poll()
        if status is not None:
            task.run.wait()
            self.spec.require_ownership()
        if task.has_advanced(self.spec.identity.size):
            self.last_advance = self._clock()
        self._note_damage(task)
        if not status:
            task.require_like_cpu()
        for output in task.outputs:
            output.collect(new, ended=status == 0)
            self._show_progress(task, output)
        if status is None:
            if task.batch is not None and all(output.meets_stored for output in task.outputs):
                self._end_task(task)
                self._batches.appendleft(replace(task.batch, fresh=False))
            return
        if status != 0:
            raise classify_exit(status, task.run.log_tail())
        if task.kind in ("video", "audio"):
            self._run_ended(task)
        elif not self.side.take(task):
            self.last_advance = self._clock()
            return
        self._end_task(task)

    def _note_damage(self, task: Task) -> None:
        known = {damage.kind for damage in (*self.spec.facts.damage, *self.damage)}
        is_new = task.kind in ("video", "audio") and task.damages not in known
        if is_new and (found := task.find_damage(self.spec.grid)):
            self.damage.append(found)
            self.warnings.append(of_damage(found))

    def _show_progress(self, task: Task, output: StreamOutput) -> None:
        segments = output.complete_segments + len(output.ahead)
        self._states.advance(output.name, segments, *task.progress(output))

    def _run_ended(self, task: Task) -> None:
        """Handle exit status 0: verify complete renditions, continue the others."""
        batch, planned = task.batch, task.planned
        if batch is not None and planned is not None:
            if planned.start and any(output.is_empty for output in task.outputs):
                self._no_frame_left(task, batch)
                return
            if planned.stop is not None:
                self._range_ended(task, batch, planned.stop)
                return
        louder = self.side.lower_gains(task) if task.kind == "audio" else ()
        if louder:
            self.notes.append(f"{', '.join(louder)}: encoded again with less gain, because of the peaks")
        failures = self._finish([name for name in task.names if name not in louder])
        if failures and (task.on_device or task.encoder == COPY):
            raise next(iter(failures.values()))
        for name, failure in failures.items():
            if len(task.names) > 1:
                self.notes.append(f"{name} is encoded again: {failure.message}")
                self._add_alone(task, (name,))
            else:
                self._states.fail(name, failure)

    def _range_ended(self, task: Task, batch: Batch, stop: int) -> None:
        """Continue a batch after a run in which some renditions caught up with the others."""
        short = [output.name for output in task.outputs if output.next_piece < stop]
        if short and batch.on_device:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{', '.join(short)} ended before {self._at(stop)}")
        for name in short:
            text = f"{name} ended before {self._at(stop)}, other qualities did not"
            self._states.fail(name, TqError(ErrorCode.OUTPUT_INVALID, text))
        self._batches.appendleft(batch.without(tuple(short)))

    def _no_frame_left(self, task: Task, batch: Batch) -> None:
        """Handle a run without a frame: the source ended before its start, or the seek failed.

        Start one fragment earlier, which has frames; if that fails too, decode from the start.
        """
        if batch.latest is None:
            self._batches.appendleft(replace(batch, latest=task.start - 1))
        elif not self.spec.facts.unseekable:
            self._give_up_seeking(batch)
        else:
            text = f"ffmpeg wrote no frame after {self._at(task.start)}"
            self._task_failed(task, TqError(ErrorCode.OUTPUT_EMPTY, text))

    def _at(self, fragment: int) -> str:
        """The start of a fragment, for messages."""
        return f"{self.spec.grid.fragment_s(fragment):.1f} s"

    def _give_up_seeking(self, batch: Batch) -> None:
        """Continue a batch by decoding from the start of the source; stored segments are kept."""
        if batch.on_device:
            self._leave_device(batch, "its pictures do not continue the stored ones")
            return
        self.spec.mark_unseekable()
        self._become_unseekable()
        self._batches.appendleft(batch)

    def _become_unseekable(self) -> None:
        self.spec = replace(self.spec, facts=replace(self.spec.facts, unseekable=True))
        self._launcher.spec = self._states.spec = self.spec
        self._batches = deque(replace(batch, on_device=False) for batch in self._batches)

    def _leave_device(self, batch: Batch, why: str) -> None:
        """Encode a batch again with the same encoder, but decode and scale on the CPU."""
        self._batches.append(Batch(self._states.leave_device(batch.names, why), batch.encoder))

    def _finish(self, names: Sequence[str]) -> dict[str, TqError]:
        """Verify renditions whose segments are all stored; return the errors of those that failed, by name.

        If the whole encode failed, there are none.
        """
        from tqstudio.engine.media.encode.finish import finish

        result = finish(self.spec, [self._states[name] for name in names])
        if result.end_mismatch and any(self._states[name].on_device for name in names):
            return dict.fromkeys(names, result.end_mismatch)
        if result.end_mismatch is not None:
            # It is about the source and concerns all renditions: encoding them one by one would not help.
            self._fail(result.end_mismatch)
            return {}
        for name, check in result.passed.items():
            self._states.complete(name, check)
        self.last_advance = self._clock()
        return dict(result.failures)

    def _end_task(self, task: Task) -> None:
        self._launcher.end(task)
        if task in self.tasks:
            self.tasks.remove(task)
            self.side.ended(task)

    # Failures

    def leave_device(self, error: TqError) -> bool:
        """Repeat a run that decodes on the GPU with decoding on the CPU; False if there is none."""
        on_device = [task for task in self.tasks if task.on_device]
        for task in on_device:
            self._end_task(task)
            self._task_failed(task, error)
        return bool(on_device)

    def _start_over(self, task: Task, differs: InitDiffersError) -> None:
        """Continue the other renditions of a run, then encode one that cannot be continued from its start."""
        self._end_task(task)
        if task.batch is None:
            return
        self.notes.append(f"{differs}: its stored segments cannot be continued; it is encoded from the start")
        if others := task.batch.without((differs.name,)).names:
            self._batches.append(replace(task.batch, names=others))
        self._batches.append(Batch((differs.name,), task.encoder, fresh=True))

    def _seam_failed(self, task: Task, seam: SeamError) -> None:
        """Retry a run whose first fragment does not join the stored ones.

        If the key frame found by the seek was too late, an earlier one helps. Decoding from the start always
        does, because it does not depend on the timestamps of the source.
        """
        self._end_task(task)
        if not self.spec.facts.unseekable and task.batch is not None and task.encoder != COPY:
            if is_indexed(self.spec.facts) and not task.batch.early:
                self._batches.appendleft(replace(task.batch, early=True))
            else:
                self._give_up_seeking(task.batch)
        else:
            self._task_failed(task, TqError(ErrorCode.OUTPUT_INVALID, str(seam)))

    def _task_failed(self, task: Task, error: TqError) -> None:
        """Fail the encode, fall back to the CPU, encode renditions one by one, or fail one rendition."""
        names, error = task.names, self._launcher.root_cause(error)
        # Of subtitles ffmpeg may say that the source cannot be read; its pictures can.
        fatal = class_of(error.code) is ErrorClass.FATAL and task.kind != "subtitles"
        fatal = (fatal or task.kind == "bitmaps") and not (task.batch and task.encoder == COPY)
        if self.side.is_spared(task, error):
            return
        if error.code is ErrorCode.GPU_BUSY and task.batch and (half := len(task.batch.names) // 2):
            # Each quality needs a session.
            halves = task.batch.names[:half], task.batch.names[half:]
            self._batches.extend(replace(task.batch, names=some) for some in halves)
        elif fatal or class_of(error.code) is ErrorClass.RESOURCE or error.code is ErrorCode.SOURCE_CHANGED:
            # Neither another encoder nor separate runs would help.
            self._fail(error)
        elif task.batch is not None and task.on_device:
            self._leave_device(task.batch, error.message)
        elif task.batch is not None and task.encoder in (COPY, *GPU_ENCODERS):
            encoder = self._states.fall_back(names, task.encoder, error)
            self._batches.append(Batch(task.batch.names, encoder))
        elif len(names) > 1:
            # A failing output ends the whole run. In separate runs only that rendition fails.
            self.notes.append(f"{', '.join(names)} are encoded one by one: {error.message}")
            self._add_alone(task, names if task.batch is None else task.batch.names)
        else:
            self._states.fail(names[0], error)
            if task.batch is not None and (others := task.batch.without(names).names):
                self._batches.append(replace(task.batch, names=others))

    def _add_alone(self, task: Task, names: Sequence[str]) -> None:
        """Encode renditions of a failed run again, each in a run of its own."""
        if task.kind == "video":
            self._batches.extend(Batch((name,), task.encoder) for name in names)
        else:
            self.side.add_each(task.kind, names)

    def _fail(self, error: TqError) -> None:
        self.kill()
        self.state, self.error = "failed", error
