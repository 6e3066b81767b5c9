"""Builds the API application: all routers, one shape of errors."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp

from tqstudio import __version__
from tqstudio.engine.api import (
    events,
    folders,
    forecasts,
    jobs,
    monitoring,
    system,
    tokens,
    videos,
    worker_api,
    workers,
)
from tqstudio.engine.api.dependencies import PREFIX, refuse_unknown_query, require_role
from tqstudio.engine.api.errors import answer_http_error, answer_refusal
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.monitoring.monitor import Monitor
from tqstudio.errors import TqError
from tqstudio.protocol.answers import ErrorAnswer


def make_app(services: Services, routers: Sequence[APIRouter]) -> ASGIApp:
    """Create the API of a supervisor; its schema is at `/openapi.json`.

    Args:
        routers: the endpoints of the wings.
    """
    app = FastAPI(
        title="tqstudio",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[
            # Shown in the schema; the token was checked before.
            Depends(HTTPBearer(auto_error=False, description="Needed on TCP, and by workers")),
            Depends(require_role),
            Depends(refuse_unknown_query),
        ],
        responses={
            "4XX": {"model": ErrorAnswer, "description": "Refused: `error.code` names the reason"},
            "5XX": {"model": ErrorAnswer, "description": "A fault of the supervisor or of its disks"},
        },
    )
    app.state.services, app.state.monitor = services, Monitor(services)
    of_clients = (workers, forecasts, jobs, videos, folders, events, system, tokens)
    for module in (worker_api, *of_clients):
        app.include_router(module.router, prefix=PREFIX)
    for router in routers:
        app.include_router(router, prefix=PREFIX)
    app.include_router(monitoring.router)
    for error in (TqError, RequestValidationError, OverflowError, Exception):
        app.add_exception_handler(error, answer_refusal)
    app.add_exception_handler(StarletteHTTPException, answer_http_error)
    return app
