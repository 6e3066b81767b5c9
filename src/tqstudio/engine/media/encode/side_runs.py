"""Makes what is not video: poster, subtitles and audio, in a queue of runs beside those of the video, the
storyboard after them, and before all the file of subtitles that the video burns in."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from tqstudio.engine.media.encode.loudness import Gain, gains, lowered_gains
from tqstudio.engine.media.encode.poster import take_poster
from tqstudio.engine.media.encode.rendition_states import RenditionStates
from tqstudio.engine.media.encode.runs import Launcher, SideKind, Task
from tqstudio.engine.media.encode.subtitles import sidecar_content, take_subtitles
from tqstudio.engine.media.ffmpeg.command import PosterPicture
from tqstudio.engine.media.ffmpeg.track_commands import begins_late
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.plan.file_names import BITMAPS_NAME
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.segments.storyboard import Storyboard, lay_out
from tqstudio.errors import ErrorClass, TqError, WarningCode, class_of

SIDE_KINDS: tuple[SideKind, ...] = get_args(SideKind)


class SideRuns:
    """The queue of these runs, of which one runs at a time."""

    def __init__(self, launcher: Launcher, states: RenditionStates) -> None:
        self.poster: Path | None = None
        """The poster in the scratch directory, once extracted."""
        self.poster_s = 0.0
        """Run time in seconds of the ended poster runs."""
        self.holds_video = False
        """The subtitles that the video burns in are not copied yet."""
        self.storyboard: Storyboard | None = None
        """Set when the video is complete."""
        self._launcher = launcher
        self._states = states
        self._queue: deque[tuple[SideKind, tuple[str, ...]]] = deque()
        """Renditions that share a run; none for a poster."""
        self._posters = deque(PosterPicture)
        """Pictures not tried as the poster yet."""

    def __len__(self) -> int:
        return len(self._queue)

    def fill(self) -> None:
        """Queue everything that is missing."""
        spec = self._launcher.spec
        if self._states.missing("video") and burnt_subtitles(spec.facts, spec.profile):
            self._queue.append(("bitmaps", ()))
            self.holds_video = True
        if spec.poster and spec.facts.video.width:
            self._queue.append(("poster", ()))
        alone = {each.name for each in spec.subtitles if each.track.sidecar or each.in_pictures}
        texts = self._states.missing("subtitles")
        self.add("subtitles", [name for name in texts if name not in alone])
        self.add_each("subtitles", [name for name in texts if name in alone])
        late = {each.name for each in spec.audio if begins_late(each, spec.grid)}
        sounds = self._states.missing("audio")
        kind: SideKind = "audio" if spec.profile.target_lufs is None else "loudness"
        self.add(kind, [name for name in sounds if name not in late])
        self.add_each(kind, [name for name in sounds if name in late])

    def add(self, kind: SideKind, names: Sequence[str]) -> None:
        """Queue one run of some renditions; nothing if there are none."""
        if names:
            self._queue.append((kind, tuple(names)))

    def add_each(self, kind: SideKind, names: Sequence[str]) -> None:
        """Queue a run for each of some renditions."""
        self._queue.extend((kind, (name,)) for name in names)

    def add_storyboard(self) -> bool:
        """Queue the storyboard of a complete ladder, once; return whether it was queued."""
        spec = self._launcher.spec
        made = {
            # A copy has as many key frames as its source.
            (state.encoder == COPY, state.weight): (state.directory, state.check)
            for state in self._states.video
            if state.status == "completed" and state.check is not None and not state.hdr
        }
        if self.storyboard is not None or not made or not spec.storyboard:
            return False
        self.storyboard = lay_out(*made[min(made)], spec.store_root)
        if self.storyboard.is_stored:
            return False
        self._queue.append(("storyboard", ()))
        return True

    def clear(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def start_next(self) -> Task | None:
        """Start the next run of the queue; None if what it would make failed before it started.

        Raises as `Launcher`, and OwnershipLostError.
        """
        kind, names = self._queue.popleft()
        match kind:
            case "bitmaps":
                burnt = burnt_subtitles(self._launcher.spec.facts, self._launcher.spec.profile)
                return self._launcher.bitmaps(burnt) if burnt else None
            case "poster":
                return self._launcher.poster(self._posters.popleft())
            case "storyboard":
                return self._start_storyboard()
            case "loudness":
                return self._launcher.loudness(names)
            case "audio":
                return self._start_audio(names)
            case "subtitles":
                try:
                    content = sidecar_content(self._launcher.spec, names[0])
                except TqError as error:
                    self._states.fail(names[0], error)
                    return None
                return self._launcher.subtitles(names, content)

    def take(self, task: Task) -> bool:
        """Take the files or measurements of a run with exit status 0, except audio; return whether all were.

        Subtitles are taken one file a call, since cutting one may last a second. After a TqError the run has
        to be handled as a failed one. Also raises OwnershipLostError.
        """
        spec = self._launcher.spec
        match task.kind:
            case "bitmaps":
                (task.directory / BITMAPS_NAME).rename(spec.scratch / BITMAPS_NAME)
                self.holds_video = False
            case "poster":
                self.poster = take_poster(task.directory, spec.scratch)
            case "storyboard":
                spec.require_ownership()
                if self.storyboard is not None:
                    self.storyboard.store(task.directory)
            case "subtitles":
                self._take_subtitles(task)
                return task.taken == len(task.names)
            case "loudness":
                self._use(gains(task.run.log_from(0)[0], task.names, spec.profile.target_lufs))
        return True

    def lower_gains(self, task: Task) -> tuple[str, ...]:
        """Queue another run of the audio whose peaks became too high in the encoder; returns its names."""
        log, target = task.run.log_from(0)[0], self._launcher.spec.profile.target_lufs
        lowered = {} if target is None else lowered_gains(log, self._gains(task.names), target)
        self._use(lowered)
        return tuple(lowered)

    def ended(self, task: Task) -> None:
        """Count the time of an ended poster run."""
        if task.kind == "poster":
            self.poster_s += time.monotonic() - task.run.started

    def is_spared(self, task: Task, error: TqError) -> bool:
        """Whether a failed run does not matter: try the next picture, or warn that something is missing."""
        if task.kind == "poster" and self._posters:
            self._queue.appendleft(("poster", ()))
        elif task.kind == "poster":
            self._states.warn(WarningCode.POSTER_MISSING, f"there is no poster: {error.message}")
        elif task.kind == "storyboard":
            self._without_storyboard(error)
        return task.kind in ("poster", "storyboard")

    def _without_storyboard(self, error: TqError) -> None:
        self._states.warn(WarningCode.STORYBOARD_MISSING, f"there is no storyboard: {error.message}")

    def _start_storyboard(self) -> Task | None:
        try:
            return self._launcher.storyboard(self.storyboard) if self.storyboard is not None else None
        except TqError as error:
            self._without_storyboard(error)
            return None

    def _start_audio(self, names: Sequence[str]) -> Task:
        spec = self._launcher.spec
        stores = {name: self._store(name) for name in names}
        if spec.profile.target_lufs is not None:
            # An interrupted run may have had other gains.
            spec.require_ownership()
            for store in stores.values():
                store.discard()
        return self._launcher.audio(stores, self._gains(names))

    def _take_subtitles(self, task: Task) -> None:
        """Cut the next file of a run into segments and store them; one that fails is left out."""
        name = task.names[task.taken]
        task.taken += 1
        unseekable = self._launcher.records[task.number].unseekable
        spec, store = self._launcher.spec, self._store(name)
        try:
            complete = take_subtitles(spec, task.directory, name, store, unseekable=unseekable)
        except TqError as error:
            if class_of(error.code) is ErrorClass.RESOURCE:
                raise
            self._states.fail(name, error)
        else:
            self._states.update(name, warning=complete.warning)
            self._states.complete(name, complete.check)

    def _gains(self, names: Sequence[str]) -> dict[str, float]:
        return {name: self._states[name].gain_db for name in names}

    def _use(self, found: Mapping[str, Gain]) -> None:
        """Queue the audio run with these gains before the others."""
        for name, gain in found.items():
            self._states.update(name, gain_db=gain.db, warning=gain.warning)
        if found:
            self._queue.appendleft(("audio", tuple(found)))

    def _store(self, name: str) -> SegmentStore:
        return SegmentStore(self._states[name].directory)
