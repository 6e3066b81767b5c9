"""Converts errors to answers: an HTTP status and `{"error": {"code", "message", "hint"}}`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from tqstudio import toml_files
from tqstudio.errors import ErrorCode, TqError

STATUS_OF: dict[ErrorCode, int] = {
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.REFUSED: 409,
    ErrorCode.LOST_LEASE: 409,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.TOO_MANY_FAILURES: 429,
    ErrorCode.UPLOAD_TOO_LARGE: 413,
    ErrorCode.UPLOAD_BUSY: 423,
    ErrorCode.UPLOAD_DAMAGED: 460,  # "Checksum Mismatch" of the tus protocol
    ErrorCode.PERMISSION: 403,
    ErrorCode.INTERNAL: 500,
    ErrorCode.DATABASE_DAMAGED: 500,
    ErrorCode.NO_SUPERVISOR: 503,
    ErrorCode.DATABASE_BUSY: 503,
    ErrorCode.DATABASE_UNREACHABLE: 503,
    ErrorCode.DISK_NOT_RESPONDING: 503,
    ErrorCode.IO_ERROR: 500,
    ErrorCode.DISK_LOW: 507,
    ErrorCode.DATABASE_UNWRITABLE: 507,
}
"""HTTP status of an error code; every other code is 400."""


_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
JSON_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "Refused: `error.code` names the reason", "content": _ERROR},
    "5XX": {"description": "A fault of the supervisor or of its disks", "content": _ERROR},
}
"""The error answers of an endpoint whose other answers are no JSON, for the schema."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error answer."""

    status: int
    code: str
    message: str
    hint: str

    def body(self) -> dict[str, dict[str, str]]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def refusal(error: Exception) -> ErrorResponse:
    """Convert an exception to its error answer."""
    match error:
        case TqError():
            return ErrorResponse(STATUS_OF.get(error.code, 400), error.code.value, error.message, error.hint)
        case RequestValidationError() | ValidationError():
            return _bad_request(error.errors())
        case OverflowError():
            # Ids and cursors are 64-bit integers in the database; JSON numbers are unbounded.
            return ErrorResponse(
                400, ErrorCode.BAD_REQUEST, "a number in the request is too large", "correct the request"
            )
        case _:
            return ErrorResponse(
                500,
                ErrorCode.INTERNAL,
                f"internal error of the supervisor: {type(error).__name__}",
                "please report it with the supervisor's log",
            )


def _bad_request(errors: Sequence[Any]) -> ErrorResponse:
    first: dict[str, Any] = dict(errors[0])
    if first["type"] == "json_invalid":
        return ErrorResponse(
            400, ErrorCode.BAD_REQUEST, "the body is not valid JSON", "send one JSON object in UTF-8"
        )
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    where = where or "the request"
    text, hint = f"{where}: {first['msg']}", f"correct {where}"
    context = first.get("ctx", {})
    needs = f"choose {context['expected']}" if "expected" in context else ""
    needs = f"it has to match {context['pattern']}" if "pattern" in context else needs
    if needs and isinstance(given := first.get("input"), str):
        # Shortened: it may be long.
        text, hint = f"{where} cannot be {toml_files.written(given)}", needs
    return ErrorResponse(400, ErrorCode.BAD_REQUEST, text, hint)


_SEE_SCHEMA = "see /openapi.json for all endpoints"


async def answer_refusal(_: Request, error: Exception) -> JSONResponse:
    refused = refusal(error)
    return JSONResponse(refused.body(), refused.status)


async def answer_http_error(request: Request, error: Exception) -> JSONResponse:
    """Convert the framework's own errors: unknown paths, wrong methods, unreadable bodies."""
    assert isinstance(error, StarletteHTTPException)
    path = request.url.path
    match error.status_code:
        case 404:
            refused = ErrorResponse(404, ErrorCode.NOT_FOUND, f"there is no endpoint {path}", _SEE_SCHEMA)
        case 405:
            what = f"{path} does not support {request.method}"
            refused = ErrorResponse(405, ErrorCode.BAD_REQUEST, what, _SEE_SCHEMA)
        case status:
            refused = ErrorResponse(
                status, ErrorCode.BAD_REQUEST, f"{path}: {error.detail}", "correct the request"
            )
    return JSONResponse(refused.body(), refused.status)
