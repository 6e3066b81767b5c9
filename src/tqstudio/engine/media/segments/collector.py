"""Collects the output of a running ffmpeg for one stream: checks it and moves it to the segment store.

Video is written as fragments, by default three per segment. They are stored as they appear, and joined once
their segment is complete. Audio is written as segments.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, fragment_name, segment_name
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments import boxes, join
from tqstudio.engine.media.segments.boxes import Segment
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment, is_placed
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError

# How often to look for what other workers have stored: of ten thousand segments it takes some 10 ms.
_LIST_S = 5.0
# ffmpeg's hls muxer exits with 0 on a full disk. A damaged segment and less free space than this mean
# DISK_LOW.
_FULL_BELOW_BYTES = 16 * 1024 * 1024


class InitDiffersError(Exception):
    """The stored segments have another init.mp4. They were removed; encode this stream from its start."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the init.mp4 of {name} has changed")
        self.name = name


class SeamError(Exception):
    """A run did not begin exactly at the end of the stored media. It stored no segment."""


class StreamOutput:
    """Collects the output of one run for one rendition. A *piece* is a file that ffmpeg writes."""

    def __init__(
        self,
        name: str,
        directory: Path,
        store: SegmentStore,
        grid: Grid | None,
        start: int = 0,
        to_the_end: bool = True,
        may_store: Callable[[], None] = lambda: None,
        *,
        apart: bool = False,
    ) -> None:
        """
        Args:
            name: of the rendition.
            directory: of the run's output; created by the caller.
            store: receives checked media.
            grid: for video, whose pieces are fragments; None for audio, whose pieces are segments that end at
                boundaries of audio frames.
            start: the first piece that the run writes; it must follow the stored media.
            to_the_end: whether the run encodes to the end of the source.
            may_store: called before anything is stored; its exceptions prevent that.
            apart: whether the media before `start` need not be stored.
        """
        self.name = name
        self.store = store
        self.start = start
        self.next_piece = start
        """All pieces below this one are stored, singly or in their segment."""
        self._directory = directory
        self.grid = grid
        """Where the pieces of video begin."""
        self._to_the_end = to_the_end
        self._may_store = may_store
        self.complete_segments = self._segment_of(start)
        """All segments below this one are stored."""
        self.ahead: frozenset[int] = frozenset()
        """Later segments that are stored, as other workers have encoded them; of video."""
        self._listed_at = 0.0
        self._apart = apart
        self._open_pieces: list[tuple[Path, Segment]] = []
        """The pieces of the incomplete segment, in the store or in the scratch directory."""
        self._covering_segment: Segment | None = None
        """The stored full segment in which the run began, if there is one."""
        self._previous: Segment | None = None
        self._timescale: int | None = None
        self._failed = False
        if grid is not None:
            self._list_ahead()

    def _list_ahead(self) -> None:
        self.ahead, self._listed_at = self.store.numbers_from(self.complete_segments), time.monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether the run has not finished a piece yet."""
        return self.next_piece == self.start

    def collect(self, new: list[tuple[str, str]], ended: bool = False) -> None:
        """Move finished pieces to the store. Cheap if there are none.

        Args:
            new: receives rendition and name of the segments that were stored, also if a later one raises;
                without those that the store already had.
            ended: the run exited with 0, so that a short piece is the last one, not an incomplete one.

        Raises:
            TqError: DISK_LOW, OUTPUT_INVALID for an invalid piece, and those of `may_store`.
            InitDiffersError, SeamError: see there.
        """
        if self._failed:
            return  # do not store anything of a run after its first error
        exited, ended = ended, ended and self._to_the_end
        try:
            while self._check_next(ended):
                if self._begins_segment(self.next_piece):
                    self._close_segment(new)
                    if self.meets_stored and not exited:
                        break  # the run can end here
            if ended:
                self._close_segment(new)
            self._store_fragments()
        except OSError as error:
            self._failed = True
            # Fragments are stored by hard links, which still work on a full disk.
            with contextlib.suppress(OSError):
                self._store_fragments()
            raise from_output_error(error, f"{self.name}: cannot store a segment") from error
        except BaseException:
            self._failed = True
            raise

    @property
    def meets_stored(self) -> bool:
        """Whether the next segment is stored already, as another worker has encoded it, and joins on."""
        if self.is_empty or self.grid is None or self._timescale is None or self._previous is None:
            return False
        if not self._begins_segment(self.next_piece):
            return False
        found = self._stored_whole(self._segment_of(self.next_piece), self.grid, self._timescale)
        return found is not None and found.follows(self._previous)

    def _check_next(self, ended: bool) -> bool:
        """Check the next piece; False if it does not exist yet."""
        number = self.next_piece
        path = self._directory / self._file_name(number)
        try:
            piece = inspect_segment(path)
        except FileNotFoundError:
            if not self._directory.is_dir():
                # The folder was moved or deleted; ffmpeg has it open and would not notice.
                self._may_store()
                raise
            return False
        if isinstance(piece, Torn):
            if piece.empty and self.is_empty:
                return False  # the source has no more frames: ffmpeg is about to exit
            raise self._damaged(f"{self._piece_label()} is damaged: {piece.reason}")
        if not self._is_finished(piece, ended):
            return False
        self._may_store()
        timescale = self._shared_timescale()
        if self.grid is not None:
            if self.is_empty:
                self._open_segment(self.grid, timescale)
            self._require_joined(piece, self.grid, timescale)
        if self._covering_segment is None:
            self._open_pieces.append((path, piece))
        self._previous = piece
        self.next_piece = number + 1
        return True

    def _is_finished(self, piece: Segment, ended: bool) -> bool:
        """Whether a piece has the right frame count; False while it may be incomplete."""
        full = self.grid.fragment_frames(self.next_piece) if self.grid is not None else piece.frames
        if piece.frames == full:
            return True
        followed = (self._directory / self._file_name(self.next_piece + 1)).exists()
        if followed or piece.frames > full:
            raise self._damaged(f"{self._piece_label()} has {piece.frames} frames instead of {full}")
        return ended  # short: the last piece if ffmpeg exited with 0, otherwise incomplete

    def _shared_timescale(self) -> int:
        """Store init.mp4, or compare it with the stored one, and return the timescale of the stream."""
        if self._timescale is None:
            init = inspect_init(self._directory / INIT_NAME)
            if isinstance(init, Torn):
                raise self._damaged(f"init.mp4 is damaged: {init.reason}")
            is_stored = self.store.put_init(self._directory / INIT_NAME, replace=not self._apart)
            if not is_stored and (self.start or self._apart):
                raise InitDiffersError(self.name)
            self._timescale = init.timescale
        return self._timescale

    def _open_segment(self, grid: Grid, timescale: int) -> None:
        """Read the stored parts of the segment in which the run begins, and the piece before the run."""
        k = self._segment_of(self.start)
        if self._begins_segment(self.start):
            self._previous = self._stored(segment_name(k - 1)) if k else None
            return
        # It may be complete: the run then started early for another rendition that had a fragment less.
        self._covering_segment = self._stored_whole(k, grid, timescale)
        if self._covering_segment is None and not self._resume_fragments(
            range(grid.fragments_of(k).start, self.start)
        ):
            # A worker that lost its lease may have joined them just now.
            self._covering_segment = self._stored_whole(k, grid, timescale)

    def _resume_fragments(self, numbers: range) -> bool:
        """Continue with stored fragments; False if any of them is missing."""
        paths = [self.store.fragment_path(g) for g in numbers]
        found = [self._stored(path.relative_to(self.store.root)) for path in paths]
        whole = [(path, piece) for path, piece in zip(paths, found, strict=True) if piece is not None]
        if len(whole) < len(paths):
            return False
        self._open_pieces, self._previous = whole, whole[-1][1]
        return True

    def _stored_whole(self, k: int, grid: Grid, timescale: int) -> Segment | None:
        found = self._stored(segment_name(k))
        if found is None or found.frames != grid.segment_frames(k):
            return None
        return found if is_placed(found, grid.segment_start(k), grid, timescale) else None

    def _stored(self, name: str | Path) -> Segment | None:
        try:
            found = inspect_segment(self.store.root / name)
        except FileNotFoundError:
            return None
        return found if isinstance(found, Segment) else None

    def _require_joined(self, piece: Segment, grid: Grid, timescale: int) -> None:
        """Check that a piece is on the grid and follows the previous one without a gap."""
        if self._previous is not None:
            follows = piece.follows(self._previous)
        else:
            follows = not self.next_piece or self._apart or self._covering_segment is not None
        if not follows or not is_placed(piece, grid.fragment_start(self.next_piece), grid, timescale):
            what = f"{self._piece_label()} does not begin at the end of the previous one"
            raise self._misplaced(what, self.is_empty)

    def _close_segment(self, new: list[tuple[str, str]]) -> None:
        """Join and store the open segment, if there is one."""
        if self._covering_segment is None and not self._open_pieces:
            return
        k = self._segment_of(self.next_piece - 1)
        first = k == self._segment_of(self.start)
        if self._covering_segment is not None:
            if self._previous is None or self._previous.end_pts != self._covering_segment.end_pts:
                raise self._misplaced(f"segment {k} is already stored and has another end", first)
            self._previous, self._covering_segment = self._covering_segment, None
        elif segment := self._joined(k):
            self._drop_damaged(k, segment, first)
            if self.store.put(self._directory / segment_name(k)):
                new.append((self.name, segment_name(k)))
        self._drop_fragments(k)
        self._open_pieces = []
        self.complete_segments = k + 1
        if self.grid is not None and time.monotonic() >= self._listed_at + _LIST_S:
            self._list_ahead()
        else:
            self.ahead -= {k}

    def _joined(self, k: int) -> Segment | None:
        """Write the open segment to one file in the scratch directory; None if it is stored already."""
        path, pieces = self._directory / segment_name(k), [piece for piece, _ in self._open_pieces]
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
            return None  # a worker that lost its lease joined the same fragments
        except (OSError, boxes.BoxError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            # The next attempt must not continue from unreadable fragments.
            self._drop_fragments(k)
            raise self._damaged(f"segment {k} cannot be joined: {error}") from error
        if isinstance(segment, Torn):
            self._drop_fragments(k)
            raise self._damaged(f"segment {k} is damaged: {segment.reason}")
        return segment

    def _store_fragments(self) -> None:
        """Store the fragments of the open segment, so that a later run can continue from them."""
        for number, (path, piece) in enumerate(self._open_pieces):
            if path.parent == self._directory:
                kept = self.store.root / FRAGMENTS_NAME / path.name
                found = self._stored(kept.relative_to(self.store.root))
                if found is None or not found.is_like(piece):
                    kept.unlink(missing_ok=True)  # the stored one is damaged
                self.store.put_fragment(path)
                self._open_pieces[number] = kept, piece

    def _drop_fragments(self, k: int) -> None:
        """Remove the fragments of a segment from the store, including those of other runs."""
        if self.grid is not None:
            for g in self.grid.fragments_of(k):
                self.store.fragment_path(g).unlink(missing_ok=True)
        for path, _ in self._open_pieces:
            path.unlink(missing_ok=True)

    def _drop_damaged(self, k: int, encoded: Segment, first: bool) -> None:
        """Remove the stored segment k if it is damaged, because it would fail every later check."""
        stored = self.store.root / segment_name(k)
        found = self._stored(stored.name)
        if found is not None and found.tfdt == encoded.tfdt:
            if found.frames == encoded.frames:
                return
            if self.grid is not None and found.frames > encoded.frames:
                raise self._misplaced(
                    f"segment {k} has {encoded.frames} frames, the stored one has {found.frames}", first
                )
        stored.unlink(missing_ok=True)

    def _segment_of(self, piece: int) -> int:
        return piece if self.grid is None else self.grid.segment_of(piece)

    def _begins_segment(self, piece: int) -> bool:
        return self.grid is None or self.grid.fragments_of(self.grid.segment_of(piece)).start == piece

    def _file_name(self, number: int) -> str:
        return segment_name(number) if self.grid is None else fragment_name(number)

    def _piece_label(self) -> str:
        """The next piece, for messages."""
        return f"{'segment' if self.grid is None else 'fragment'} {self.next_piece}"

    def _misplaced(self, what: str, first: bool) -> Exception:
        """The error of a mismatch: SeamError in the first segment of a run, where the seek may have caused
        it."""
        return SeamError(f"{self.name}: {what}") if first else self._damaged(what)

    def _damaged(self, what: str) -> TqError:
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _FULL_BELOW_BYTES:
            return TqError(ErrorCode.DISK_LOW, f"the disk is full: {self.name} could not be written")
        return TqError(ErrorCode.OUTPUT_INVALID, f"{self.name}: {what}")
