"""Adds what the entries of the stream name, once each.

| step | state after a kill | the next delivery |
|---|---|---|
| the job is stored, with the key of the entry | it is there | is recognised by that key of the file's job |
| it is stored that the entry was added | | is recognised by that |
| the entry is acknowledged and removed | | there is none |

Of a URL, the upload has the key in the place of the job.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial

import structlog

from tqstudio.engine.admission import adding
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.files.bounded_io import NoAnswer
from tqstudio.engine.host import failpoints
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.lists import records
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.paths import is_bucket, normal
from tqstudio.wings.redis import places, store
from tqstudio.wings.redis.entries import Entry
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.metadata import header_of, safe_name
from tqstudio.wings.uploads.part import Uploads

ACTOR = "redis"
"""Who adds these jobs, in events and lists."""
_LATER = UNWRITTEN | {
    ErrorCode.ALREADY_RUNNING,  # another supervisor leads, and will read the entry
    ErrorCode.DATABASE_BUSY,
    ErrorCode.DISK_NOT_RESPONDING,
    ErrorCode.IO_ERROR,
    ErrorCode.OUTPUT_UNAVAILABLE,
    ErrorCode.SOURCE_UNAVAILABLE,
    ErrorCode.SYSTEM_LIMIT,
    ErrorCode.UPSTREAM,
}
"""Codes of what passes by itself: the entry is tried again."""


class Later(Exception):
    """An entry cannot be judged now."""

    def __init__(self, why: TqError) -> None:
        super().__init__(why.message)
        self.why = why


class Taking:
    """Adds files and URLs that entries name."""

    def __init__(self, services: Services) -> None:
        self._services, self._db = services, services.db
        self.roots = places.roots_of(services.settings.redis_roots)
        self._log = structlog.get_logger()

    async def take(self, entry: Entry) -> None:
        """Add what an entry names, unless that was done.

        Raises:
            Later: it cannot be decided now.
            TqError: why it is refused.
        """
        try:
            await self._take(entry)
        except TqError as error:
            # A shutdown interrupts reading a file; too many uploads are some fewer later.
            interrupted = self._services.admission.is_ending()
            crowded = entry.url is not None and error.code is ErrorCode.REFUSED
            if error.code in _LATER or interrupted or crowded:
                raise Later(error) from error
            raise

    async def _take(self, entry: Entry) -> None:
        if await self._db.read(store.is_added, entry.key):
            return
        failpoints.reach("redis.read")
        if entry.url is not None:
            answer = await self._fetch(entry, entry.url)
        else:
            answer = await self._add(entry, os.fsencode(entry.path or ""))
        failpoints.reach("redis.added")
        await self._db.write(store.remember, entry.key, json.dumps(answer))
        failpoints.reach("redis.stored")
        self._log.info("entry added", key=entry.key, **answer)

    async def _add(self, entry: Entry, path: bytes) -> dict[str, object]:
        services = self._services
        root = places.root_of(path, self.roots)
        await self._on_disk(root, partial(places.require_source, path, root))
        output = await self._output(entry)
        if (job := await self._db.read(_job_of, path, output, entry.key)) is not None:
            return {"job": job}
        offer = adding.offer(services.admission, entry.options, output, actor=ACTOR)
        [answer] = await services.admission.offer_all([path], replace(offer, idempotency_key=entry.key))
        if isinstance(answer, Exception):
            raise answer
        return {"job": answer["job"], "decision": answer["decision"]}

    async def _fetch(self, entry: Entry, url: str) -> dict[str, object]:
        about = header_of(safe_name(url.rpartition("/")[2]), entry.options)
        if not await self._db.read(store.is_fetched, about):
            # What is fetched becomes an upload, which has to be finished.
            await self._services.wings.part(Uploads)
            fetches = await self._services.wings.part(Fetches)
            await fetches.begin(url, entry.options, await self._output(entry), actor=ACTOR)
        return {"url": url}

    async def _output(self, entry: Entry) -> bytes:
        """The output of an entry, checked as for `POST /v1/videos`; a folder must be allowed, too."""
        services = self._services
        default = services.admission.output_root(None)
        output = default
        if entry.output is not None and is_bucket(entry.output):
            output = services.admission.output_root(os.fsencode(entry.output))
        elif entry.output is not None and (given := os.fsencode(entry.output)) != default:
            root = places.root_of(given, self.roots)
            await self._on_disk(root, partial(places.require_output, given, root))
            output = services.admission.output_root(normal(given))
        await services.check_output(output, must_answer=False)
        return output

    async def _on_disk(self, root: bytes, check: partial[None]) -> None:
        try:
            await self._services.bounded_io.run(root, check)
        except NoAnswer as error:
            raise TqError(ErrorCode.DISK_NOT_RESPONDING, error.strerror) from None


def _job_of(db: Connection, path: bytes, output: bytes, key: str) -> int | None:
    """The newest job of a file, if an entry with this key made it."""
    video = videos.find(db, path, output)
    newest = jobs.newest_job_of(db, video.id) if video is not None else None
    record = records.one(db, newest[0]) if newest is not None else None
    return record["id"] if record is not None and record["idempotency_key"] == key else None
