"""Reads the bodies of requests within the bounds of their calls, and checks large ones off the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi._compat import ModelField
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from tqstudio.engine.api.dependencies import call_of, require_role
from tqstudio.errors import ErrorCode, TqError

SMALL_BYTES = 64 * 1024
"""Limit of most bodies; larger ones are parsed on a thread."""
LARGE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        # 10 000 paths of 600 bytes, as base64
        "POST /v1/videos": 8_000_000,
        # 10 000 ids
        "POST /v1/jobs/actions": 256_000,
        # the ranges of a divided job, the commands and the facts of an attempt
        "POST /v1/worker/jobs/{job}/progress": 1_000_000,
        # 10 000 paths of a segment store
        "POST /v1/worker/jobs/{job}/store/remove": 2_000_000,
        # the result of a video of 50 hours in seven qualities
        "POST /v1/worker/jobs/{job}/complete": 32_000_000,
    }
)
"""The limits of other calls that have a body of JSON."""


class BoundedRoute(APIRoute):
    """Refuses callers without the role before it reads the body of a request, and large bodies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            await require_role(request)
            if self.body_field is not None:
                limit = LARGE_BYTES.get(call_of(request), SMALL_BYTES)
                request = _Read(request, await read(request, limit))
                await request.check(self.body_field)
            return await handle(request)

        return handler


async def read(request: Request, limit: int) -> bytes:
    """Read the body of a request.

    Raises:
        HTTPException: it has more than `limit` bytes.
        TqError: UPLOAD_DAMAGED if it was interrupted.
    """
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise HTTPException(413, f"the body has more than {limit} bytes")
            pieces.append(piece)
    except ClientDisconnect:
        raise TqError(ErrorCode.UPLOAD_DAMAGED, "the request was interrupted") from None
    return b"".join(pieces)


class _Read(Request):
    """A request whose body was read."""

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body

    async def check(self, field: ModelField) -> None:
        """Check a large body on a thread. FastAPI takes the model that results as it is."""
        if len(self._body) > SMALL_BYTES:
            self._json = await asyncio.to_thread(_parsed, self._body, field)


def _parsed(body: bytes, field: ModelField) -> Any:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise TqError(
            ErrorCode.BAD_REQUEST, "the body is not valid JSON", "send one JSON object in UTF-8"
        ) from None
    value, errors = field.validate(content, {}, loc=("body",))
    if errors:
        raise RequestValidationError(errors)
    return value
