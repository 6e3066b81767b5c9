"""The application: routers, and errors as one shape for every client."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

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
    app.add_exception_handler(404, _no_such_address)
    return app


def _answer(status: int, code: str, message: str, hint: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status)


def _tq_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TqError)
    return _answer(STATUS_OF.get(error.code, 400), error.code.value, error.message, error.hint)


def _bad_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    return _answer(
        400, ErrorCode.BAD_REQUEST.value, f"{where or 'the request'}: {first['msg']}", f"correct {where}"
    )


def _no_such_address(request: Request, _: Exception) -> JSONResponse:
    return _answer(
        404,
        ErrorCode.NOT_FOUND.value,
        f"there is no {request.url.path}",
        "see /openapi.json for what there is",
    )
