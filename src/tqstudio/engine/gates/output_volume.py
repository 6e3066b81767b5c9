"""Checks whether an output is on the disk that was used before, and whether that disk is writable.

The mount point of an unmounted disk looks like an empty folder: a job would encode everything again below the
mount point, and the ladder would be split over two disks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from functools import partial
from pathlib import Path

from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import gates
from tqstudio.errors import ErrorCode, Problem, TqError
from tqstudio.paths import display

_RESUMES = "the queue resumes automatically"
_UNUSED_S = 10.0
"""How long "nothing was written to this output" is cached; the query reads all of its jobs."""


class OutputDisks:
    """Compares outputs with what the database knows to be there."""

    def __init__(self, db: Database, workspace: Workspace, bounded_io: BoundedIO) -> None:
        self._db, self._workspace, self._bounded_io = db, workspace, bounded_io
        self._unused: dict[bytes, float] = {}
        """Outputs that were not used yet, and until when that is cached."""

    async def trouble(self, output_root: bytes) -> Problem | None:
        """What is wrong with this output; None if nothing is.

        Raises:
            NoAnswer: its disk does not answer.
        """
        try:
            is_there, is_read_only = await self._bounded_io.run(output_root, partial(self._look, output_root))
        except NoAnswer:
            raise
        except TqError as error:
            return Problem(error.code, error.message, error.hint)
        except OSError as error:
            return Problem(
                ErrorCode.OUTPUT_GONE,
                f"the disk of {display(output_root)} cannot be used ({error.strerror})",
                f"check the disk, its cable and its mount (see dmesg); {_RESUMES}",
            )
        if is_there:
            self._unused.pop(output_root, None)
        elif time.monotonic() >= self._unused.get(output_root, 0) and await self._is_missed(output_root):
            work = shlex.quote(display(os.fsencode(self._workspace.sink(output_root))))
            return Problem(
                ErrorCode.OUTPUT_GONE,
                f"the disk of {display(output_root)} is not mounted: earlier work is missing",
                f"mount it, {_RESUMES}; or, if you emptied that folder yourself: mkdir -p {work}",
            )
        if is_read_only:
            return Problem(
                ErrorCode.OUTPUT_GONE,
                f"the disk of {display(output_root)} is read-only",
                f"check the disk (see dmesg), and mount it for writing again; {_RESUMES}",
            )
        return None

    async def keep_locks(self) -> None:
        """Renew the locks of outputs in use, and unlock unused ones after a while."""
        at_work = await self._db.read(gates.outputs_in_use)

        async def keep(root: bytes) -> None:
            renew = self._workspace.require_lock if root in at_work else self._workspace.unlock_unused
            with contextlib.suppress(OSError, TqError):
                await self._bounded_io.run(root, partial(renew, root))

        await asyncio.gather(*map(keep, at_work | self._workspace.locked()))

    def _look(self, output_root: bytes) -> tuple[bool, bool]:
        """Whether the work folder exists, and whether its file system is read-only.

        Raises:
            TqError: OUTPUT_SHARED, OUTPUT_IN_USE.
        """
        self._workspace.require_unshared(output_root)
        self._workspace.require_lock(output_root)
        sink = self._workspace.sink(output_root)
        for folder in (sink, *sink.parents):
            try:
                flags = os.statvfs(folder).f_flag
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            return folder == sink, bool(flags & os.ST_RDONLY)
        return False, False

    async def _is_missed(self, output_root: bytes) -> bool:
        """Whether this output was used before, but none of its ladders are there."""
        begun, ladders = await self._db.read(gates.work_at, output_root)
        if not begun and not ladders:
            self._unused[output_root] = time.monotonic() + _UNUSED_S
            return False
        folders = [Path(os.fsdecode(output_root)) / slug for slug in ladders]
        return not await self._bounded_io.run(output_root, lambda: any(f.is_dir() for f in folders))
