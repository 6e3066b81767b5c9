"""Measures volumes through bounded I/O: free space, whether an output is the disk used before, sources.

The mount point of an unmounted disk looks like an empty folder: a job would encode everything again below the
mount point, and the ladder would be split over two disks. So an output must contain the earlier work that the
database knows of. Sources are away if their mount point is not mounted now, but was earlier in this
supervisor's life or is in /etc/fstab; the kernel's mount table is available even if a disk does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from tqstudio.engine.files import mounts
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.volumes import occupied_bytes, volume_of
from tqstudio.engine.gates.decide import MeasuredPath, Use, VolumeState, away
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import gates
from tqstudio.errors import MEANINGS, ErrorCode, Problem, TqError
from tqstudio.paths import display

_RESUMES = "the queue resumes automatically"
_UNUSED_S = 10.0
"""How long "nothing was written to this output" is cached; the query reads all of its jobs."""
_REMEMBERED = 1000
"""Limit for unmounted mount points; containers create and remove thousands."""


class VolumeReader:
    """Measures places, and remembers mount points."""

    def __init__(self, db: Database, workspace: Workspace, bounded_io: BoundedIO) -> None:
        self._db, self._workspace, self._bounded_io = db, workspace, bounded_io
        self._unused: dict[bytes, float] = {}
        """Outputs that were not used yet, and until when that is cached."""
        self._mounted = mounts.points()
        self._gone = dict.fromkeys(mounts.expected() - self._mounted)

    async def measure(
        self, wanted: Mapping[MeasuredPath, Collection[int]]
    ) -> dict[MeasuredPath, VolumeState]:
        """Measure places; for outputs also the segment stores of these videos."""
        self._note_mounts()
        # A dead mount may have many folders, each of which would block a thread: check its root first.
        points = {place: mounts.mount_point(place.path) for place in wanted}
        roots = [root for root, folders in Counter(points.values()).items() if folders > 1]
        checks = (self._bounded_io.run(root, partial(volume_of, Path(os.fsdecode(root)))) for root in roots)
        found = await asyncio.gather(*checks, return_exceptions=True)
        unresponsive = {
            root for root, answer in zip(roots, found, strict=True) if isinstance(answer, NoAnswer)
        }

        async def one(place: MeasuredPath, videos: Collection[int]) -> VolumeState:
            try:
                if (point := points[place]) in unresponsive:
                    raise NoAnswer(point)
                return await self._measure(place, videos)
            except NoAnswer as error:
                hint = MEANINGS[ErrorCode.DISK_NOT_RESPONDING].hint
                return VolumeState(problem=Problem(ErrorCode.DISK_NOT_RESPONDING, error.strerror, hint))

        states = await asyncio.gather(*(one(place, videos) for place, videos in wanted.items()))
        return dict(zip(wanted, states, strict=True))

    async def _measure(self, place: MeasuredPath, videos: Collection[int]) -> VolumeState:
        path = place.path
        if place.use is Use.SOURCE:
            return await self._measure_source(path)
        problem = await self._output_problem(path) if place.use is Use.OUTPUT else None
        store = self._workspace.work_dir(path) / "segments"

        def read() -> VolumeState:
            made = {video: occupied_bytes(store / str(video)) for video in videos}
            return VolumeState(volume_of(Path(os.fsdecode(path))), problem, made)

        return await self._bounded_io.run(path, read)

    # Outputs

    async def _output_problem(self, root: bytes) -> Problem | None:
        try:
            is_there, is_read_only = await self._bounded_io.run(root, partial(self._examine, root))
        except NoAnswer:
            raise
        except TqError as error:
            return Problem(error.code, error.message, error.hint)
        except OSError as error:
            return Problem(
                ErrorCode.OUTPUT_UNAVAILABLE,
                f"the disk of {display(root)} cannot be used ({error.strerror})",
                f"check the disk, its cable and its mount (see dmesg); {_RESUMES}",
            )
        if is_there:
            self._unused.pop(root, None)
        elif time.monotonic() >= self._unused.get(root, 0) and await self._is_missed(root):
            work = shlex.quote(display(os.fsencode(self._workspace.work_dir(root))))
            return Problem(
                ErrorCode.OUTPUT_UNAVAILABLE,
                f"the disk of {display(root)} is not mounted: earlier work is missing",
                f"mount it, {_RESUMES}; or, if you emptied that folder yourself: mkdir -p {work}",
            )
        if is_read_only:
            return Problem(
                ErrorCode.OUTPUT_UNAVAILABLE,
                f"the disk of {display(root)} is read-only",
                f"check the disk (see dmesg), and mount it for writing again; {_RESUMES}",
            )
        return None

    def _examine(self, root: bytes) -> tuple[bool, bool]:
        """Lock an output; return whether its work folder exists, and whether its file system is read-only.

        Raises:
            TqError: OUTPUT_SHARED, OUTPUT_IN_USE.
        """
        self._workspace.require_unshared(root)
        self._workspace.require_lock(root)
        work_dir = self._workspace.work_dir(root)
        for folder in (work_dir, *work_dir.parents):
            try:
                flags = os.statvfs(folder).f_flag
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            return folder == work_dir, bool(flags & os.ST_RDONLY)
        return False, False

    async def _is_missed(self, root: bytes) -> bool:
        """Whether this output was used before, but none of its ladders are there."""
        begun, ladders = await self._db.read(gates.work_at, root)
        if not begun and not ladders:
            self._unused[root] = time.monotonic() + _UNUSED_S
            return False
        folders = [Path(os.fsdecode(root)) / slug for slug in ladders]
        return not await self._bounded_io.run(root, lambda: any(f.is_dir() for f in folders))

    async def unlock_unused(self) -> None:
        """Unlock outputs that were not measured for a while, so that their disks can be unmounted."""

        async def unlock(root: bytes) -> None:
            with contextlib.suppress(OSError):
                await self._bounded_io.run(root, partial(self._workspace.unlock_unused, root))

        await asyncio.gather(*map(unlock, self._workspace.locked()))

    # Sources

    def unmounted(self, path: bytes) -> Problem | None:
        """The problem of a path below a mount point that is not mounted now."""
        point = next((point for point in self._gone if mounts.is_within(path, point)), None)
        return None if point is None else away(f"the disk of {display(point)} is not mounted")

    async def _measure_source(self, folder: bytes) -> VolumeState:
        if (problem := self.unmounted(folder)) is not None:
            return VolumeState(problem=problem)
        try:
            real, has_files = await self._bounded_io.run(folder, partial(_list, folder))
        except NoAnswer:
            raise
        except OSError as error:
            return VolumeState(problem=away(f"{display(folder)} cannot be read ({error.strerror})"))
        return VolumeState(problem=self.unmounted(real), has_files=has_files)

    async def exists(self, path: bytes) -> bool:
        """Whether a file exists now; False also if its disk does not answer."""
        with contextlib.suppress(OSError):
            return await self._bounded_io.run(path, partial(os.path.exists, path))
        return False

    def _note_mounts(self) -> None:
        """Update the known mount points from the kernel's table."""
        now = mounts.points()
        gone = self._gone | dict.fromkeys(self._mounted - now)
        self._gone = dict.fromkeys([point for point in gone if point not in now][-_REMEMBERED:])
        self._mounted = now


def _list(folder: bytes) -> tuple[bytes, bool | None]:
    """Resolve a folder, and return whether it has any entries; None if it is no folder."""
    real = os.path.realpath(folder)
    try:
        with os.scandir(folder) as entries:
            return real, _any(entries)
    except (FileNotFoundError, NotADirectoryError):
        return real, None
    except PermissionError:
        return real, True


def _any(entries: Iterable[object]) -> bool:
    return any(True for _ in entries)
