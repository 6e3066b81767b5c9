"""Serves the page on 127.0.0.1: its files, what the supervisor shows to the role view, and ladders.

It only reads. Every path begins with a random prefix, which a browser learns by a code that is valid once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from hmac import compare_digest
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.http.server import LimitedProtocol, Server
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import Home, current_home
from tqstudio.paths import decode, display, is_bucket
from tqstudio.protocol import calls, running
from tqstudio.protocol.calls import Call
from tqstudio.protocol.client import AsyncClient
from tqstudio.protocol.roles import ROLE_OF, Role
from tqstudio.wings.page import ladders, process

T = TypeVar("T")

IDLE_S = 900.0
"""The page ends so long after the last request, while no browser follows what happens."""
GONE_S = 60.0
"""It ends when there was no supervisor for so long: one that restarts is back before."""
PLAYERS = 10
PLAYER_S = 20.0
"""A player counts for so long after it asked for a segment; no segment is longer."""
_VIDEOS = 60
_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; media-src 'self' blob: data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_OF_JOBS = (*("id", "video", "name", "status", "word", "step", "progress", "speed", "eta_s"), "renditions")
_OF_VIDEOS = ("id", "name", "title", "status", "viewable", "job")
_OF_RENDITIONS = ("name", "kind", "width", "height", "codecs", "duration_s", "average_bps", "size")
_NUMBER = re.compile(r"[0-9]{1,15}")


class Pages:
    """Answers the requests of browsers: an ASGI application."""

    def __init__(self, home: Home, port: int) -> None:
        self._home = home
        self._hosts = (f"{process.HOST}:{port}", f"localhost:{port}")
        self._prefix = secrets.token_urlsafe(16)
        self._client = AsyncClient(home.socket)
        self._bounded_io = BoundedIO()
        self._players: dict[str, float] = {}
        self.streams = 0
        self.asked_at = time.monotonic()
        found = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _KINDS}
        self._static: Mapping[str, bytes] = {"hls.js": b""} | found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = _HEADERS | {"cache-control": "no-store"}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in headers.items() if k.encode() not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        async with contextlib.AsyncExitStack() as opened:
            try:
                response = self._refusal(request) or await self._answer(request, opened)
            except TqError as error:
                response = _failed(503 if error.code in UNANSWERED else 404, error)
            await response(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        """Refuse what a browser sends for another site, or to another name of this machine."""
        given = request.headers
        host, origin = given.getlist("host"), given.get("origin")
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"allow": "GET, HEAD"})
        if len(host) != 1 or host[0] not in self._hosts:
            return Response("wrong host", 403)
        if origin is not None and origin != f"http://{host[0]}":
            return Response("wrong origin", 403)
        # A file leads to the address of a code, which begins no request of another site's script.
        from_elsewhere = given.get("sec-fetch-site", "none") not in ("same-origin", "none")
        is_code = request.url.path.startswith("/open/") and given.get("sec-fetch-mode") == "navigate"
        return Response("wrong site", 403) if from_elsewhere and not is_code else None

    async def _answer(self, request: Request, opened: contextlib.AsyncExitStack) -> Response:
        path = request.scope.get("raw_path", b"").decode("latin-1")
        match path.split("/")[1:]:
            case ["open", code, *video] if request.method == "GET" and process.redeem(self._home, code):
                target = f"/{self._prefix}/" + (f"#/video/{video[0]}" if _numbers(video[:1]) else "")
                text = f'<meta http-equiv="refresh" content="0;url={escape(target)}">'
                return Response(text, media_type=_KINDS[".html"])
            case ["open", *_]:
                return Response("This address works once, within ten minutes: run tqstudio open again", 404)
            case [prefix, *rest] if compare_digest(prefix.encode("latin-1"), self._prefix.encode()):
                self.asked_at = time.monotonic()
                return await self._inside(request, rest, opened)
        return _not_found()

    async def _inside(
        self, request: Request, path: Sequence[str], opened: contextlib.AsyncExitStack
    ) -> Response:
        match path:
            case [name] if (name or "index.html") in self._static:
                name = name or "index.html"
                return Response(self._static[name], media_type=_KINDS[Path(name).suffix])
            case ["api", "jobs"]:
                page = await self._read(calls.jobs("state:running,pending", limit=20))
                return JSONResponse([_only(_OF_JOBS, row) for row in page["jobs"]])
            case ["api", "videos", *before] if not before or _numbers(before):
                first = int(before[0]) if before else 2**53
                videos = await self._read(calls.videos(before=first, limit=_VIDEOS))
                shown = [_video(each) for each in reversed(videos["videos"]) if not each["deleted_at"]]
                return JSONResponse({"videos": shown, "before": videos["before"]})
            case ["api", "video", number] if _numbers([number]):
                view = await self._read(calls.video(int(number)))
                return JSONResponse(_video(view))
            case ["api", "events"] if request.method == "GET":
                return StreamingResponse(self._events(), media_type="text/event-stream")
            case ["ladder", number, player, *name] if _numbers([number]):
                return await self._file(request, int(number), player, "/".join(name), opened)
        return _not_found()

    async def _read(self, call: Call[T]) -> T:
        """Ask the supervisor what anyone may see who may look, and nothing else."""
        endpoint = f"{call.method} {re.sub(r'/[0-9]+', '/{video}', call.path)}"
        if call.method != "GET" or ROLE_OF.get(endpoint) is not Role.VIEW:
            raise TqError(ErrorCode.REFUSED, f"the page does not call {endpoint}")
        return await self._client.send(call)

    async def _events(self) -> AsyncIterator[bytes]:
        """Pass on the progress of jobs, and that something else changed."""
        self.streams += 1
        try:
            yield b"retry: 2000\n\n"
            async for event in self._client.stream():
                if event.name == "progress":
                    rows = to_json([_only(_OF_JOBS, row) for row in event.data["jobs"]])
                    yield b"event: progress\ndata: " + rows + b"\n\n"
                elif event.name in ("event", "reset"):
                    yield b"event: changed\ndata: 0\n\n"
        except TqError:
            return  # the browser tries again
        finally:
            self.streams -= 1
            self.asked_at = time.monotonic()

    async def _file(
        self, request: Request, video: int, player: str, name: str, opened: contextlib.AsyncExitStack
    ) -> Response:
        suffix = os.path.splitext(name)[1]
        if suffix in ladders.MEDIA and not self._may_play(player):
            text = f"{PLAYERS} players are open already"
            return _failed(
                503, TqError(ErrorCode.REFUSED, text, "close one"), {"retry-after": f"{PLAYER_S:.0f}"}
            )
        view = await self._read(calls.video(video))
        if view["generation"] is None or view["deleted_at"] or is_bucket(view["generation"]["master"]):
            return _not_found()
        output = decode(view["output_root_b64"])
        opening = partial(ladders.open_file, Path(os.fsdecode(output)), view["slug"], video, name)
        try:
            file, found = await self._bounded_io.run(output, opening)
        except NoAnswer as error:
            return _failed(503, TqError(ErrorCode.IO_ERROR, error.strerror), {"retry-after": "5"})
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EIO:
                return _failed(503, TqError(ErrorCode.IO_ERROR, "the disk cannot be read"))
            return _not_found()
        opened.callback(os.close, file)
        response = FileResponse(f"/dev/fd/{file}", media_type=ladders.TYPES[suffix], stat_result=found)
        response.headers["cache-control"] = "private, no-cache"
        etag = response.headers["etag"]
        return Response(status_code=304) if request.headers.get("if-none-match") == etag else response

    def _may_play(self, player: str) -> bool:
        now = time.monotonic()
        self._players = {each: at for each, at in self._players.items() if now - at < PLAYER_S}
        if player not in self._players and len(self._players) >= PLAYERS:
            return False
        self._players[player] = now
        return True


def _numbers(given: Sequence[str]) -> bool:
    return bool(given) and all(map(_NUMBER.fullmatch, given))


def _only(names: Sequence[str], found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found}


def _video(view: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a video: no path of its source."""
    made, shown = view["generation"], _only(_OF_VIDEOS, view)
    if (error := view["error"]) is not None:
        shown["error"] = error["message"].replace(os.path.dirname(view["path"]) + "/", "")
    if made is None or view["deleted_at"]:
        return shown | {"ladder": None}
    folder = "" if is_bucket(made["master"]) else display(os.path.dirname(decode(made["master_b64"])))
    renditions = [_only(_OF_RENDITIONS, each) for each in made["renditions"]]
    ladder = {"version": made["number"], "published_at": made["published_at"], "renditions": renditions}
    return shown | {"ladder": ladder | {"folder": folder, "poster": made["poster"] is not None}}


def _not_found() -> Response:
    return Response("not found", 404)


def _failed(status: int, error: TqError, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"message": error.message, "hint": error.hint}, status, headers)


class _PageServer(Server):
    protocol = LimitedProtocol


async def serve(
    home: Home, listener: socket.socket, *, idle_s: float = IDLE_S, gone_s: float = GONE_S
) -> None:
    """Serve the page until SIGTERM, until no one looks at it, or until the supervisor is gone."""
    pages = Pages(home, listener.getsockname()[1])
    server = _PageServer(pages)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.end)
    ending = asyncio.create_task(_end(home, pages, server, idle_s, gone_s))
    await server.serve(sockets=[listener])
    ending.cancel()


async def _end(home: Home, pages: Pages, server: Server, idle_s: float, gone_s: float) -> None:
    seen_at = time.monotonic()
    while True:
        await asyncio.sleep(min(5.0, idle_s / 4, gone_s / 4))
        now = time.monotonic()
        if running.holder(home) is not None:
            seen_at = now
        if now - seen_at >= gone_s or (not pages.streams and now - pages.asked_at >= idle_s):
            server.end()


if __name__ == "__main__":
    asyncio.run(serve(current_home(), socket.socket(fileno=int(sys.argv[1]))))
