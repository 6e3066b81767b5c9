"""Sends calls to the supervisor over its unix socket or over TCP, blocking or with asyncio.

The blocking client uses http.client, because importing httpx takes 190 ms, more than a whole command may. The
terminal UI, which must never block, loads httpx after its first paint.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display
from tqstudio.protocol.calls import Call, StreamEvent
from tqstudio.protocol.remote import Remote

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
DEFAULT_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
_TOO_SLOW = 408
"""HTTP status: a request did not arrive in time."""


class Client:
    """Sends blocking calls.

    Args:
        at: the supervisor's socket, or a studio on TCP.
        token: a worker's token.
        keep_alive: use one connection for many calls. A call whose connection broke is sent again on a new
            one, so this is only for workers, whose calls are all idempotent.

    Raises:
        TqError: NO_SUPERVISOR when no process listens, SUPERVISOR_NOT_RESPONDING when one does but gives no
            answer in time, PERMISSION when the socket or the listening process belongs to another user;
            otherwise the error that the supervisor answers.
    """

    def __init__(self, at: Path | Remote, *, token: str | None = None, keep_alive: bool = False) -> None:
        self._at = at
        if isinstance(at, Remote):
            token = at.token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._keep_alive = keep_alive
        self._kept: HTTPConnection | None = None

    def send(self, call: Call[T], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
        reused, self._kept = self._kept, None
        connection = reused or self._new_connection()
        _set_timeout(connection, timeout_s)
        try:
            try:
                response = self._ask(connection, call)
            except (HTTPException, ConnectionError):
                if reused is None:
                    raise
                connection.close()
                connection = self._new_connection()
                _set_timeout(connection, timeout_s)
                response = self._ask(connection, call)
            decoded: T = decode(response.status, response.reason, response.read())
            if self._keep_alive and not response.will_close:
                self._kept = connection
            return decoded
        except TimeoutError:
            raise not_responding(_peer(connection)) from None
        except (HTTPException, OSError) as error:
            raise _broken(self._at, error) from None
        finally:
            if connection is not self._kept:
                connection.close()

    def _new_connection(self) -> HTTPConnection:
        return self._at.connection() if isinstance(self._at, Remote) else _UnixConnection(self._at)

    def stream(self, after: int | None = None) -> Iterator[StreamEvent]:
        """Yield events until the supervisor ends the stream; blocks between events."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        connection = self._new_connection()
        _set_timeout(connection, DEFAULT_TIMEOUT_S)
        try:
            try:
                response = self._ask(connection, Call("GET", "/v1/events/stream"), headers)
            except TimeoutError:
                raise not_responding(_peer(connection)) from None
            except (HTTPException, OSError) as error:
                raise _broken(self._at, error) from None
            if response.status != 200:
                decode(response.status, response.reason, response.read())
            _set_timeout(connection, None)
            parser = StreamParser()
            while line := response.readline():
                if event := parser.feed(line.decode("utf-8", "replace").rstrip("\r\n")):
                    yield event
        except (HTTPException, ConnectionError):
            return
        finally:
            connection.close()

    def _ask(
        self, connection: HTTPConnection, call: Call[Any], headers: dict[str, str] | None = None
    ) -> HTTPResponse:
        try:
            path = f"{call.path}?{urlencode(dict(call.params))}" if call.params else call.path
            body = None if call.body is None else json.dumps(call.body, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise _not_text(error) from None
        more = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(call.method, path, body, more | self._headers | (headers or {}))
        return connection.getresponse()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _not_text(error: UnicodeEncodeError) -> TqError:
    """The error for an argument that is not UTF-8."""
    found = re.search(r'[^"\s]*[\udc80-\udcff][^"\s]*', error.object)
    shown = display(found[0].encode("utf-8", "surrogateescape")) if found else "an argument"
    return TqError(ErrorCode.BAD_REQUEST, f"{shown} is not UTF-8", "write it in UTF-8")


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("tqstudio")
        self._path = path
        self.peer = 0
        """Pid of the listening process; 0 where the system does not report it."""

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_TIMEOUT_S)
            sock.connect(str(self._path))
        except PermissionError:
            sock.close()
            path_checks.mode(self._path)  # raises where a folder above it may not be searched
            raise TqError(
                ErrorCode.PERMISSION,
                f"the supervisor at {self._path} belongs to another user",
                "run the command as that user, or choose a home of your own with --home",
            ) from None
        except BlockingIOError:
            # The listen queue is full: a supervisor listens but accepts no connections.
            sock.close()
            raise not_responding() from None
        except OSError:
            sock.close()
            raise no_supervisor(self._path) from None
        try:
            self.peer = require_trusted(self._path, sock)
        except TqError:
            sock.close()
            raise
        sock.settimeout(self.timeout)
        self.sock = sock


