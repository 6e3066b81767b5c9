"""Where unfinished work lies: on the output's file system, apart from what is published.

    OUT/.tqstudio/<store uuid>/segments/<video>/<rendition>/<stream_key>/
    OUT/.tqstudio/<store uuid>/scratch/<job>-<epoch>/

Two homes may share an output: the uuid keeps their work apart.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from tqstudio.engine.store import videos
from tqstudio.engine.store.database import Database
from tqstudio.engine.store.transitions import look

FOLDER = ".tqstudio"


class Workspace:
    """The work folders of one database."""

    def __init__(self, db: Database, store_uuid: str) -> None:
        self._db, self._uuid = db, store_uuid

    @property
    def uuid(self) -> str:
        return self._uuid

    def sink(self, output_root: bytes) -> Path:
        """The folder below an output that workers write to."""
        return Path(os.fsdecode(output_root)) / FOLDER / self._uuid

    def discard(self, output_root: bytes, video: int) -> None:
        """Empty a video's segment store."""
        shutil.rmtree(self.sink(output_root) / "segments" / str(video), ignore_errors=True)

    async def forget(self, job: int) -> None:
        """Remove the finished segments of a job that starts over."""
        facts = await self._db.read(look, job)
        video = await self._db.read(videos.get, facts.video) if facts else None
        if video is not None:
            await asyncio.to_thread(self.discard, video.output_root, video.id)
