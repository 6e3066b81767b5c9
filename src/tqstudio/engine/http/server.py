"""Serves the API with uvicorn, but without its handling of signals, and with limits for each request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from pydantic_core import to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tqstudio.engine.api.errors import ErrorResponse, refusal
from tqstudio.engine.http.callers import refuse
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.client import peer_of

MAX_HEAD_BYTES = 64 * 1024
"""Limit for a request's first line and headers."""
MAX_BODY_BYTES = 32_000_000
"""Enough for the result of a video of 50 hours in seven qualities, and for 10 000 ordinary paths."""
REQUEST_S = 30.0
"""Timeout for a request to arrive completely, and for a new connection to send its first one."""
IDLE_S = 75
"""How long a connection is kept after an answer."""
_LINGER_S = 5.0
"""How long a client that is refused in mid-request may send the rest, before it reads the answer."""
_CLOSE_STREAMS_S = 2
"""How long open answers may take to end at shutdown."""


class Server(uvicorn.Server):
    """uvicorn without its signal handling, which closes the listener at once and hangs on open streams."""

    protocol: type[HttpToolsProtocol]
    """Class that handles its connections."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                _Answering(app),
                http=self.protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=_CLOSE_STREAMS_S,
                timeout_keep_alive=IDLE_S,
            )
        )
        self._end_requested = asyncio.Event()

    def end(self) -> None:
        """Have `serve` close the listener, end open answers, and return."""
        self.should_exit = True
        self._end_requested.set()

    async def main_loop(self) -> None:
        """Wait for `end`. uvicorn polls ten times a second, a third of an idle supervisor's CPU time."""
        await self.on_tick(0)
        await self._end_requested.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Answering:
    """Answers requests that are cancelled, when uvicorn would answer 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if has_begun:
                raise
            await refuse(send, refusal(scope.get("refusal") or _ending()))


def _ending() -> TqError:
    return TqError(
        ErrorCode.NO_SUPERVISOR, "the supervisor shuts down or stands by", "ask again when one runs"
    )


class LimitedProtocol(HttpToolsProtocol):
    """Refuses requests that are too large or too slow."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._refused = False
        self._awaited = True
        """A request is incomplete, or the first one has not begun."""
        self._since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = self._body_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._awaited:
            self._begin()
        super().data_received(data)
        if self._in_head and self._awaited:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"the head of a request has more than {MAX_HEAD_BYTES} bytes")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _begin(self) -> None:
        """Start the timeout of a request. One timer serves many requests, because setting one takes time."""
        self._awaited, self._since = True, self.loop.time()
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if not self._awaited or self._refused:
            return
        if (left := self._since + REQUEST_S - self.loop.time()) > 0:
            self._timer = self.loop.call_later(left, self._expire)
        elif self.cycle is None and not self._head_bytes:
            self.transport.close()
        else:
            self._refuse(408, f"the request did not arrive completely within {REQUEST_S:g} s")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if int(length) > MAX_BODY_BYTES:
            self._refuse_body()
        else:
            self._in_head = False
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            self._refuse_body()
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._awaited, self._in_head = False, True
        if not self._refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse_body(self) -> None:
        self._refuse(
            413, f"the body of a request has more than {MAX_BODY_BYTES} bytes", "send less at a time"
        )

    def _refuse(self, status: int, message: str, hint: str = "correct the request") -> None:
        """Answer at once, stop reading, and close once the client has had time to read the answer."""
        if self._refused:
            return
        self._refused = True
        self.flow.resume_reading()
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # A request can be answered before its body has arrived.
        answered = not self._in_head and self.cycle is not None and self.cycle.response_started
        if not answered:
            body = to_json(ErrorResponse(status, ErrorCode.BAD_REQUEST, message, hint).body())
            head = (
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.loop.call_later(_LINGER_S, self.transport.close)


class _SocketProtocol(LimitedProtocol):
    """Refuses users other than ours and root."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # The socket's mode keeps other users out too, but it may be changed or not be enforced.
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None or peer[1] in (os.geteuid(), 0):
            super().connection_made(transport)
        else:
            self._refused = True
            HttpToolsProtocol.connection_made(self, transport)
            transport.abort()


class SocketServer(Server):
    """Serves the socket of the home."""

    protocol = _SocketProtocol

    async def listen_on(self, listener: socket.socket) -> None:
        """Accept connections from this listener instead of the previous one; open ones stay."""
        before = self.servers
        await self.startup(sockets=[listener])
        for server in before:
            server.close()
