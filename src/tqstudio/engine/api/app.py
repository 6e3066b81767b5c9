"""The application: routers, and errors as one shape for every client."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from tqstudio import __version__
from tqstudio.engine.api import events, folders, jobs, system, videos, workers
from tqstudio.engine.studio import Studio
from tqstudio.errors import ErrorCode, TqError

STATUS_OF: dict[ErrorCode, int] = {
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.REFUSED: 409,
    ErrorCode.LOST_LEASE: 409,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.PERMISSION: 403,
    ErrorCode.INTERNAL: 500,
}
"""HTTP status of an error code; every other code is 400."""


def make_app(studio: Studio) -> FastAPI:
    """The API of a supervisor. Its schema is at `/openapi.json`; nothing is fetched from elsewhere."""
    app = FastAPI(title="tqstudio", version=__version__, docs_url=None, redoc_url=None)
    app.state.studio = studio
    for module in (workers, jobs, videos, folders, events, system):
        app.include_router(module.router, prefix="/v1")
    app.add_exception_handler(TqError, _tq_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(OverflowError, _too_large)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_exception_handler(Exception, _our_mistake)
    return app


def _answer(status: int, code: str, message: str, hint: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status)


def _tq_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TqError)
    return _answer(STATUS_OF.get(error.code, 400), error.code.value, error.message, error.hint)


def _bad_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    if first["type"] == "json_invalid":
        return _answer(
            400, ErrorCode.BAD_REQUEST.value, "the body is not valid JSON", "send one JSON object in UTF-8"
        )
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    where = where or "the request"
    return _answer(400, ErrorCode.BAD_REQUEST.value, f"{where}: {first['msg']}", f"correct {where}")


def _too_large(_request: Request, _error: Exception) -> JSONResponse:
    # Ids and cursors are 64-bit integers in the database; JSON knows no bounds.
    return _answer(
        400, ErrorCode.BAD_REQUEST.value, "a number in the request is too large", "correct the request"
    )


def _http_error(request: Request, error: Exception) -> JSONResponse:
    """What the framework refuses by itself: addresses, methods, unreadable bodies."""
    assert isinstance(error, StarletteHTTPException)
    path, hint = request.url.path, "see /openapi.json for what there is"
    match error.status_code:
        case 404:
            return _answer(404, ErrorCode.NOT_FOUND.value, f"there is no {path}", hint)
        case 405:
            return _answer(405, ErrorCode.BAD_REQUEST.value, f"{path} does not answer {request.method}", hint)
        case status:
            return _answer(
                status, ErrorCode.BAD_REQUEST.value, f"{path}: {error.detail}", "correct the request"
            )


def _our_mistake(_: Request, error: Exception) -> JSONResponse:
    return _answer(
        500,
        ErrorCode.INTERNAL.value,
        f"the supervisor made a mistake: {type(error).__name__}",
        "please report it with the supervisor's log",
    )
