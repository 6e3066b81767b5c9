"""Collects hints about changes in a drop folder, which watchdog reports.

Hints may be late, duplicated or missing. watchdog does not report what it misses: an overflow of the kernel's
queue, a mount that comes or goes, a sub-folder without a watch. So only the state of the disk counts, and
every full scan first opens the watch again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

LIMITS = frozenset((errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Errors that mean that no more directories can be watched, as opposed to errors of one directory."""

_FLOOD = 5_000
"""Number of pending hints above which a full scan is cheaper."""

# Without FileModifiedEvent: copying 50 GB would send a hundred thousand; FileClosedEvent suffices.
_IN_FOLDER: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileMovedEvent,
    FileClosedEvent,
    FileDeletedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
_BESIDE_FOLDER: list[type[FileSystemEvent]] = [DirCreatedEvent, DirMovedEvent, DirDeletedEvent]


@dataclass(slots=True)
class HintBatch:
    """The hints for one round."""

    files: set[bytes] = field(default_factory=set)
    arrived: set[bytes] = field(default_factory=set)
    """Files that were renamed to their path, as programs do with finished files."""
    rescan: bool = False
    """Too much changed: directories were moved or removed, or too many files."""


class Hints(FileSystemEventHandler):
    """The hints about one folder since the last round.

    watchdog's threads call `on_any_event`; the folder's own thread calls `open` and `close`, because both
    wait for the file system. Each folder has an observer of its own, so that none waits for another's mount.

    Args:
        matters: whether a file or directory below the folder needs to be checked; called in any thread.
        wake: called in the event loop's thread when there are hints.
    """

    def __init__(
        self,
        root: bytes,
        *,
        recursive: bool,
        matters: Callable[[bytes, bool], bool],
        wake: Callable[[], None],
    ) -> None:
        self._root = root
        self._recursive = recursive
        self._matters = matters
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._observer: BaseObserver | None = None
        self._real = root
        """The root as watchdog reports it, without symbolic links."""
        self._lock = threading.Lock()
        self._batch = HintBatch()
        self._is_awake = False

    def open(self) -> int | None:
        """Watch the folder from now on, again if it is watched.

        Returns:
            the errno of the limit for which not all of it can be watched.
        """
        self.close()
        limit = None
        try:
            self._observer = _new_observer()
        except OSError as error:
            return error.errno
        self._real = os.path.realpath(self._root)
        # watchdog ignores that a sub-folder cannot be watched. The folder's parent, which reports that the
        # folder itself is moved or replaced, comes last, so that a reached limit refuses it too.
        for path, recursive, events in (
            (self._real, self._recursive, _IN_FOLDER),
            (os.path.dirname(self._real), False, _BESIDE_FOLDER),
        ):
            try:
                self._observer.schedule(self, os.fsdecode(path), recursive=recursive, event_filter=events)
            except OSError as error:
                if error.errno in LIMITS:
                    limit = error.errno
        return limit

    def close(self) -> None:
        """Stop watching; hints that were not delivered yet are lost."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join()

    def add(self, path: bytes) -> None:
        """Have a file checked in the next round."""
        with self._lock:
            self._batch.files.add(path)
            self._signal()

    def take(self) -> HintBatch:
        """Remove and return the hints so far."""
        with self._lock:
            batch, self._batch, self._is_awake = self._batch, HintBatch(), False
            return batch

    def on_any_event(self, event: FileSystemEvent) -> None:
        origin, target = self._path(event.src_path), self._path(event.dest_path)
        checked = {
            path for path in (origin, target) if path is not None and self._matters(path, event.is_directory)
        }
        if not checked:
            return
        with self._lock:
            if event.is_directory:
                self._batch.rescan = True
            elif len(self._batch.files) >= _FLOOD:
                self._batch = HintBatch(rescan=True)
            else:
                self._batch.files |= checked
                # Another name for a file that may still be copied does not mean that it is complete.
                if target in checked and origin not in checked and not event.is_synthetic:
                    self._batch.arrived.add(target)
            self._signal()

    def _path(self, reported: bytes | str) -> bytes | None:
        """The path of a file or directory as the scan names it; None if it is outside the folder."""
        path = os.fsencode(reported)
        if path == self._real:
            return self._root
        prefix = os.path.join(self._real, b"")
        return os.path.join(self._root, path[len(prefix) :]) if path.startswith(prefix) else None

    def _signal(self) -> None:
        """Wake the event loop, once for all hints of a batch."""
        if not self._is_awake:
            self._is_awake = True
            with contextlib.suppress(RuntimeError):
                # At shutdown the loop may be closed already.
                self._loop.call_soon_threadsafe(self._wake)


def _new_observer() -> BaseObserver:
    """Start an observer.

    Raises:
        OSError: no inotify instance is available, for instance EMFILE.
    """
    if sys.platform == "linux":
        from watchdog.observers.inotify import InotifyObserver

        # Full events say that a file was moved in from outside, not only that it is there.
        observer: BaseObserver = InotifyObserver(generate_full_events=True)
    else:
        from watchdog.observers import Observer

        observer = Observer()
    observer.start()
    return observer
