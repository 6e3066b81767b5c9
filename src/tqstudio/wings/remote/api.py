"""Endpoints by which workers of other machines read the source of their job and store its segments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from tqstudio.engine.api import bodies
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices, TheWorker, the
from tqstudio.engine.api.errors import JSON_ERRORS
from tqstudio.engine.live import leases
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import decode
from tqstudio.protocol import content_digest
from tqstudio.protocol.requests import RemovedFiles
from tqstudio.protocol.worker_answers import JobInputs, StoredNames
from tqstudio.wings.remote.segment_files import FilePart
from tqstudio.wings.remote.transfers import Transfers

MAX_PART_BYTES = 16 * 1024 * 1024
_BYTES = "application/octet-stream"
_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {_BYTES: {}}}, **JSON_ERRORS}
_BODY = {
    "requestBody": {"content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}}, "required": True}
}

router = APIRouter(prefix="/worker/jobs/{job}", route_class=BoundedRoute)
TheTransfers = Annotated[Transfers, the(Transfers)]
Number = Annotated[int, Query(ge=0, lt=2**63)]
Length = Annotated[int, Query(ge=1, le=MAX_PART_BYTES)]
Path = Annotated[str, Query(max_length=1000)]
Digest = Annotated[str, Header(alias=content_digest.HEADER)]


async def _token(
    worker: TheWorker, job: int, epoch: Number, instance: Annotated[str, Query(min_length=8, max_length=64)]
) -> LeaseToken:
    return LeaseToken(job, epoch, f"{worker.name}/{instance}")


TheLease = Annotated[LeaseToken, Depends(_token)]


async def _writing(services: TheServices, lease: TheLease) -> LeaseToken:
    """Refuse a worker that has reported its result: what is checked and published must stay as it is."""
    if services.completion.is_publishing(lease):
        raise leases.lost(lease.job)
    return lease


WritingLease = Annotated[LeaseToken, Depends(_writing)]


@router.get("/inputs")
async def inputs(transfers: TheTransfers, lease: TheLease) -> JobInputs:
    return await transfers.inputs(lease)


@router.get("/source", responses=_CONTENT, response_class=Response)
async def source(
    transfers: TheTransfers, lease: TheLease, name_b64: Path, version: Path, offset: Number, length: Length
) -> Response:
    """A part of the source, with its SHA-256 in the header Content-Digest (RFC 9530)."""
    return _content(await transfers.source(lease, _name(name_b64), version, offset, length))


@router.get("/store", responses=_CONTENT, response_class=Response)
async def stored(
    transfers: TheTransfers, lease: TheLease, path: Path, offset: Number, length: Length
) -> Response:
    """A part of a stored file, as of the source."""
    try:
        return _content(await transfers.stored(lease, path, offset, length))
    except FileNotFoundError:
        raise TqError(ErrorCode.NOT_FOUND, f"{path} is not stored") from None


@router.get("/store/names")
async def stored_names(transfers: TheTransfers, lease: TheLease) -> StoredNames:
    """The segments that are stored, also by other workers."""
    return await transfers.stored_names(lease)


@router.put("/store", status_code=204, openapi_extra=_BODY)
async def store(
    transfers: TheTransfers,
    request: Request,
    lease: WritingLease,
    path: Path,
    offset: Number,
    size: Number,
    blake3: Annotated[str, Query(pattern="^[0-9a-f]{64}$")],
    digest: Digest = "",
) -> Response:
    """Store a part of a file; with the last one it becomes visible, if the whole has that hash."""
    del digest  # for the schema
    body = await _body(request)
    await transfers.store(lease, path, FilePart(offset, size, blake3), body)
    return Response(status_code=204)


@router.post("/store/remove", status_code=204)
async def remove(transfers: TheTransfers, lease: WritingLease, body: RemovedFiles) -> Response:
    await transfers.remove(lease, list(body.paths))
    return Response(status_code=204)


@router.put("/log", status_code=204, openapi_extra=_BODY)
async def log(
    transfers: TheTransfers,
    request: Request,
    lease: TheLease,
    offset: Number,
    digest: Digest = "",
) -> Response:
    """Write a part of the log of the attempt."""
    del digest
    await transfers.log(lease, offset, await _body(request))
    return Response(status_code=204)


def _name(name_b64: str) -> bytes:
    try:
        return decode(name_b64)
    except ValueError:
        raise TqError(ErrorCode.BAD_REQUEST, "name_b64 is not base64") from None


def _content(body: bytes) -> Response:
    return Response(body, media_type=_BYTES, headers={content_digest.HEADER: content_digest.of(body)})


async def _body(request: Request) -> bytes:
    body = await bodies.read(request, MAX_PART_BYTES)
    if request.headers.get(content_digest.HEADER) != content_digest.of(body):
        raise TqError(
            ErrorCode.UPLOAD_DAMAGED, "the bytes of the request do not have the hash in Content-Digest"
        )
    return body
