"""The finished segments of one stream on disk: `…/segments/<video>/<rendition>/<stream_key>/`.

Below it, in `fragments/`, are those of the segment that is in the making: a death costs no more than one of
them.

The key names the content, so two workers that put the same segment put the same thing: the second is dropped,
and one that lost its lease does no harm. Nothing in it is ever replaced.
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
from tqstudio.engine.media.segments.checked import RenditionCheck

COMPLETE_NAME = "complete.json"
_SEGMENT = re.compile(r"seg_\d{5,}\.m4s")


@dataclass(frozen=True, slots=True)
class Complete:
    """The proof that a stream is whole: written after ffmpeg ended with 0 and everything was checked."""

    encoder: str
    check: RenditionCheck


class SegmentStore:
    """The segments of one stream. Creating one touches nothing on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def init_path(self) -> Path:
        """Where the initialisation segment is, when there is one."""
        return self.root / INIT_NAME

    def put_init(self, scratch: Path) -> bool:
        """Store a copy of the initialisation segment; ffmpeg goes on writing to its own.

        Returns:
            True when it is there and fits what was stored. False when another one was there: its segments
            cannot be joined with these, so all of them are dropped and the new one is stored.

        Raises:
            OSError: as of the file system.
        """
        content = scratch.read_bytes()
        try:
            stored: bytes | None = self.init_path.read_bytes()
        except FileNotFoundError:
            stored = None
        if stored == content:
            return True
        if stored is not None:
            self.discard()
        self._write(self.init_path, content)
        return stored is None

    def put(self, scratch: Path) -> bool:
        """Move a checked segment in under its own name, durably; never over one that is there.

        Returns:
            False when it was there already; the scratch file is gone either way.

        Raises:
            OSError: as of the file system; ENOSPC leaves the scratch file.
        """
        return self._put(scratch, self.root)

    def put_fragment(self, scratch: Path) -> bool:
        """The same for a checked fragment; where the stream was proved whole meanwhile, nobody needs it."""
        try:
            return self._put(scratch, self.root / FRAGMENTS_NAME)
        except FileNotFoundError:
            # Another worker has tidied up, just now.
            if not (self.root / COMPLETE_NAME).exists():
                raise
            scratch.unlink(missing_ok=True)
            return False

    def fragment_path(self, g: int) -> Path:
        """Where fragment g is, when it is there."""
        return self.root / FRAGMENTS_NAME / fragment_name(g)

    def sync(self) -> None:
        """Make the names of the segments durable that another worker may have put there just now."""
        durable.sync_folder(self.root)

    def listing(self) -> tuple[str, ...]:
        """Names of the stored segments, in order."""
        try:
            return tuple(
                sorted(entry.name for entry in os.scandir(self.root) if _SEGMENT.fullmatch(entry.name))
            )
        except FileNotFoundError:
            return ()

    def mark_complete(self, complete: Complete) -> None:
        """Record that the stream is whole.

        Raises:
            OSError: as of the file system.
        """
        record = {"encoder": complete.encoder, "check": complete.check.to_json()}
        self._write(self.root / COMPLETE_NAME, json.dumps(record, indent=1).encode())
        # A late worker may have left some behind that are in segments now.
        shutil.rmtree(self.root / FRAGMENTS_NAME, ignore_errors=True)

    def completed(self) -> Complete | None:
        """The record of a whole stream, if it was marked and every file still has its size."""
        try:
            record = json.loads((self.root / COMPLETE_NAME).read_bytes())
            complete = Complete(record["encoder"], RenditionCheck.from_json(record["check"]))
            whole = self.init_path.stat().st_size > 0 and all(
                (self.root / segment.name).stat().st_size == segment.size
                for segment in complete.check.segments
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return complete if whole and complete.check.segments else None

    def remove(self, name: str) -> None:
        """Remove one segment, and with it the proof that the stream is whole."""
        for path in (self.root / COMPLETE_NAME, self.root / name):
            path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove everything of this stream."""
        # The proof goes first: a crash between leaves segments without it, not it without segments.
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
        # Also where another worker put it there just now: it may not have come to this yet.
        durable.sync_folder(folder)
        return stored

    def _move(self, scratch: Path, target: Path) -> bool:
        """Without hard links: a rename cannot refuse to replace, but equal names hold equal content here."""
        if target.exists():
            return False
        try:
            scratch.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._write(target, scratch.read_bytes())
        return True
