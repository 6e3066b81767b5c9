"""Serving the API on the supervisor's socket: uvicorn, without what it does on signals and for proxies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tqstudio.connection import peer_of

_CLOSE_STREAMS_S = 2
"""How long open answers may take to end once the server is told to."""


class Server(uvicorn.Server):
    """uvicorn without its signal handling: its own closes the listener at once and hangs on open streams.

    Args:
        before_reading: called whenever something has arrived.
    """

    def __init__(self, listener: socket.socket, app: ASGIApp, before_reading: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                fd=listener.fileno(),
                http=partial(_Protocol, before_reading),  # type: ignore[arg-type]
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=_CLOSE_STREAMS_S,
                timeout_keep_alive=75,
            )
        )
        self._told_to_end = asyncio.Event()

    def end(self) -> None:
        """Have `serve` close the listener, end what is open, and return."""
        self.should_exit = True
        self._told_to_end.set()

    async def main_loop(self) -> None:
        """Wait for `end`; uvicorn looks ten times a second, a third of what an idle supervisor did."""
        await self.on_tick(0)
        await self._told_to_end.wait()

    async def listen_on(self, listener: socket.socket) -> None:
        """Take connections from this listener instead of the one before; those that are open stay."""
        before = self.servers
        await self.startup(sockets=[listener])
        for server in before:
            server.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(HttpToolsProtocol):
    """Reads nothing from other users but root, and sends head and body of an answer in one piece.

    Each piece wakes the client, and waking a process costs more than making the answer: half of the
    supervisor's time when many workers claim.
    """

    def __init__(self, before_reading: Callable[[], None], **given: Any) -> None:
        super().__init__(**given)
        self._before_reading = before_reading
        self._refused = False

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._before_reading()
        super().data_received(data)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Gathering(transport))
        # The socket's mode keeps others out; here a mode that was changed, or is not kept, does no harm.
        peer = peer_of(transport.get_extra_info("socket"))
        self._refused = peer is not None and peer[1] not in (os.geteuid(), 0)
        if self._refused:
            transport.abort()


class _Gathering(asyncio.Transport):
    """A transport that keeps what is written until the loop's next turn."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._kept: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        if not self._kept:
            self._loop.call_soon(self._flush)
        self._kept.append(data)

    def _flush(self) -> None:
        if self._kept:
            kept, self._kept = self._kept, []
            self._transport.write(b"".join(kept))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._kept.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + sum(map(len, self._kept))
