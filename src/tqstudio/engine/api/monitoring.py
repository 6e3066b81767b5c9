"""Endpoints for monitoring, outside of `/v1`: metrics, and for container probes, without a token, health."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheMonitor
from tqstudio.engine.api.errors import JSON_ERRORS
from tqstudio.protocol.answers import HealthView, ReadyView

router = APIRouter(route_class=BoundedRoute)


class _Metrics(PlainTextResponse):
    media_type = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics", response_class=_Metrics, responses=JSON_ERRORS)
async def metrics(monitor: TheMonitor) -> Response:
    """Metrics in the text format of Prometheus."""
    return _Metrics(await monitor.scrape())


@router.get("/health", responses={503: {"model": HealthView, "description": "The database does not answer"}})
async def health(monitor: TheMonitor, response: Response) -> HealthView:
    """Whether the supervisor and its database answer."""
    view = await monitor.health()
    response.status_code = 200 if view["healthy"] else 503
    return view


@router.get("/ready", responses={503: {"model": ReadyView, "description": "New jobs would have to wait"}})
async def ready(monitor: TheMonitor, response: Response) -> ReadyView:
    """Whether a new job would be processed now, or why not."""
    view = await monitor.readiness()
    response.status_code = 200 if view["ready"] else 503
    return view
