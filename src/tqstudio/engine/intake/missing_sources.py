"""Looks in the drop folders for sources that were missing when their jobs began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.library import videos
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind


class MissingSources(Part):
    """Has the drop folders look again for files whose jobs failed because they were missing.

    Args:
        look_again: called with the path of each.
    """

    triggers = (EventKind.FAIL_FINAL,)

    def __init__(self, db: Database, look_again: Callable[[bytes], None]) -> None:
        self._db, self._look_again = db, look_again
        self._looks: set[asyncio.Task[None]] = set()

    def on_events(self, events: Sequence[EventRow]) -> None:
        missed = [event.video for event in events if event.video and event.code == ErrorCode.SOURCE_MISSING]
        if missed:
            look = asyncio.get_running_loop().create_task(self._look(missed))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _look(self, missed: Sequence[int]) -> None:
        for number in missed:
            video = await self._db.read(videos.get, number)
            if video is not None:
                self._look_again(video.source)
