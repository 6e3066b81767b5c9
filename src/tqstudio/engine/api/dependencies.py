"""Dependencies of endpoints: access to the services, and a check for unknown query parameters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.routing import APIRoute

from tqstudio.engine.services import Services
from tqstudio.errors import ErrorCode, TqError


async def _studio(request: Request) -> Services:
    studio: Services = request.app.state.studio
    return studio


TheStudio = Annotated[Services, Depends(_studio)]


async def refuse_unknown_query(request: Request) -> None:
    """Refuse query parameters that the endpoint does not know, instead of ignoring them.

    Raises:
        TqError: BAD_REQUEST with the parameters that it knows.
    """
    route = request.scope["route"]
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = [field.alias for field in route.dependant.query_params]
    unknown = [key for key in request.query_params if key not in known]
    if unknown:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{request.url.path} has no parameter {unknown[0]!r}",
            f"it takes {', '.join(known)}" if known else "it takes no parameters: leave it out",
        )
