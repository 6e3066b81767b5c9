"""How an endpoint gets at the studio."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tqstudio.engine.studio import Studio


async def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


TheStudio = Annotated[Studio, Depends(_studio)]
