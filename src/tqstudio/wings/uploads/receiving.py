"""Writes the bytes of one request to a part file, while further ones arrive, and hashes them on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol

from blake3 import blake3

from tqstudio.errors import ErrorCode, TqError
from tqstudio.wings.uploads.part_file import PartFile

_BLOCK_BYTES = 2 * 1024 * 1024
"""Written at a time; a request holds two blocks in memory."""


class Interrupted(ConnectionError):
    """Raised by the body of a request: the client is gone before all of it has arrived."""


class Hasher(Protocol):
    """A hash of `hashlib`, or BLAKE3."""

    def update(self, data: bytearray, /) -> object: ...

    def digest(self) -> bytes: ...


class Checksum:
    """What the bytes of one request must hash to."""

    def __init__(self, hasher: Hasher, expected: bytes) -> None:
        self._hasher, self._expected = hasher, expected

    def update(self, block: bytearray) -> None:
        self._hasher.update(block)

    def require(self) -> None:
        """Check that all bytes were those meant.

        Raises:
            TqError: UPLOAD_DAMAGED.
        """
        if self._hasher.digest() != self._expected:
            raise TqError(
                ErrorCode.UPLOAD_DAMAGED, "the bytes of the request do not have the hash in Upload-Checksum"
            )


class _Run(Protocol):
    """Runs a step that accesses the disk."""

    def __call__(self, step: Callable[[], None], /) -> Awaitable[None]: ...


class Receiver:
    """Receives one request.

    Args:
        start: the offset at which its bytes belong.
        limit: the size of the whole file.
        whole: the hash of the whole file, up to `start`; updated.
    """

    def __init__(
        self,
        part: PartFile,
        run: _Run,
        *,
        start: int,
        limit: int,
        checksum: Checksum | None,
        whole: blake3 | None,
    ) -> None:
        self._part, self._run, self._limit = part, run, limit
        self._checksum, self._whole = checksum, whole
        self._end = start
        self._writing: asyncio.Future[None] | None = None

    async def receive(self, body: AsyncIterator[bytes]) -> int:
        """Write all bytes and sync them; returns where they end.

        Without a checksum, what arrived of an interrupted request counts.

        Raises:
            TqError: UPLOAD_DAMAGED; BAD_REQUEST if there are more than the whole file has.
            Interrupted: as of `body`, with a checksum.
        """
        block = bytearray()
        try:
            try:
                async for piece in body:
                    block += piece
                    if len(block) >= _BLOCK_BYTES:
                        await self._put(block)
                        block = bytearray()
            except Interrupted:
                if self._checksum is not None:
                    raise
            if block:
                await self._put(block)
            await self._written()
        finally:
            # No write may happen after the caller has given the file up.
            if self._writing is not None:
                await asyncio.wait([self._writing])
        if self._checksum is not None:
            self._checksum.require()
        await self._run(self._part.sync)
        return self._end

    async def _put(self, block: bytearray) -> None:
        if self._end + len(block) > self._limit:
            raise TqError(
                ErrorCode.BAD_REQUEST, f"more than the {self._limit} bytes of Upload-Length were sent"
            )
        await self._written()
        self._writing = asyncio.ensure_future(self._run(partial(self._store, self._end, block)))
        self._end += len(block)

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    def _store(self, at: int, block: bytearray) -> None:
        self._part.write(at, block)
        if self._checksum is not None:
            self._checksum.update(block)
        if self._whole is not None:
            self._whole.update(block)
