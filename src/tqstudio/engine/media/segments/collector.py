"""One stream while ffmpeg makes it: from the scratch directory, checked, into the segment store.

Video comes in fragments, three to a segment by default. They are stored as they come, and joined when their
segment is whole; sound comes in segments.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media.ffmpeg.process import from_output_error
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, fragment_name, segment_name
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments import boxes, join
from tqstudio.engine.media.segments.inspect import Segment, Torn, inspect_init, inspect_segment, is_placed
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError

# ffmpeg's hls muxer exits 0 on a full disk. A torn segment and less free space than this mean a full disk.
_FULL_BELOW_BYTES = 16 * 1024 * 1024


class InitDiffersError(Exception):
    """The stored segments begin with another init.mp4. They were dropped; start this stream at its start."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} begins with another init.mp4 now")
        self.name = name


class SeamError(Exception):
    """A run did not begin where the stored media ends, or where the source does. It stored no segment."""


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
    """Collects what one run writes for one rendition. A *piece* is a file that ffmpeg writes."""

    def __init__(
        self,
        name: str,
        directory: Path,
        store: SegmentStore,
        grid: Grid | None,
        start: int = 0,
        to_the_end: bool = True,
        may_store: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            name: of the rendition.
            directory: of the run's output; created by the caller.
            store: where checked media goes.
            grid: of the video, whose pieces are fragments; None for audio, whose pieces are segments that
                end where its own frames do.
            start: the first piece that the run writes; it has to follow what is stored before it.
            to_the_end: the run goes on to the end of the source.
            may_store: asked before anything is stored; raises TqError when what ffmpeg read is not the source
                any more.
        """
        self.name = name
        self.store = store
        self.start = start
        self.next_piece = start
        """Pieces below this one are stored, by themselves or in their segment."""
        self._directory = directory
        self._grid = grid
        self._to_the_end = to_the_end
        self._may_store = may_store
        self._pieces_per_segment = grid.fragments_per_segment if grid is not None else 1
        self.whole_segments = start // self._pieces_per_segment
        """Segments below this one are stored."""
        self._opened: list[tuple[Path, Segment]] = []
        """The pieces of the segment in the making, in the store or in the scratch directory."""
        self._covering: Segment | None = None
        """That segment, where it is stored as a whole, and the run began within it."""
        self._before: Segment | None = None
        self._timescale: int | None = None
        self._failed = False

    @property
    def made_nothing(self) -> bool:
        """It has not finished a single piece."""
        return self.next_piece == self.start

    def collect(self, new: list[NewSegment], ended: bool = False) -> None:
        """Move what is finished into the store. Cheap when there is nothing.

        Args:
            new: receives the segments that were stored, also when a later one raises; not what the store had
                already.
            ended: the run ended with 0: a short piece is the last one, not a torn one.

        Raises:
            TqError: DISK_LOW, or OUTPUT_INVALID for a piece that cannot be right; what `may_store` raises.
            InitDiffersError, SeamError: see there.
        """
        if self._failed:
            return  # what was in the making when it failed is not to be touched again
        ended = ended and self._to_the_end
        try:
            while self._take(ended):
                if self.next_piece % self._pieces_per_segment == 0:
                    self._close_segment(new)
            if ended:
                self._close_segment(new)
            self._keep_fragments()
        except OSError as error:
            self._failed = True
            # A full disk takes links though it does not take a segment more.
            with contextlib.suppress(OSError):
                self._keep_fragments()
            raise from_output_error(error, f"{self.name}: storing what was made failed") from error
        except BaseException:
            self._failed = True
            raise

    def _take(self, ended: bool) -> bool:
        """Check the next piece; False when it is not there yet."""
        number = self.next_piece
        path = self._directory / self._file_name(number)
        try:
            piece = inspect_segment(path)
        except FileNotFoundError:
            if not self._directory.is_dir():
                # ffmpeg holds its folder open and would go on to the end, wherever that is now.
                self._may_store()
                raise
            return False
        if isinstance(piece, Torn):
            if piece.empty and self.made_nothing:
                return False  # the source has no frame from here on: ffmpeg is about to end
            raise self._damaged(f"{self._what()} is not whole: {piece.reason}")
        if not self._is_finished(piece, ended):
            return False
        self._may_store()
        timescale = self._continued()
        if self._grid is not None:
            if self.made_nothing:
                self._open_segment(self._grid, timescale)
            self._require_joined(piece, self._grid, timescale)
        if self._covering is None:
            self._opened.append((path, piece))
        self._before = piece
        self.next_piece = number + 1
        return True

    def _is_finished(self, piece: Segment, ended: bool) -> bool:
        """Whether a piece has the frames it should; False while it may be one that was cut short."""
        if self._grid is None or piece.frames == self._grid.gop:
            return True
        followed = (self._directory / self._file_name(self.next_piece + 1)).exists()
        if followed or piece.frames > self._grid.gop:
            raise self._damaged(f"{self._what()} has {piece.frames} frames instead of {self._grid.gop}")
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

    def _open_segment(self, grid: Grid, timescale: int) -> None:
        """Find what the store has of the segment in which the run begins, and what lies before the run."""
        k, within = divmod(self.start, self._pieces_per_segment)
        if not within:
            self._before = self._stored(segment_name(k - 1)) if k else None
            return
        # Stored as a whole, it lacks nothing: another rendition of the run lags behind by a fragment.
        self._covering = self._stored_whole(k, grid, timescale)
        if self._covering is None and not self._take_up(range(self.start - within, self.start)):
            # A late worker may have joined them just now.
            self._covering = self._stored_whole(k, grid, timescale)

    def _take_up(self, numbers: range) -> bool:
        """Go on with stored fragments; False where they are not all there."""
        paths = [self.store.fragment_path(g) for g in numbers]
        found = [self._stored(path.relative_to(self.store.root)) for path in paths]
        whole = [(path, piece) for path, piece in zip(paths, found, strict=True) if piece is not None]
        if len(whole) < len(paths):
            return False
        self._opened, self._before = whole, whole[-1][1]
        return True

    def _stored_whole(self, k: int, grid: Grid, timescale: int) -> Segment | None:
        found = self._stored(segment_name(k))
        if found is None or found.frames != grid.seg_frames:
            return None
        return found if is_placed(found, k * grid.seg_frames, grid, timescale) else None

    def _stored(self, name: str | Path) -> Segment | None:
        try:
            found = inspect_segment(self.store.root / name)
        except FileNotFoundError:
            return None
        return found if isinstance(found, Segment) else None

    def _require_joined(self, piece: Segment, grid: Grid, timescale: int) -> None:
        """The first frame must be the one after the last frame of the piece before, on the grid."""
        if self._before is not None:
            follows = piece.follows(self._before)
        else:
            follows = not self.next_piece or self._covering is not None
        if not follows or not is_placed(piece, self.next_piece * grid.gop, grid, timescale):
            what = f"{self._what()} does not begin where the one before it ends"
            raise self._misplaced(what, self.made_nothing)

    def _close_segment(self, new: list[NewSegment]) -> None:
        """Store the segment in the making; nothing where none is."""
        if self._covering is None and not self._opened:
            return
        k = (self.next_piece - 1) // self._pieces_per_segment
        first = k == self.start // self._pieces_per_segment
        if self._covering is not None:
            if self._before is None or self._before.end_pts != self._covering.end_pts:
                raise self._misplaced(f"segment {k} was made before, and ends elsewhere", first)
            self._before, self._covering = self._covering, None
        elif segment := self._joined(k):
            self._drop_damaged(k, segment, first)
            if self.store.put(self._directory / segment_name(k)):
                new.append(NewSegment(self.name, k, segment_name(k), segment.size, segment.frames))
        self._drop_fragments(k)
        self._opened = []
        self.whole_segments = k + 1

    def _joined(self, k: int) -> Segment | None:
        """The segment in the making as one file in the scratch directory; None when the store has it."""
        path, pieces = self._directory / segment_name(k), [piece for piece, _ in self._opened]
        try:
            if len(pieces) == 1 and pieces[0].parent == self._directory:
                pieces[0].replace(path)
            else:
                join.join(pieces, path)
            segment = inspect_segment(path)
        except FileNotFoundError:
            if self._stored(segment_name(k)) is None:
                raise
            self.store.sync()
            return None  # a late worker had the same fragments
        except (OSError, boxes.Damage) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            # One that cannot be read to its end is not to be met again by the next attempt.
            self._drop_fragments(k)
            raise self._damaged(f"segment {k} cannot be joined: {error}") from error
        if isinstance(segment, Torn):
            self._drop_fragments(k)
            raise self._damaged(f"segment {k} is not whole: {segment.reason}")
        return segment

    def _keep_fragments(self) -> None:
        """Store those of the segment in the making, so that they outlive this run."""
        for number, (path, piece) in enumerate(self._opened):
            if path.parent == self._directory:
                kept = self.store.root / FRAGMENTS_NAME / path.name
                found = self._stored(kept.relative_to(self.store.root))
                if found is None or not found.is_like(piece):
                    kept.unlink(missing_ok=True)  # the disk has lost it
                self.store.put_fragment(path)
                self._opened[number] = kept, piece

    def _drop_fragments(self, k: int) -> None:
        """Remove those of a segment from the store, also one that another run has left there."""
        if self._grid is not None:
            for g in range(k * self._pieces_per_segment, (k + 1) * self._pieces_per_segment):
                self.store.fragment_path(g).unlink(missing_ok=True)
        for path, _ in self._opened:
            path.unlink(missing_ok=True)

    def _drop_damaged(self, k: int, made: Segment, first: bool) -> None:
        """Remove a stored segment that the disk has lost: a damaged one would fail every later check."""
        stored = self.store.root / segment_name(k)
        found = self._stored(stored.name)
        if found is not None and found.tfdt == made.tfdt:
            if found.frames == made.frames:
                return
            if self._grid is not None and found.frames > made.frames:
                raise self._misplaced(
                    f"segment {k} has {made.frames} frames, {found.frames} were made before", first
                )
        stored.unlink(missing_ok=True)

    def _file_name(self, number: int) -> str:
        return segment_name(number) if self._grid is None else fragment_name(number)

    def _what(self) -> str:
        """The next piece, for messages."""
        return f"{'segment' if self._grid is None else 'fragment'} {self.next_piece}"

    def _misplaced(self, what: str, first: bool) -> Exception:
        """What does not fit at the beginning of a run is a matter of the seek."""
        return SeamError(f"{self.name}: {what}") if first else self._damaged(what)

    def _damaged(self, what: str) -> TqError:
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _FULL_BELOW_BYTES:
            return TqError(ErrorCode.DISK_LOW, f"the disk became full while {self.name} was written")
        return TqError(ErrorCode.OUTPUT_INVALID, f"{self.name}: {what}")
