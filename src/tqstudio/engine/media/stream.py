"""One stream while ffmpeg makes it: from the scratch directory, checked, into the segment store."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.layout import INIT_NAME, segment_name
from tqstudio.engine.media.process import from_os_error
from tqstudio.engine.media.segment_store import SegmentStore
from tqstudio.engine.media.segments import Segment, Torn, inspect_init, inspect_segment, is_placed
from tqstudio.errors import ErrorCode, TqError

# ffmpeg's hls muxer exits 0 on a full disk. A torn segment and less free space than this mean a full disk.
_FULL_BELOW_BYTES = 16 * 1024 * 1024


class InitDiffersError(Exception):
    """The stored segments begin with another init.mp4. They were dropped; start this stream at segment 0."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} begins with another init.mp4 now")
        self.name = name


class SeamError(Exception):
    """A run did not begin where the stored segments end, or where the source does. It stored nothing."""


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment that was checked and is in the store now."""

    rendition: str
    index: int
    name: str
    size: int
    """Bytes."""
    frames: int


class StreamOutput:
    """Collects what one run writes for one rendition."""

    def __init__(
        self,
        name: str,
        directory: Path,
        store: SegmentStore,
        grid: Grid | None,
        start: int = 0,
        may_store: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            name: of the rendition.
            directory: of the run's output; created by the caller.
            store: where checked segments go.
            grid: of the video; None for audio, whose segments end where its own frames do.
            start: the first segment that the run writes; it has to follow the stored one before it.
            may_store: asked before anything is stored; raises TqError when what ffmpeg read is not the source
                any more.
        """
        self.name = name
        self.store = store
        self.start = start
        self.next_segment = start
        """Segments below this one are in the store."""
        self._directory = directory
        self._grid = grid
        self._before: Segment | None = None
        self._may_store = may_store
        self._timescale: int | None = None

    @property
    def made_nothing(self) -> bool:
        """It has not finished a single segment."""
        return self.next_segment == self.start

    def collect(self, new: list[NewSegment], ended: bool = False) -> None:
        """Move whole segments into the store. Cheap when there is none.

        Args:
            new: receives what was stored, also when a later segment raises; not what the store had already.
            ended: the run ended with 0: a short segment is the last one, not a torn one.

        Raises:
            TqError: DISK_LOW, or OUTPUT_INVALID for a segment that cannot be right; what `may_store` raises.
            InitDiffersError, SeamError: see there.
        """
        try:
            while self._take(new, ended):
                pass
        except OSError as error:
            raise from_os_error(error, f"{self.name}: storing segment {self.next_segment} failed") from error

    def _take(self, new: list[NewSegment], ended: bool) -> bool:
        """Store the next segment; False when it is not there yet."""
        k = self.next_segment
        path = self._directory / segment_name(k)
        try:
            segment = inspect_segment(path)
        except FileNotFoundError:
            return False
        if isinstance(segment, Torn):
            if segment.empty and self.made_nothing:
                return False  # the source has no frame from here on: ffmpeg is about to end
            raise self._damaged(f"segment {k} is not whole: {segment.reason}")
        if not self._is_finished(k, segment, ended):
            return False
        self._may_store()
        timescale = self._continued()
        if self._grid is not None:
            self._require_joined(k, segment, self._grid, timescale)
        self._drop_damaged(k, segment)
        if self.store.put(path):
            new.append(NewSegment(self.name, k, path.name, segment.size, segment.frames))
        self._before = segment
        self.next_segment = k + 1
        return True

    def _is_finished(self, k: int, segment: Segment, ended: bool) -> bool:
        """Whether a segment has the frames it should; False while it may be one that was cut short."""
        if self._grid is None or segment.frames == self._grid.seg_frames:
            return True
        followed = (self._directory / segment_name(k + 1)).exists()
        if followed or segment.frames > self._grid.seg_frames:
            raise self._damaged(f"segment {k} has {segment.frames} frames instead of {self._grid.seg_frames}")
        return ended  # the last one, or one that a dying ffmpeg cut short: its exit status tells

    def _continued(self) -> int:
        """The timescale of the stream, once its init.mp4 is stored or found equal to the stored one."""
        if self._timescale is None:
            init = inspect_init(self._directory / INIT_NAME)
            if isinstance(init, Torn):
                raise self._damaged(f"init.mp4 is not whole: {init.reason}")
            if not self.store.put_init(self._directory / INIT_NAME) and self.start:
                raise InitDiffersError(self.name)
            self._timescale = init.timescale
        return self._timescale

    def _require_joined(self, k: int, segment: Segment, grid: Grid, timescale: int) -> None:
        """The first frame must be the one after the last frame of the segment before, on the grid."""
        if self._before is None and k:
            stored = inspect_segment(self.store.root / segment_name(k - 1))
            self._before = stored if isinstance(stored, Segment) else None
        follows = segment.follows(self._before) if self._before is not None else not k
        if not follows or not is_placed(segment, k, grid, timescale):
            raise self._misplaced(f"segment {k} does not begin where the one before it ends")

    def _drop_damaged(self, k: int, made: Segment) -> None:
        """Remove a stored segment that the disk has lost: a damaged one would fail every later check."""
        stored = self.store.root / segment_name(k)
        try:
            found = inspect_segment(stored)
        except FileNotFoundError:
            return
        if isinstance(found, Segment) and found.tfdt == made.tfdt:
            if found.frames == made.frames:
                return
            if self._grid is not None and found.frames > made.frames:
                raise self._misplaced(
                    f"segment {k} has {made.frames} frames, {found.frames} were made before"
                )
        stored.unlink(missing_ok=True)

    def _misplaced(self, what: str) -> Exception:
        if self.made_nothing:
            return SeamError(f"{self.name}: {what}")
        return self._damaged(what)

    def _damaged(self, what: str) -> TqError:
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _FULL_BELOW_BYTES:
            return TqError(ErrorCode.DISK_LOW, f"the disk became full while {self.name} was written")
        return TqError(ErrorCode.OUTPUT_INVALID, f"{self.name}: {what}")
