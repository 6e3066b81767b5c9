"""Endpoints of uploads: the tus protocol 1.0 with creation, checksum, expiration and termination.

See https://tus.io/protocols/resumable-upload. GET is our own: it answers the result of a finished upload.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from typing import Annotated, Any

from blake3 import blake3
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import PREFIX, TheActor, TheServices, the
from tqstudio.engine.api.errors import answer_http_error, answer_refusal
from tqstudio.engine.host.clock import MICROSECOND, iso_time
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import decode
from tqstudio.protocol.answers import FetchAnswer, UploadView, error_view
from tqstudio.protocol.requests import FetchRequest
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.metadata import parse
from tqstudio.wings.uploads.part import Uploads
from tqstudio.wings.uploads.receiving import Checksum, Hasher, Interrupted
from tqstudio.wings.uploads.store import UploadRow

VERSION = "1.0.0"
EXTENSIONS = "creation,checksum,expiration,termination"
ALGORITHMS: dict[str, Callable[[], Hasher]] = {
    "blake3": blake3,  # at a third of the processor time of the others
    "sha256": hashlib.sha256,
    "sha1": partial(hashlib.sha1, usedforsecurity=False),
}
"""Checksum algorithms and their hashers; the protocol demands SHA-1."""
CONTENT_TYPE = "application/offset+octet-stream"


class _TusRoute(BoundedRoute):
    """Adds the version to every answer, refusals too, as the protocol demands."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            answer: Response
            try:
                answer = await handle(request)
            except (TqError, RequestValidationError) as error:
                answer = await answer_refusal(request, error)
            except HTTPException as error:
                answer = await answer_http_error(request, error)
                answer.headers["Tus-Version"] = VERSION
            answer.headers["Tus-Resumable"] = VERSION
            return answer

        return handler


async def _require_version(tus_resumable: Annotated[str, Header()] = "") -> None:
    if tus_resumable != VERSION:
        raise HTTPException(412, f"the header Tus-Resumable must be {VERSION}")


router = APIRouter(prefix="/uploads", route_class=_TusRoute)
fetch_router = APIRouter(route_class=BoundedRoute)
_TUS = [Depends(_require_version)]
TheUploads = Annotated[Uploads, the(Uploads)]
TheFetches = Annotated[Fetches, the(Fetches)]
Size = Annotated[int, Header(ge=0, lt=2**63)]


@router.options("", status_code=204)
async def abilities(uploads: TheUploads) -> Response:
    """What of the protocol is supported."""
    headers = {
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
        "Tus-Max-Size": str(uploads.max_bytes),
    }
    return Response(status_code=204, headers=headers)


@router.post("", status_code=201, dependencies=_TUS)
async def create(
    uploads: TheUploads,
    actor: TheActor,
    upload_length: Size,
    upload_metadata: Annotated[str, Header()] = "",
) -> Response:
    """Begin an upload. Metadata: filename, blake3 and the options of `POST /v1/videos`."""
    row = await uploads.create(upload_length, upload_metadata, actor=actor)
    return Response(
        status_code=201, headers={"Location": f"{PREFIX}{router.prefix}/{row.id}", **_expiry(row)}
    )


@router.head("/{upload}", dependencies=_TUS)
async def state(uploads: TheUploads, upload: str) -> Response:
    """Where an upload is to be continued, or its job."""
    row = await uploads.find(upload)
    headers = {
        **_progress(row),
        "Upload-Length": str(row.size),
        "Upload-Metadata": row.upload_metadata,
        "Cache-Control": "no-store",
    }
    return Response(headers=headers)


@router.get("/{upload}")
async def one(uploads: TheUploads, fetches: TheFetches, upload: str) -> UploadView:
    row = await uploads.find(upload)
    answer = json.loads(row.answer or "{}")
    return {
        "name": parse(row.upload_metadata).name,
        "size": row.size,
        "offset": row.received,
        "expires_at": iso_time(row.expires_at),
        "batch": answer.get("batch"),
        "result": answer.get("result"),
        "problem": None if (problem := fetches.problem(upload)) is None else error_view(problem),
    }


@router.patch("/{upload}", status_code=204, dependencies=_TUS)
async def append(
    uploads: TheUploads,
    request: Request,
    upload: str,
    upload_offset: Size,
    content_type: Annotated[str, Header()] = "",
    upload_checksum: Annotated[str | None, Header()] = None,
) -> Response:
    """Send the next bytes. With those at the end, also an empty request there, the file is added."""
    if content_type != CONTENT_TYPE:
        raise HTTPException(415, f"the header Content-Type must be {CONTENT_TYPE}")
    checksum = None if upload_checksum is None else _checksum(upload_checksum)
    row = await uploads.append(upload, upload_offset, _body(request), checksum)
    return Response(status_code=204, headers=_progress(row))


@router.delete("/{upload}", status_code=204, dependencies=_TUS)
async def remove(uploads: TheUploads, upload: str) -> Response:
    """End an upload; the file of a finished one stays."""
    await uploads.remove(upload)
    return Response(status_code=204)


async def _body(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise Interrupted from None


def _checksum(header: str) -> Checksum:
    algorithm, _, encoded = header.partition(" ")
    if algorithm not in ALGORITHMS:
        raise TqError(
            ErrorCode.BAD_REQUEST, f"the algorithm of Upload-Checksum is none of {', '.join(ALGORITHMS)}"
        )
    try:
        expected = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise TqError(ErrorCode.BAD_REQUEST, "the header Upload-Checksum is not base64") from None
    return Checksum(ALGORITHMS[algorithm](), expected)


def _progress(row: UploadRow) -> dict[str, str]:
    headers = {"Upload-Offset": str(row.received)}
    if row.answer is None:
        return headers | _expiry(row)
    job = json.loads(row.answer)["result"]["job"]
    return headers if job is None else {**headers, "Tqstudio-Job": str(job)}


def _expiry(row: UploadRow) -> dict[str, str]:
    at = datetime.fromtimestamp(row.expires_at // MICROSECOND, UTC)
    return {"Upload-Expires": format_datetime(at, usegmt=True)}


# What is fetched becomes an upload, which has to be finished.
@fetch_router.post("/fetches", dependencies=[the(Uploads)])
async def fetch(
    services: TheServices, fetches: TheFetches, actor: TheActor, request: FetchRequest
) -> FetchAnswer:
    """Fetch a file from object storage, as an upload that the supervisor makes itself; then it is added."""
    output = services.admission.output_root(decode(request.output_b64) if request.output_b64 else None)
    if services.home.bucket_url(output) is not None:
        await services.wings.check_bucket(output, must_answer=False)
    row = await fetches.begin(request.url, request, output, actor=actor)
    return {"upload": row.id, "size": row.size}
