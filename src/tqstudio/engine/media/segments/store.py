"""Stores the finished segments of a stream durably, in `…/segments/<video>/<rendition>/<stream_key>/`.

Its sub-folder `fragments/` has the fragments of the incomplete segment, so that a crash loses at most one of
them. Equal keys mean equal content: if two workers store the same segment, the second one is dropped, so a
worker that lost its lease does no harm. Files are never replaced, except the last segment when a short rest
joins it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, fragment_name
from tqstudio.engine.media.plan.grid import SHORT_S
from tqstudio.engine.media.segments import boxes
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment
from tqstudio.engine.media.segments.join import join

COMPLETE_NAME = "complete.json"
_SEGMENT = re.compile(r"seg_\d{5,}\.(m4s|vtt)")


@dataclass(frozen=True, slots=True)
class Complete:
    """The record of a complete stream, written after ffmpeg exited with 0 and the stream was verified."""

    encoder: str
    check: RenditionCheck
    warning: str = ""
    """As of `RenditionState`."""
    duplicate: int | None = None
    """Id of the video that it was linked from."""


class SegmentStore:
    """The segments of one stream. Creating the object does not access the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def init_path(self) -> Path:
        """The path of the initialisation segment, which may not exist."""
        return self.root / INIT_NAME

    def put_init(self, scratch: Path, *, replace: bool = True) -> bool:
        """Store a copy of the initialisation segment; ffmpeg may still write to the original.

        False if a different one was stored: its segments cannot be joined with new ones, so the whole stream
        is discarded first. With `replace=False` nothing is stored or discarded: False unless it is stored.
        """
        content = scratch.read_bytes()
        try:
            stored: bytes | None = self.init_path.read_bytes()
        except FileNotFoundError:
            stored = None
        if stored == content:
            return True
        if not replace:
            return False
        if stored is not None:
            self.discard()
        self._write(self.init_path, content)
        return stored is None

    def put(self, scratch: Path) -> bool:
        """Move a checked segment durably into the store, under its name; False if it was stored already.

        It never replaces a file. The scratch file is removed, but kept on ENOSPC.
        """
        return self._put(scratch, self.root)

    def put_all(self, scratch: Path) -> None:
        """Move a folder with all segments of a stream, already synced, durably to the place of the stream."""
        durable.sync_folder(scratch)
        durable.make_folder(self.root.parent)
        self.discard()
        scratch.rename(self.root)
        durable.sync_folder(self.root.parent)

    def put_fragment(self, scratch: Path) -> bool:
        """The same for a checked fragment; dropped if the stream was completed meanwhile."""
        try:
            return self._put(scratch, self.root / FRAGMENTS_NAME)
        except FileNotFoundError:
            # Another worker has completed the stream and removed the folder.
            if not (self.root / COMPLETE_NAME).exists():
                raise
            scratch.unlink(missing_ok=True)
            return False

    def fragment_path(self, g: int) -> Path:
        """The path of fragment g, which may not exist."""
        return self.root / FRAGMENTS_NAME / fragment_name(g)

    def sync(self) -> None:
        """Sync the folder, because another worker may have added a segment without syncing yet."""
        durable.sync_folder(self.root)

    def listing(self) -> tuple[str, ...]:
        """Names of the stored segments, in order."""
        try:
            return tuple(
                sorted(entry.name for entry in os.scandir(self.root) if _SEGMENT.fullmatch(entry.name))
            )
        except FileNotFoundError:
            return ()

    def join_short_end(self) -> None:
        """Join a last segment of less than `SHORT_S` to the one before, durably.

        Damaged ones stay as they are: verification reports them.
        """
        names = self.listing()
        if len(names) < 2 or not self.init_path.exists():
            return
        init, last = inspect_init(self.init_path), inspect_segment(self.root / names[-1])
        if isinstance(init, Torn) or isinstance(last, Torn) or last.duration / init.timescale >= SHORT_S:
            return
        parts = [self.root / name for name in names[-2:]]
        joined = self.root / f".{names[-2]}.{os.getpid()}"
        try:
            join(parts, joined)
            # Nothing of it was encoded again.
            found = parts[0].stat()
            os.utime(joined, ns=(found.st_atime_ns, found.st_mtime_ns))
            durable.sync(joined)
            # First, so that what a crash leaves is contiguous: then the rest is encoded again.
            parts[1].unlink()
            self.sync()
            joined.replace(parts[0])
            self.sync()
        except boxes.BoxError:
            return
        finally:
            joined.unlink(missing_ok=True)

    def numbers_from(self, k: int) -> frozenset[int]:
        """Numbers of the stored segments from segment k on."""
        numbers = (int(name.partition(".")[0].removeprefix("seg_")) for name in self.listing())
        return frozenset(number for number in numbers if number >= k)

    def mark_complete(self, complete: Complete) -> None:
        """Record that the stream is complete."""
        record = {
            "encoder": complete.encoder,
            "check": complete.check.to_json(),
            "warning": complete.warning,
            "duplicate": complete.duplicate,
        }
        self._write(self.root / COMPLETE_NAME, json.dumps(record, indent=1).encode())
        # A worker that lost its lease may have left fragments that are part of segments now.
        shutil.rmtree(self.root / FRAGMENTS_NAME, ignore_errors=True)

    def completed(self) -> Complete | None:
        """The record of a complete stream.

        None if it is not marked, a file is missing or changed size, or an earlier version left a short end.
        """
        try:
            record = json.loads((self.root / COMPLETE_NAME).read_bytes())
            complete = Complete(
                record["encoder"],
                RenditionCheck.from_json(record["check"]),
                record.get("warning", ""),
                record.get("duplicate"),
            )
            has_init = not complete.check.has_init or self.init_path.stat().st_size > 0
            whole = has_init and all(
                (self.root / segment.name).stat().st_size == segment.size
                for segment in complete.check.segments
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return complete if whole and complete.check.segments and not complete.check.ends_short else None

    def remove(self, name: str) -> None:
        """Remove one segment and the record that the stream is complete."""
        for path in (self.root / COMPLETE_NAME, self.root / name):
            path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove everything of this stream."""
        # The record first: after a crash in between there must be no record without segments.
        with contextlib.suppress(FileNotFoundError):
            (self.root / COMPLETE_NAME).unlink()
        shutil.rmtree(self.root, ignore_errors=True)

    def _write(self, target: Path, content: bytes) -> None:
        durable.make_folder(target.parent)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            durable.write(temporary, content)
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        durable.sync_folder(target.parent)

    def _put(self, scratch: Path, folder: Path) -> bool:
        durable.sync(scratch)
        target = folder / scratch.name
        try:
            durable.make_folder(folder)
            os.link(scratch, target)
            stored = True
        except FileExistsError:
            stored = False
        except OSError as error:
            if error.errno not in durable.NO_LINKS:
                raise
            stored = self._move(scratch, target)
        scratch.unlink(missing_ok=True)
        # Even if another worker stored it: that one may not have synced the folder yet.
        durable.sync_folder(folder)
        return stored

    def _move(self, scratch: Path, target: Path) -> bool:
        """Store without hard links. A rename may replace a file, but equal names have equal content here."""
        if target.exists():
            return False
        try:
            scratch.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._write(target, scratch.read_bytes())
        return True
