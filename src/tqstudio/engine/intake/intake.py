"""Manages all drop folders: which are watched, and the state of each."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tqstudio.engine.files import mounts
from tqstudio.engine.host import logging_setup
from tqstudio.engine.intake import preview
from tqstudio.engine.intake.folder_watcher import FolderState, FolderWatcher, Known, Offer
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.library.folders import FolderRow

_SCANS_S = 1.0


class Intake(Part):
    """Offers every video in the drop folders once it is complete.

    A file is offered again when its size or modification time differ from those offered and from those of
    `known`. For a `TqError` the file is skipped until it changes; for any other exception it is offered again
    after the next scan of the folder.

    Args:
        default_settle_s: for folders without a value of their own.
        rescan_s: time between two scans of a folder that inotify watches.
        include_temporary_files: the setting.
        offer: awaited with a folder and complete files; returns for each the exception, if any. For
            `NotHashed` the whole file is hashed and offered again with its digest.
        rules: returns all folders, at the start.
        known: the files of a folder that are in the database: path → (size, mtime_ns).
    """

    def __init__(
        self,
        *,
        default_settle_s: float,
        rescan_s: float,
        offer: Offer,
        known: Known,
        rules: Callable[[], Awaitable[Sequence[FolderRow]]] | None = None,
        include_temporary_files: bool = False,
    ) -> None:
        self._default_settle_s = default_settle_s
        self._take_bins = include_temporary_files
        self._rescan_s = rescan_s
        self._offer = offer
        self._known = known
        self._rules = rules
        self._started = False
        self._rows: tuple[FolderRow, ...] = ()
        self._watched: dict[int, FolderWatcher] = {}
        self._changing = asyncio.Lock()
        self.every = (Periodic(_SCANS_S, self.request_due_scans),)

    async def start(self) -> None:
        """Start watching the folders; a second call does nothing."""
        if not self._started:
            self._started = True
            await self.set_folders(self._rows if self._rules is None else await self._rules())

    async def set_folders(self, folders: Sequence[FolderRow]) -> None:
        """Watch exactly these folders from now on; new and changed ones are scanned at once."""
        async with self._changing:
            self._rows = tuple(folders)
            logging_setup.know(*(path for row in folders for path in _paths(row)))
            if self._started:
                await self._watch()

    def rescan_soon(self, folder_id: int | None = None) -> None:
        """Scan one folder, or all, without waiting for the next scheduled scan."""
        for number, watched in self._watched.items():
            if folder_id in (None, number):
                watched.rescan_soon()

    async def request_due_scans(self) -> None:
        """Request the scans that are due. One timer for all folders costs less than one for each."""
        for watched in self._watched.values():
            watched.request_due_scan()

    def look_again(self, path: bytes) -> None:
        """Offer a file again: its job missed it, or follows it to another name."""
        for watched in self._watched.values():
            if mounts.is_within(path, watched.row.path):
                watched.look_again(path)

    def states(self) -> Mapping[int, FolderState]:
        """The state of each folder by id; that of a disabled one is empty."""
        idle = {
            row.id: FolderState(0, 0, (), "polling" if row.watch == "polling" else "inotify", None)
            for row in self._rows
        }
        return idle | {number: watched.state() for number, watched in self._watched.items()}

    def preview(self, row: FolderRow, halt: threading.Event) -> preview.Preview:
        """Look at what a folder holds by other rules, or before it is watched; reads the disk."""
        return preview.look(
            row, excluded=self._excluded(row), include_temporary_files=self._take_bins, halt=halt
        )

    async def stop(self) -> None:
        """Stop all watches; incomplete files are found again at the next start."""
        async with self._changing:
            self._started = False
            watched, self._watched = self._watched, {}
            await asyncio.gather(*(one.stop() for one in watched.values()))

    async def start_over(self) -> None:
        """Offer all files again: the database has forgotten them."""
        if self._started:
            await self.stop()
            await self.start()

    async def _watch(self) -> None:
        wanted = {row.id: row for row in self._rows if row.enabled}
        ended = [n for n, watched in self._watched.items() if wanted.get(n) != watched.row]
        await asyncio.gather(*(self._watched.pop(number).stop() for number in ended))
        for number, row in wanted.items():
            if number in self._watched:
                self._watched[number].set_excluded(self._excluded(row))
                continue
            self._watched[number] = FolderWatcher(
                row,
                settle_s=self._default_settle_s if row.settle_s is None else row.settle_s,
                rescan_s=self._rescan_s,
                include_temporary_files=self._take_bins,
                excluded=self._excluded(row),
                offer=self._offer,
                known=self._known,
            )
            self._watched[number].start()

    def _excluded(self, row: FolderRow) -> tuple[bytes, ...]:
        """Directories that may be below a folder but are not part of it: outputs, other drop folders, sources
        that were moved when they were done.

        A nested drop folder counts even if it is disabled, because otherwise a file would get two jobs.
        """
        own = os.path.normpath(row.path)
        others = (other for other in self._rows if other.path != row.path)
        every = {path for other in (row, *others) for path in _paths(other)}
        return tuple(sorted(path for path in every if os.path.normpath(path) != own))


def _paths(row: FolderRow) -> list[bytes]:
    return [path for path in (row.path, row.output_root, row.done_dir) if path is not None]
