"""Builds the API application: all routers, one shape of errors."""

from __future__ import annotations

from functools import partial

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp

from tqstudio import __version__
from tqstudio.engine.api import events, folders, jobs, openapi, system, videos, worker_api, workers
from tqstudio.engine.api.dependencies import refuse_unknown_query
from tqstudio.engine.api.errors import answer_http_error, answer_refusal
from tqstudio.engine.api.system import Shared
from tqstudio.engine.services import Services
from tqstudio.errors import TqError


def make_app(studio: Services) -> ASGIApp:
    """Create the API of a supervisor; its schema is at `/openapi.json`."""
    app = FastAPI(
        title="tqstudio",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(refuse_unknown_query)],
    )
    app.state.studio = studio
    app.state.status = Shared(partial(system.status_json, studio))
    for module in (worker_api, workers, jobs, videos, folders, events, system):
        app.include_router(module.router, prefix="/v1")
    openapi.describe(app)
    for error in (TqError, RequestValidationError, OverflowError, Exception):
        app.add_exception_handler(error, answer_refusal)
    app.add_exception_handler(StarletteHTTPException, answer_http_error)
    return app
