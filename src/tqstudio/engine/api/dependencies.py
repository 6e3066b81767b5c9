"""How an endpoint gets at the studio, and what it must not be asked."""

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
    """Refuse query keys that the endpoint would ignore: the answer would be to another question.

    Raises:
        TqError: BAD_REQUEST with the keys that it knows.
    """
    route = request.scope["route"]
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = [field.alias for field in route.dependant.query_params]
    unknown = [key for key in request.query_params if key not in known]
    if unknown:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{request.url.path} does not know {unknown[0]!r}",
            f"it takes {', '.join(known)}" if known else "it takes no query: leave it out",
        )
