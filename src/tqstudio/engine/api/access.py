"""How an endpoint gets at the studio, and how a worker shows who it is."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tqstudio.engine.dispatch import Identity
from tqstudio.engine.studio import Studio
from tqstudio.errors import ErrorCode, TqError


async def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


async def _identity(request: Request) -> Identity:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    studio: Studio = request.app.state.studio
    found = studio.identities.of(token) if scheme.lower() == "bearer" else None
    if found is None:
        raise TqError(ErrorCode.UNAUTHORIZED, "this needs a worker's token, and the one given is not valid")
    return found


TheStudio = Annotated[Studio, Depends(_studio)]
TheWorker = Annotated[Identity, Depends(_identity)]
