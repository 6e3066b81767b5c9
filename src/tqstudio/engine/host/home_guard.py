"""Guards a home: detects that it was deleted or replaced.

People delete files that look stale. A lock file or socket that was removed is created again; a supervisor
without its home or database could not be reached, so it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host import home_lock
from tqstudio.engine.host.home_lock import FileIdentity, HomeLock
from tqstudio.errors import TqError
from tqstudio.home import Home


class HomeGuard:
    """Watches the supervisor's home; created once its lock is held."""

    def __init__(self, home: Home, held: HomeLock, bounded_io: BoundedIO, *, has_database: bool) -> None:
        self._home, self._held, self._bounded_io = home, held, bounded_io
        self._guarded: dict[Path, FileIdentity | None] = {home.root: held.folder}
        """What must stay what it is. A file that PostgreSQL has replaced may go."""
        if has_database:
            self._guarded[home.database] = home_lock.identity(home.database)
        self._socket: FileIdentity | None = None
        self._log = structlog.get_logger()

    def open_socket(self) -> socket.socket:
        """Listen on the home's socket.

        Raises:
            OSError: the socket cannot be created.
            TqError: PERMISSION when other users may write to the runtime directory.
        """
        path = self._home.socket
        # The runtime directory may have been emptied.
        self._home.make_socket_folder()
        listener = home_lock.bind(path)
        self._socket = home_lock.identity(path)
        return listener

    def close_socket(self) -> None:
        """Remove the socket, unless another supervisor has replaced it."""
        with contextlib.suppress(OSError, TqError):
            if self._socket is not None and home_lock.identity(self._home.socket) == self._socket:
                self._home.socket.unlink()

    async def watch(self, listen_on: Callable[[socket.socket], Awaitable[None]]) -> str:
        """Restore a removed lock file or socket; return the reason once the home is lost.

        Args:
            listen_on: makes the server accept connections from a new listener.
        """
        while True:
            await asyncio.sleep(home_lock.CHECK_S)
            # A home that cannot be checked, such as on a disk that does not answer, does not count as lost. A
            # runtime directory that belongs to another user is checked again: it may be removed.
            with contextlib.suppress(OSError, TqError):
                if why := await self._bounded_io.run(os.fsencode(self._home.root), self._lost):
                    return why
                if home_lock.identity(self._home.socket) != self._socket:
                    await listen_on(self.open_socket())
                    self._log.warning("the socket was removed and has been created again")

    def _lost(self) -> str:
        """Why the home is lost; empty while it is not."""
        for path, ours in self._guarded.items():
            found = home_lock.identity(path)
            if found != ours:
                return f"{path} was {'removed' if found is None else 'replaced by another'}"
        return "" if self._held.keep() else f"another supervisor holds {self._home.lock}"
