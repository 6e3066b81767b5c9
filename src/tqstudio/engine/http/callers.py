"""Identifies the caller of each request: on the socket its user, on TCP the owner of a token."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

import structlog
from pydantic_core import to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tqstudio.engine.access.api_tokens import ApiTokens, prefix_of
from tqstudio.engine.access.principal import ANYONE, OWNER, Principal
from tqstudio.engine.api.errors import ErrorResponse, refusal
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.http import relative_paths
from tqstudio.errors import MEANINGS, ErrorCode, TqError
from tqstudio.paths import readable
from tqstudio.protocol.roles import OPEN

_log = structlog.get_logger()

MAX_FAILURES = 10
"""Wrong tokens with one prefix from one address within `FAILURES_S`; further ones are not checked.

Not of an address alone: behind a proxy all callers have the same.
"""
FAILURES_S = 60.0
_COUNTED = 4096
"""Pairs of address and prefix whose failures are counted."""
_REWRITTEN_AT_ONCE = 64 * 1024
"""Larger answers are rewritten on a thread."""


class SocketCallers:
    """Passes requests of the socket to the API. A token there restricts the caller to its role."""

    def __init__(self, app: ASGIApp, tokens: ApiTokens) -> None:
        self._app, self._tokens = app, tokens
        tokens.on_revoked.append(self.end)
        self._open: defaultdict[int, set[asyncio.Task[object]]] = defaultdict(set)
        """Requests in progress by token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = None if _is_open(scope) else _bearer(scope)
        caller = OWNER if token is None else await self._tokens.check(token)
        if caller is None:
            await refuse(send, refusal(unauthorized()))
        else:
            await self._serve(caller, scope, receive, send)

    def end(self, token: int) -> None:
        """Cancel the open requests of a token, such as event streams."""
        for task in self._open.pop(token, ()):
            task.cancel()

    async def _serve(self, caller: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        scope["principal"] = caller
        if logging_setup.is_debug():
            _log.debug("request", method=scope.get("method"), path=scope.get("path"), actor=caller.actor)
        task = asyncio.current_task()
        if caller.token is None or task is None:
            await self._app(scope, receive, send)
            return
        expiry = None
        if caller.expires_at is not None:
            left_s = (caller.expires_at - now_us()) / MICROSECOND
            expiry = asyncio.get_running_loop().call_later(left_s, self.end, caller.token)
        self._open[caller.token].add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if task not in self._open.get(caller.token, ()):
                scope["refusal"] = unauthorized()  # its token has ended, not the supervisor
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
            if caller.token in self._open:
                self._open[caller.token].discard(task)


class TcpCallers(SocketCallers):
    """Passes requests of the TCP listener to the API. Answers have no absolute paths.

    Each request needs a token, except those of `roles.OPEN`.

    Args:
        hosts: names under which browsers and clients may address this listener, besides IP addresses.
    """

    def __init__(self, app: ASGIApp, tokens: ApiTokens, hosts: Iterable[str]) -> None:
        super().__init__(app, tokens)
        self._hosts = {host.lower() for host in hosts}
        self._failures: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            self._require_addressed(scope)
            caller = ANYONE if _is_open(scope) else await self._caller(scope)
        except TqError as error:
            await refuse(send, refusal(error))
            return
        await self._serve(caller, scope, receive, _Relative(send).send)

    def _require_addressed(self, scope: Scope) -> None:
        """Refuse requests that a web page made: a name of its own that leads here, or another origin.

        Raises:
            TqError: PERMISSION; BAD_REQUEST for the name.
        """
        headers = dict(scope["headers"])
        name = headers.get(b"host", b"").decode("latin-1").lower()
        host = name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
        if not (host in self._hosts or _is_address(host)):
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"this studio does not know the name {readable(host)}, by which it is called",
                "call it by its IP address, or add the name to the setting hosts at the studio",
            )
        if b"origin" in headers:
            raise TqError(
                ErrorCode.PERMISSION,
                "web pages may not call this API",
                "call it from a program, without an Origin header",
            )

    async def _caller(self, scope: Scope) -> Principal:
        """The owner of the token.

        Raises:
            TqError: UNAUTHORIZED; TOO_MANY_FAILURES.
        """
        token = _bearer(scope)
        if token is None:
            raise unauthorized()
        if (caller := self._tokens.known(token)) is not None:
            return caller
        source = (scope["client"] or ("", 0))[0], prefix_of(token)
        now = asyncio.get_running_loop().time()
        recent = [at for at in self._failures.get(source, []) if at > now - FAILURES_S]
        if len(recent) >= MAX_FAILURES:
            raise TqError(
                ErrorCode.TOO_MANY_FAILURES,
                f"{MAX_FAILURES} wrong tokens came from this address within {FAILURES_S:g} s",
            )
        if (caller := await self._tokens.check(token)) is None:
            self._failures[source] = [*recent, now]
            self._failures.move_to_end(source)
            if len(self._failures) > _COUNTED:
                self._failures.popitem(last=False)
            raise unauthorized()
        return caller


class _Relative:
    """Rewrites the paths of an answer on its way out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        """The start of an answer in JSON, held until its new length is known."""
        self._is_text = False
        self._body: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"")
            self._is_text = kind.startswith(b"text/event-stream")
            if kind.startswith(b"application/json"):
                self._start = message
                return
        elif self._start is not None:
            self._body.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body, roots = b"".join(self._body), logging_setup.roots()
            if len(body) > _REWRITTEN_AT_ONCE:
                body = await asyncio.to_thread(relative_paths.of_json, body, roots)
            elif body:
                body = relative_paths.of_json(body, roots)
            headers = [each for each in self._start["headers"] if each[0] != b"content-length"]
            headers.append((b"content-length", str(len(body)).encode()))
            await self._send({**self._start, "headers": headers})
            message = {"type": "http.response.body", "body": body}
        elif self._is_text and message.get("body"):
            text = logging_setup.roots().relative(message["body"].decode())
            message = {**message, "body": text.encode()}
        await self._send(message)


def _is_open(scope: Scope) -> bool:
    """Whether a request needs no token."""
    return f"{scope['method']} {scope['path']}" in OPEN


def _bearer(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if kind.lower() == "bearer" else ""
    return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def unauthorized() -> TqError:
    return TqError(ErrorCode.UNAUTHORIZED, MEANINGS[ErrorCode.UNAUTHORIZED].meaning)


async def refuse(send: Send, refused: ErrorResponse) -> None:
    """Answer a request without passing it on."""
    more = [(b"www-authenticate", b"Bearer")] if refused.status == 401 else []
    await answer(send, refused.status, refused.body(), *more)


async def answer(send: Send, status: int, content: object, *more: tuple[bytes, bytes]) -> None:
    """Answer a request in JSON, with more headers."""
    body = to_json(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
