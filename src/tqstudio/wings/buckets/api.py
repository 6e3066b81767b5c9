"""Endpoint of buckets: uploading a ladder again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from tqstudio.engine.api import videos
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices, the
from tqstudio.protocol.answers import VideoView
from tqstudio.wings.buckets.part import Deliveries

router = APIRouter(route_class=BoundedRoute)


@router.post("/videos/{video}/upload")
async def upload(
    services: TheServices, deliveries: Annotated[Deliveries, the(Deliveries)], video: int
) -> VideoView:
    """Upload the ladder of a video to its bucket again, whole."""
    await deliveries.upload_again(video)
    return await videos.one(services, video)
