"""One stream while ffmpeg makes it: from the scratch directory, checked, into the segment store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.layout import INIT_NAME, segment_name
from tqstudio.engine.media.process import from_os_error
from tqstudio.engine.media.rendition import RenditionCheck
from tqstudio.engine.media.segment_store import Complete, SegmentStore
from tqstudio.engine.media.segments import Segment, Torn, inspect_segment
from tqstudio.engine.media.verify import verify_rendition
from tqstudio.errors import ErrorCode, TqError

# ffmpeg's hls muxer exits 0 on a full disk. A torn segment and less free space than this mean a full disk.
_FULL_BELOW_BYTES = 16 * 1024 * 1024


class InitDiffersError(Exception):
    """The stored segments begin with another init.mp4. They were dropped; start this stream at segment 0."""


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
        self, name: str, directory: Path, store: SegmentStore, grid: Grid | None, start_segment: int
    ) -> None:
        """
        Args:
            name: of the rendition.
            directory: of the run's output; created by the caller.
            store: where checked segments go.
            grid: of the video; None for audio, whose segments end where its own frames do.
            start_segment: the first segment that the run writes.
        """
        self.name = name
        self.store = store
        self.next_segment = start_segment
        """Segments below this one are in the store."""
        self._directory = directory
        self._grid = grid
        self._start_segment = start_segment
        self._has_init = False

    def collect(self, new: list[NewSegment], ended: bool = False) -> None:
        """Move whole segments into the store. Cheap when there is none.

        Args:
            new: receives what was stored, also when a later segment raises; not what the store had already.
            ended: the run ended with 0: a short segment is the last one, not a torn one.

        Raises:
            TqError: DISK_LOW, or OUTPUT_INVALID for a segment that cannot be right.
            InitDiffersError: see there.
        """
        try:
            while self._take(new, ended):
                pass
        except OSError as error:
            raise from_os_error(error, f"{self.name}: storing segment {self.next_segment} failed") from error

    def check(self) -> RenditionCheck:
        """Verify the stored stream from end to end, after the run ended with 0 and everything was collected.

        Raises:
            TqError: OUTPUT_EMPTY or OUTPUT_INVALID.
        """
        return verify_rendition(self.store.root, self._grid, name=self.name)

    def mark_complete(self, check: RenditionCheck, encoder: str) -> None:
        """Record that nothing of this stream has to be made again.

        Raises:
            TqError: DISK_LOW and such.
        """
        try:
            self.store.mark_complete(Complete(encoder, check))
        except OSError as error:
            raise from_os_error(error, f"{self.name}: recording the finished stream failed") from error

    def _take(self, new: list[NewSegment], ended: bool) -> bool:
        """Store the next segment; False when it is not there yet."""
        k = self.next_segment
        path = self._directory / segment_name(k)
        try:
            segment = inspect_segment(path)
        except FileNotFoundError:
            return False
        if isinstance(segment, Torn):
            raise self._damaged(f"segment {k} is not whole: {segment.reason}")
        if self._grid is not None and segment.frames != self._grid.seg_frames:
            followed = (self._directory / segment_name(k + 1)).exists()
            if followed or segment.frames > self._grid.seg_frames:
                raise self._damaged(
                    f"segment {k} has {segment.frames} frames instead of {self._grid.seg_frames}"
                )
            if not ended:
                return False  # the last one, or one that a dying ffmpeg cut short: its exit status tells
        if not self._has_init:
            joined = self.store.put_init(self._directory / INIT_NAME)
            self._has_init = True
            if not joined and self._start_segment:
                raise InitDiffersError(self.name)
        self._drop_damaged(path.name, segment)
        if self.store.put(path):
            new.append(NewSegment(self.name, k, path.name, segment.size, segment.frames))
        self.next_segment = k + 1
        return True

    def _drop_damaged(self, name: str, made: Segment) -> None:
        """Remove a stored segment that the disk has lost: a damaged one would fail every later check."""
        stored = self.store.root / name
        try:
            found = inspect_segment(stored)
        except FileNotFoundError:
            return
        if isinstance(found, Torn) or (found.frames, found.tfdt) != (made.frames, made.tfdt):
            stored.unlink(missing_ok=True)

    def _damaged(self, what: str) -> TqError:
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _FULL_BELOW_BYTES:
            return TqError(ErrorCode.DISK_LOW, f"the disk became full while {self.name} was written")
        return TqError(ErrorCode.OUTPUT_INVALID, f"{self.name}: {what}")
