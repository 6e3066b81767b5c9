"""Watches the trees of drop folders with inotify and delivers hints about changes.

Uses watchdog's descriptor (`InotifyFD`) rather than its observer: our own walk chooses the directories, so
ladders below a drop folder stay unwatched; a reached limit is reported for every directory, not only the
first; an overflow is reported; and a rename is not delayed by the half second in which the observer waits for
its second event. One thread serves all folders and passes the hints to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tqstudio.engine.intake.hints import Hint, HintKind
from tqstudio.engine.intake.settling import FileKey

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent, InotifyFD, WatchDescriptor

LIMITS = frozenset((errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSYS))
"""Errors that mean that inotify can watch no more directories, as opposed to errors of one directory."""

_FLOOD = 5_000
"""Number of pending hints above which a full scan is cheaper."""

_DEPARTURES = 32
"""Renames whose second event is awaited; the kernel sends both directly after each other."""


Deliver = Callable[[list[Hint]], None]


class Notifier:
    """Owns the inotify descriptor of all folders, which is opened with the first watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fd: InotifyFD | None = None

    def tree(self, deliver: Deliver) -> TreeWatch:
        """Create a watch of a tree that delivers hints in the event loop's thread.

        Raises:
            OSError: no inotify descriptor is available, for instance EMFILE.
        """
        if not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, "no inotify on this system")
        if self._fd is None:
            from watchdog.observers.inotify_c import InotifyFD

            fd = InotifyFD()
            fd.start()
            self._fd = fd
        return TreeWatch(self._fd, self._loop, deliver)

    async def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            fd.stop()
            await asyncio.to_thread(fd.join, 2)


class TreeWatch:
    """The watched directories of one folder; the thread that scans the folder calls `add` and `keep`."""

    def __init__(self, fd: InotifyFD, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        from watchdog.observers.inotify_c import CallbackId, Mask
        from watchdog.observers.inotify_c import InotifyConstants as In

        self._fd = fd
        self._loop = loop
        self._deliver = deliver
        self._id = CallbackId(id(self))
        # No IN_MODIFY: copying 50 GB would send a hundred thousand; IN_CLOSE_WRITE suffices.
        of_files = In.IN_CREATE | In.IN_CLOSE_WRITE | In.IN_MOVED_FROM | In.IN_MOVED_TO | In.IN_DELETE
        of_itself = In.IN_DELETE_SELF | In.IN_MOVE_SELF
        self._mask = Mask(of_files | of_itself | In.IN_ONLYDIR | In.IN_EXCL_UNLINK)
        self._lock = threading.Lock()
        self._closed = False
        self._paths: dict[WatchDescriptor, bytes] = {}
        self._watches: dict[FileKey, WatchDescriptor] = {}
        self._departures: dict[int, bytes] = {}
        self._outbox: list[Hint] = []

    def add(self, path: bytes, identity: FileKey) -> None:
        """Watch a directory; if it is watched already, update its path.

        Raises:
            OSError: it cannot be watched; errors in `LIMITS` apply to all further directories too.
        """
        # The lock makes a first event wait until its directory is known.
        with self._lock:
            if self._closed:
                return
            watch = self._watches.get(identity)
            if watch is not None:
                self._paths[watch] = path
                return
            watch = self._fd.add_callback(path, self._mask, self, self._id)
            if watch == -1:
                # watchdog ignores EACCES and returns the kernel's -1 as if it were a watch.
                self._fd.remove_callbacks([(watch, self._id)])
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._watches[identity] = watch
            self._paths[watch] = path

    def keep(self, identities: set[FileKey]) -> None:
        """Stop watching all directories but these."""
        with self._lock:
            gone = [self._watches.pop(identity) for identity in self._watches.keys() - identities]
            self._remove(gone)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._watches.clear()
            self._remove(list(self._paths))

    def _remove(self, watches: list[WatchDescriptor]) -> None:
        for watch in watches:
            self._paths.pop(watch, None)
        with contextlib.suppress(OSError):
            self._fd.remove_callbacks([(watch, self._id) for watch in watches])

    # The following methods run in the descriptor's thread.

    def on_event(self, event: InotifyEvent) -> None:
        with self._lock:
            directory = self._paths.get(event.wd)
            hint = None if directory is None else self._hint(event, directory)
        if hint is not None:
            self._post(hint)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        with self._lock:
            self._paths.pop(wd, None)
            self._watches = {identity: watch for identity, watch in self._watches.items() if watch != wd}
        self._post(_RESCAN)

    def on_queue_overflow(self) -> None:
        self._post(_RESCAN)

    def _hint(self, event: InotifyEvent, directory: bytes) -> Hint | None:
        path = os.path.join(directory, event.name)
        if not event.name:
            # The directory itself was removed, moved or unmounted.
            return _RESCAN
        if event.is_directory:
            return Hint(HintKind.DIRECTORY, path) if event.is_create or event.is_moved_to else _RESCAN
        if event.is_moved_to:
            return Hint(HintKind.ARRIVED, path, self._departures.pop(event.cookie, None))
        if event.is_moved_from:
            self._departures[event.cookie] = path
            while len(self._departures) > _DEPARTURES:
                del self._departures[next(iter(self._departures))]
        return Hint(HintKind.LOOK, path)

    def _post(self, hint: Hint) -> None:
        """Queue a hint for the event loop, which is woken once for all queued hints."""
        with self._lock:
            if self._closed:
                return
            if len(self._outbox) >= _FLOOD:
                self._outbox = [_RESCAN]
                return
            self._outbox.append(hint)
            if len(self._outbox) > 1:
                return
        with contextlib.suppress(RuntimeError):
            # At shutdown the loop may be closed already.
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            hints, self._outbox = self._outbox, []
        if hints and not self._closed:
            self._deliver(hints)


_RESCAN = Hint(HintKind.RESCAN)
