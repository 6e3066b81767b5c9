"""Fetches sources from object storage: each becomes an upload, whose bytes the supervisor asks for itself.

| step | state after a kill | the next run |
|---|---|---|
| size and version (ETag) of the object are recorded with the upload | nothing is here | fetches it |
| a part of it is appended to the upload | the parts before | continues after them, of the same version |
| the last part is appended | the upload is whole | as for any upload |
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator

import structlog

from tqstudio.engine.host.waiting import WakeableLoop
from tqstudio.engine.parts.part import Background
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol.requests import AddOptions
from tqstudio.wings.buckets.bucket import Bucket
from tqstudio.wings.uploads import store as uploads
from tqstudio.wings.uploads.metadata import safe_name
from tqstudio.wings.uploads.part import Uploads
from tqstudio.wings.uploads.store import UploadRow

PART_BYTES = 16 * 1024 * 1024
"""Asked for at once, and held in memory."""
_FINAL = frozenset((ErrorCode.NOT_FOUND, ErrorCode.SOURCE_CHANGED, ErrorCode.UPLOAD_TOO_LARGE))
"""Codes of permanent errors, after which nothing is retried."""


class Fetches(Background):
    """The sources that are fetched, one after the other."""

    def __init__(self, home: Home, db: Database, to: Uploads, backoff_max_s: float) -> None:
        self._home, self._db, self._uploads = home, db, to
        self._retries = RetryRules(5, backoff_max_s, random.random)
        self._failed = dict[str, tuple[int, float, TqError]]()
        """Failures in a row, when the next try is due by the loop's clock, and the last error, by upload."""
        self._loop = WakeableLoop("fetches", self._do_next)
        super().__init__(self._loop.run)
        self._log = structlog.get_logger()

    async def begin(self, url: str, options: AddOptions, output_root: bytes, *, actor: str) -> UploadRow:
        """Begin to fetch an object.

        Raises:
            TqError: it is not there or not accessible, or cannot be taken.
        """
        self._home.bucket_copy(url)
        place, _, name = url.rpartition("/")
        if place.endswith("/"):
            raise TqError(ErrorCode.BAD_REQUEST, f"{url} is a bucket, not a file in one", "name a file in it")
        size, version = await Bucket(self._home, place).examine(name)
        row = await self._uploads.expect(
            url, size, version, safe_name(name), options, output_root, actor=actor
        )
        self._loop.wake()
        return row

    def problem(self, number: str) -> TqError | None:
        """Why the last try to fetch failed; None if it did not."""
        failed = self._failed.get(number)
        return None if failed is None else failed[2]

    async def _do_next(self) -> float:
        """Fetch what is not here, whose next try is due; returns the seconds until another is."""
        now = asyncio.get_running_loop().time()
        rows = [row for row in await self._db.read(uploads.unfinished) if row.url and not row.is_whole]
        self._failed = {row.id: self._failed[row.id] for row in rows if row.id in self._failed}
        wait_s = math.inf
        for row in rows:
            left_s = self._failed[row.id][1] - now if row.id in self._failed else 0.0
            if left_s <= 0:
                await self._fetch(row)
                left_s = 0.0
            wait_s = min(wait_s, left_s)
        return wait_s

    async def _fetch(self, row: UploadRow) -> None:
        """Fetch an object, or what is missing of it; record why it failed."""
        place, _, name = str(row.url).rpartition("/")
        try:
            bucket = Bucket(self._home, place)
            while not row.is_whole:
                end = min(row.size, row.received + PART_BYTES)
                part = await bucket.read(name, row.received, end, row.version)
                row = await self._uploads.append(row.id, row.received, _pieces(part), None)
                self._failed.pop(row.id, None)
        except TqError as error:
            if error.code in UNWRITTEN - {ErrorCode.DISK_LOW}:
                raise
            if error.code in _FINAL:
                await self._reject(row, error)
                return
            self._retry_later(row, error)
            self._log.warning("fetch failed", url=row.url, code=error.code, error=error.message)
        except Exception as error:
            # A fault with this one must not hold up the others.
            self._retry_later(row, TqError(ErrorCode.INTERNAL, f"it could not be fetched: {error!r}"))
            self._log.exception("fetch failed", url=row.url)

    async def _reject(self, row: UploadRow, why: TqError) -> None:
        try:
            await self._uploads.reject(row, why)
        except TqError as error:
            if error.code is not ErrorCode.NOT_FOUND:  # it was deleted meanwhile
                raise

    def _retry_later(self, row: UploadRow, why: TqError) -> None:
        tries = self._failed[row.id][0] + 1 if row.id in self._failed else 1
        at = asyncio.get_running_loop().time() + self._retries.wait_s(tries)
        self._failed[row.id] = tries, at, why


async def _pieces(part: bytes) -> AsyncIterator[bytes]:
    yield part