def _set_timeout(connection: HTTPConnection, seconds: float | None) -> None:
    connection.timeout = seconds
    if connection.sock is not None:
        connection.sock.settimeout(seconds)


def _peer(connection: HTTPConnection) -> int:
    return connection.peer if isinstance(connection, _UnixConnection) else 0


class AsyncClient:
    """Sends calls with asyncio: a `calls.ApiClient`.

    Args:
        at: the supervisor's socket, or a studio on TCP.
    """

    def __init__(self, at: Path | Remote) -> None:
        self._at = at
        self._http: httpx.AsyncClient | None = None
        self._hooks = {"trace": self._on_progress}

    async def _on_progress(self, stage: str, info: dict[str, Any]) -> None:
        """Check the peer before anything is sent. A hook of httpcore's `trace` extension."""
        if stage == "connection.connect_unix_socket.complete":
            stream = info["return_value"]
            try:
                assert isinstance(self._at, Path)
                require_trusted(self._at, stream.get_extra_info("socket"))
            except TqError:
                await stream.aclose()
                raise

    def _open(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            if isinstance(at := self._at, Remote):
                self._http = httpx.AsyncClient(
                    base_url=at.urls[0],
                    headers={"Authorization": f"Bearer {at.token}"},
                    timeout=DEFAULT_TIMEOUT_S,
                    verify=at.context or False,
                    trust_env=False,
                )
                return self._http
            # A unix socket needs no TLS store; loading one costs 35 ms.
            transport = httpx.AsyncHTTPTransport(uds=str(at), verify=False)
            self._http = httpx.AsyncClient(
                transport=transport, base_url="http://tqstudio", timeout=DEFAULT_TIMEOUT_S, verify=False
            )
        return self._http

    async def send(self, call: Call[T]) -> T:
        http = self._open()
        import httpx

        try:
            response = await http.request(
                call.method, call.path, params=call.params, json=call.body, extensions=self._hooks
            )
        except httpx.ConnectError as error:
            raise await self._absent(error) from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise _broken(self._at, error) from None
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ConnectTimeout) and isinstance(self._at, Remote):
                raise await self._absent(error) from None
            raise not_responding() from None
        decoded: T = decode(response.status_code, response.reason_phrase, response.content)
        return decoded

    async def stream(self, after: int | None = None) -> AsyncIterator[StreamEvent]:
        """Yield events until the supervisor ends the stream.

        Raises:
            TqError: NO_SUPERVISOR when it cannot be opened; the supervisor's error when it refuses.
        """
        http = self._open()
        import httpx

        headers = {} if after is None else {"Last-Event-ID": str(after)}
        try:
            async with http.stream(
                "GET", "/v1/events/stream", headers=headers, timeout=None, extensions=self._hooks
            ) as response:
                if response.status_code != 200:
                    decode(response.status_code, response.reason_phrase, await response.aread())
                parser = StreamParser()
                async for line in response.aiter_lines():
                    if event := parser.feed(line):
                        yield event
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise await self._absent(error) from None
        except (httpx.RemoteProtocolError, httpx.ReadError):
            return

    async def _absent(self, error: Exception) -> TqError:
        """The error for a supervisor that does not listen; the next request asks the next place."""
        if not isinstance(self._at, Remote):
            return no_supervisor(self._at)
        absent = self._at.unreachable(str(error))
        if self._at.places:
            self._at.places.append(self._at.places.pop(0))
            await self.close()
        return absent

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class StreamParser:
    """Parses server-sent events line by line."""

    def __init__(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self._seq: int | None = None

    def feed(self, line: str) -> StreamEvent | None:
        if line == "":
            event = None
            if self._data:
                event = StreamEvent(self._name, json.loads("\n".join(self._data)), self._seq)
            self._name, self._data, self._seq = "message", [], None
            return event
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            self._name = value
        elif key == "data":
            self._data.append(value)
        elif key == "id" and value.isdigit():
            self._seq = int(value)
        return None


def no_supervisor(path: Path) -> TqError:
    return TqError(ErrorCode.NO_SUPERVISOR, f"no supervisor answers in {path.parent}")


def not_responding(pid: int = 0) -> TqError:
    """The error for a supervisor that runs but does not answer.

    Args:
        pid: its process; 0 when unknown.
    """
    name = f"the supervisor (pid {pid})" if pid else "the supervisor"
    last_resort = f"; as a last resort: kill -9 {pid}, which loses no finished work" if pid else ""
    return TqError(
        ErrorCode.SUPERVISOR_NOT_RESPONDING,
        f"{name} runs but does not answer",
        f"wait a moment, then see logs/supervisor.log in its home{last_resort}",
    )


def _broken(at: Path | Remote, error: Exception) -> TqError:
    """Find out why a connection to a socket ended without an answer, by connecting again.

    A supervisor that still listens is alive, but may have run out of file descriptors.
    """
    if isinstance(at, Remote):
        return at.unreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    retry = _UnixConnection(at)
    _set_timeout(retry, CONNECT_TIMEOUT_S)
    try:
        retry.connect()
    except TqError as error:
        return error
    finally:
        retry.close()
    return not_responding(retry.peer)


def peer_of(sock: Any) -> tuple[int, int] | None:
    """Return (pid, uid) of the peer that listens or connected; None where the system does not report it."""
    try:
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except (OSError, AttributeError):
        return None
    return pid, uid


def require_trusted(path: Path, sock: Any) -> int:
    """Check that the listening process is this user's or root's.

    Root also trusts the owner of the socket's folder, so that `docker exec` as root reaches the supervisor of
    the container's user.

    Returns:
        The pid of the listening process; 0 where the system does not report it.

    Raises:
        TqError: PERMISSION when another user listens.
    """
    peer = peer_of(sock)
    if peer is None:
        return 0
    pid, uid = peer
    if uid in (os.geteuid(), 0) or (os.geteuid() == 0 and uid == path.parent.stat().st_uid):
        return pid
    raise TqError(
        ErrorCode.PERMISSION,
        f"another user (uid {uid}, process {pid}) listens at {path}",
        "run the command as that user, or choose a home of your own with --home",
    )


def decode(status: int, reason: str, body: bytes) -> Any:
    """The decoded answer.

    Raises:
        TqError: the error that the supervisor answered; SUPERVISOR_NOT_RESPONDING for a 5xx without one, as
            of a proxy that cannot reach it, and for a request that did not arrive in time.
    """
    if status == _TOO_SLOW:
        raise TqError(ErrorCode.SUPERVISOR_NOT_RESPONDING, f"the supervisor answered {status} {reason}")
    try:
        answer = json.loads(body)
        if status < 400:
            return answer
        error = answer["error"]
        raise TqError(error["code"], error["message"], error["hint"])
    except (ValueError, KeyError, TypeError):
        code = ErrorCode.SUPERVISOR_NOT_RESPONDING if status >= 500 else ErrorCode.INTERNAL
        raise TqError(code, f"the supervisor answered {status} {reason}") from None
