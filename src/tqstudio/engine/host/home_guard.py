"""Whether a home is still the one that its supervisor holds: people remove what looks stale to them.

A lock file or a socket that was removed is made anew. Without its home or its database, or with other ones in
their places, a supervisor would work on for nobody, so it is told to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable

import structlog

from tqstudio.engine.files.bounded_io import Patience
from tqstudio.engine.host import home_lock
from tqstudio.engine.host.home_lock import HomeLock, LockOwner
from tqstudio.errors import TqError
from tqstudio.home import Home


class Foothold:
    """The supervisor's hold on its home; made when the lock is held and the database is open."""

    def __init__(self, home: Home, held: HomeLock, patience: Patience) -> None:
        self._home, self._held, self._patience = home, held, patience
        self._database = home_lock.identity(home.database)
        self._door: LockOwner | None = None
        self._log = structlog.get_logger()

    def open_door(self) -> socket.socket:
        """A listener on the home's socket.

        Raises:
            OSError: it cannot be made.
            TqError: PERMISSION when the runtime directory is not this user's alone.
        """
        path = self._home.socket
        # A runtime directory may have been emptied.
        self._home.make_socket_folder()
        listener = home_lock.bind(path)
        self._door = home_lock.identity(path)
        return listener

    def close_door(self) -> None:
        """Remove the socket, unless it is another supervisor's by now."""
        with contextlib.suppress(OSError, TqError):
            if self._door is not None and home_lock.identity(self._home.socket) == self._door:
                self._home.socket.unlink()

    async def watch(self, listen_on: Callable[[socket.socket], Awaitable[None]]) -> str:
        """Make anew what was removed, until the home is lost; answers why it is.

        Args:
            listen_on: takes connections from another listener from then on.
        """
        while True:
            await asyncio.sleep(home_lock.LOOK_S)
            # What cannot be looked at may be there: a disk that does not answer takes no home away. A runtime
            # directory of another user is looked at again, for it may go as it came.
            with contextlib.suppress(OSError, TqError):
                if why := await self._patience.look(os.fsencode(self._home.root), self._lost):
                    return why
                if home_lock.identity(self._home.socket) != self._door:
                    await listen_on(self.open_door())
                    self._log.warning("the socket was removed and is made anew")

    def _lost(self) -> str:
        """Why the home is not ours any more; empty while it is."""
        for path, ours in ((self._home.root, self._held.folder), (self._home.database, self._database)):
            found = home_lock.identity(path)
            if found != ours:
                return f"{path} was {'removed' if found is None else 'replaced by another'}"
        return "" if self._held.keep() else f"another supervisor holds {self._home.lock}"
