"""Endpoints of deleting videos and of bringing them back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices, the
from tqstudio.engine.api.videos import one
from tqstudio.protocol.answers import VideoView
from tqstudio.wings.deletion.part import Deletions

router = APIRouter(route_class=BoundedRoute)

TheDeletions = Annotated[Deletions, the(Deletions)]


@router.delete("/videos/{video}")
async def delete(services: TheServices, deletions: TheDeletions, actor: TheActor, video: int) -> VideoView:
    """Delete a video with its ladder, jobs and unfinished work; it can be brought back for a while."""
    await deletions.delete(video, actor=actor)
    return await one(services, video)


@router.post("/videos/{video}/undelete")
async def undelete(services: TheServices, deletions: TheDeletions, actor: TheActor, video: int) -> VideoView:
    """Bring a deleted video back, as long as its files are there."""
    await deletions.undelete(video, actor=actor)
    return await one(services, video)
