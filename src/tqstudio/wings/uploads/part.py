"""Receives uploads: durable in parts, verified when whole, then moved to the incoming files and added.

An acknowledged offset survives a power cut: the bytes are synced before it is stored, and it is stored before
it is answered. What follows the last byte is repeated until its result is stored, by the client or by
`Uploads.finish_pending`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from blake3 import blake3

from tqstudio.config import Settings
from tqstudio.engine.access.principal import OWNER
from tqstudio.engine.admission import adding
from tqstudio.engine.admission.admission import Admission
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.volumes import volume_of
from tqstudio.engine.host import failpoints, logging_setup
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.outputs import output_check
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.paths import display
from tqstudio.protocol.answers import AddResult
from tqstudio.protocol.requests import AddOptions
from tqstudio.units import size as in_units
from tqstudio.wings.uploads import part_file
from tqstudio.wings.uploads import store as uploads
from tqstudio.wings.uploads.metadata import UploadMetadata, header_of, parse
from tqstudio.wings.uploads.part_file import PartFile
from tqstudio.wings.uploads.receiving import Checksum, Receiver
from tqstudio.wings.uploads.store import UploadRow

T = TypeVar("T")

MAX_UNFINISHED = 100
"""Uploads without a result, of all clients."""
_FINISH_S = 10.0
_PRUNE_S = 60.0


class Uploads(Part):
    """The uploads of this studio."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        admission: Admission,
        bounded_io: BoundedIO,
        ages: Ages,
    ) -> None:
        self._settings, self._db, self._admission, self._io = settings, db, admission, bounded_io
        self._ages = ages
        chosen = Path(settings.incoming).expanduser() if settings.incoming else home.incoming
        self._incoming = chosen.absolute()
        logging_setup.know(os.fsencode(self._incoming))
        self._busy: set[str] = set()
        """Uploads with a request in progress, or that `finish_pending` finishes."""
        self.every = (Periodic(_FINISH_S, self.finish_pending, at_once=True), Periodic(_PRUNE_S, self.prune))
        self._hashers: dict[str, tuple[int, blake3]] = {}
        """How many bytes of each unfinished upload were hashed, and the hasher to continue with."""
        self._log = structlog.get_logger()

    @property
    def max_bytes(self) -> int:
        return self._settings.upload_max_bytes

    async def create(self, size: int, about: str, *, actor: str) -> UploadRow:
        """Begin an upload.

        Args:
            about: the header Upload-Metadata.

        Raises:
            TqError: it cannot be taken now, or never.
        """
        return await self._create(size, about, self._admission.output_root(None), actor=actor)

    async def expect(
        self,
        url: str,
        size: int,
        version: str | None,
        name: str,
        options: AddOptions,
        output_root: bytes,
        *,
        actor: str,
    ) -> UploadRow:
        """Begin an upload of which `Fetches` appends the bytes.

        Args:
            version: ETag of the object.

        Raises:
            TqError: as of `create`.
        """
        of = {"url": url, "version": version, "output_root": output_root}
        return await self._create(size, header_of(name, options), output_root, actor=actor, **of)

    async def _create(self, size: int, about: str, output: bytes, *, actor: str, **of: Any) -> UploadRow:
        metadata = parse(about)
        self._require_size(size)
        adding.offer(self._admission, metadata.options, output)
        await output_check.require_usable(output, self._io, allow_shared=self._settings.allow_shared_output)
        await self._require_room(size)
        number = secrets.token_urlsafe(18)
        expires_at = self._expiry()
        stored = await self._db.write(
            lambda db: uploads.create(
                db,
                number,
                size=size,
                upload_metadata=about,
                actor=actor,
                expires_at=expires_at,
                limit=MAX_UNFINISHED,
                **of,
            )
        )
        if not stored:
            raise TqError(
                ErrorCode.REFUSED,
                f"{MAX_UNFINISHED} uploads are unfinished already, the maximum",
                "finish or delete some first",
            )
        return await self.find(number)

    async def find(self, number: str) -> UploadRow:
        """The present state of an upload.

        Raises:
            TqError: NOT_FOUND.
        """
        row = await self._db.read(uploads.find, number)
        if row is None:
            raise TqError(
                ErrorCode.NOT_FOUND,
                "there is no such upload: it was removed, or has expired",
                "begin it again",
            )
        return row

    async def append(
        self, number: str, offset: int, body: AsyncIterator[bytes], checksum: Checksum | None
    ) -> UploadRow:
        """Append the bytes of a request; the last one makes it a file and a job. Returns the new state.

        Without a checksum, what arrived of an interrupted request is kept.

        Raises:
            TqError: REFUSED at another offset than the present one; UPLOAD_BUSY; UPLOAD_DAMAGED: nothing of
                this request was kept, or, if the whole file is damaged, nothing at all; DISK_LOW.
        """
        with self._alone(number):
            row = await self.find(number)
            if offset != row.received:
                raise TqError(
                    ErrorCode.REFUSED,
                    f"the upload is at {row.received}, not at {offset}",
                    "continue at its offset, which HEAD answers",
                )
            if not row.is_whole:
                row = await self._receive(row, body, checksum)
            return await self._finish(row) if row.is_whole else row

    async def remove(self, number: str) -> None:
        """End an upload. The file of a finished one stays.

        Raises:
            TqError: NOT_FOUND, UPLOAD_BUSY.
        """
        with self._alone(number):
            await self._remove(await self.find(number))

    async def prune(self) -> None:
        """Delete the results of uploads that have expired."""
        await self._db.write(lambda db: uploads.prune(db, before=self._ages.before(0)))

    async def finish_pending(self) -> None:
        """Finish whole uploads whose client is gone, and remove those that have expired."""
        for row in await self._db.read(uploads.unfinished):
            if row.id in self._busy or not (row.is_whole or row.expires_at < self._ages.before(0)):
                continue
            try:
                with self._alone(row.id):
                    row = await self.find(row.id)
                    if row.is_whole:
                        await self._finish(row)
                    elif row.expires_at < self._ages.before(0):
                        await self._remove(row)
                        self._log.info("upload expired", upload=row.id, received=row.received, size=row.size)
            except TqError as error:
                self._log.warning("upload not finished", upload=row.id, code=error.code, why=error.message)
            except Exception:
                self._log.exception("upload not finished", upload=row.id)

    # Checks

    def _require_size(self, size: int) -> None:
        if not self.max_bytes:
            raise TqError(
                ErrorCode.UPLOAD_TOO_LARGE,
                "this studio takes no uploads",
                "set upload_max_bytes there to another value than 0",
            )
        if size > self.max_bytes:
            raise TqError(
                ErrorCode.UPLOAD_TOO_LARGE,
                f"the file has {in_units(size)}; this studio takes at most {in_units(self.max_bytes)}",
            )
        if size == 0:
            raise TqError(ErrorCode.SOURCE_EMPTY, "the file is empty")

    async def _require_room(self, size: int) -> None:
        """Check that the disk has room for this upload beside the unfinished ones and the reserve.

        Raises:
            TqError: DISK_LOW.
        """
        volume = await self._run(".", partial(volume_of, self._incoming))
        others = sum(row.size - row.received for row in await self._db.read(uploads.unfinished))
        needed = size + others + self._settings.disk_reserve_bytes
        if volume is not None and volume.free < needed:
            raise TqError(
                ErrorCode.DISK_LOW,
                f"the disk of {display(os.fsencode(self._incoming))} has {in_units(volume.free)} free;"
                f" {in_units(needed)} are needed, {in_units(needed - size)} of them for other uploads and the"
                " reserve",
                "free space there, then try again",
            )

    @contextlib.contextmanager
    def _alone(self, number: str) -> Iterator[None]:
        if number in self._busy:
            raise TqError(ErrorCode.UPLOAD_BUSY, "another request is sending to this upload")
        self._busy.add(number)
        try:
            yield
        finally:
            self._busy.discard(number)

    # Steps

    async def _receive(
        self, row: UploadRow, body: AsyncIterator[bytes], checksum: Checksum | None
    ) -> UploadRow:
        run = partial(self._run, row.id)
        try:
            part = await self._run(row.id, partial(PartFile, self._incoming, row.id, row.received))
        except part_file.Shortened:
            await self._remove(row)
            raise TqError(
                ErrorCode.NOT_FOUND, "the part file of this upload was changed or removed", "begin it again"
            ) from None
        hashed, whole = self._hashers.pop(row.id, (0, blake3()))
        known = whole if hashed == row.received else None
        receiver = Receiver(part, run, start=row.received, limit=row.size, checksum=checksum, whole=known)
        received = None
        try:
            received = await receiver.receive(body)
            advance = partial(uploads.advance, before=row.received, received=received)
            await self._db.write(advance, row.id, expires_at=self._expiry())
        finally:
            # Bytes beyond the stored offset are removed by the next part, in case that is stored unanswered.
            with contextlib.suppress(TqError):
                await run(partial(part.close, row.received if received is None else None))
        if known is not None:
            self._hashers[row.id] = received, known
        return await self.find(row.id)

    async def _finish(self, row: UploadRow) -> UploadRow:
        """Verify a whole file, move it to its place and add it; each step may be repeated."""
        if row.answer is not None:
            return row
        metadata = parse(row.upload_metadata)
        failpoints.reach("upload.received")
        path = row.path
        if path is None:
            await self._require_hash(row, metadata)
            # Comparing it with a file of the same name may take long.
            reserving = asyncio.to_thread(part_file.reserve, self._incoming, row.id, metadata.name)
            target = await self._on_disk(reserving)
            path = os.fsencode(target)
            failpoints.reach("upload.reserved")
            await self._db.write(uploads.place, row.id, path)
        failpoints.reach("upload.placed")
        await self._run(row.id, partial(part_file.promote, self._incoming, row.id, Path(os.fsdecode(path))))
        failpoints.reach("upload.settled")
        batch = None
        try:
            output = self._admission.output_root(row.output_root)
            offer = adding.offer(self._admission, metadata.options, output, actor=row.actor)
            # A token is known by its name, however its files arrive.
            offer = replace(offer, owner="upload" if row.actor == OWNER.actor else None)
            batch = offer.batch
            result = adding.result_of(path, await self._admission.offer(path, offer))
        except TqError as error:
            if error.code in UNWRITTEN or self._admission.is_ending():
                raise
            result = adding.result_of(path, error)
        failpoints.reach("upload.added")
        self._log.info("upload finished", upload=row.id, path=display(path), decision=result["decision"])
        return await self._answer(row, batch, result)

    async def reject(self, row: UploadRow, error: TqError) -> UploadRow:
        """End an upload that cannot become whole; its bytes are removed.

        Raises:
            TqError: UPLOAD_BUSY.
        """
        with self._alone(row.id):
            await self._run(row.id, partial(part_file.remove, self._incoming, row.id))
            return await self._answer(row, None, adding.result_of(os.fsencode(row.url or row.id), error))

    async def _answer(self, row: UploadRow, batch: str | None, result: AddResult) -> UploadRow:
        self._hashers.pop(row.id, None)
        text = json.dumps({"batch": batch, "result": result})
        await self._db.write(lambda db: uploads.answer(db, row.id, text, expires_at=self._expiry()))
        return await self.find(row.id)

    async def _require_hash(self, row: UploadRow, metadata: UploadMetadata) -> None:
        """Compare the whole file with the hash that the client named, if it did.

        Raises:
            TqError: UPLOAD_DAMAGED; the upload is removed.
        """
        if metadata.blake3 is None:
            return
        hashed, hasher = self._hashers.pop(row.id, (0, blake3()))
        found: str | None = hasher.hexdigest()
        if hashed != row.size:
            reading = asyncio.to_thread(part_file.hash_of, self._incoming, row.id, self._admission.is_ending)
            found = await self._on_disk(reading)
        if found is None:
            raise TqError(ErrorCode.REFUSED, "the supervisor shut down before it had read the file")
        if found != metadata.blake3:
            await self._remove(row)
            raise TqError(
                ErrorCode.UPLOAD_DAMAGED,
                "the whole file does not have the hash in Upload-Metadata; it was removed",
                "upload it again",
            )

    async def _remove(self, row: UploadRow) -> None:
        self._hashers.pop(row.id, None)
        await self._run(row.id, partial(part_file.remove, self._incoming, row.id))
        await self._db.write(uploads.remove, row.id)

    def _expiry(self) -> int:
        return now_us() + int(self._settings.upload_expiry_s * MICROSECOND)

    async def _run(self, number: str, function: Callable[[], T]) -> T:
        """Run a step that accesses the disk; those of one upload run one after the other."""
        place = os.fsencode(self._incoming / part_file.PARTS / number)
        return await self._on_disk(self._io.run(place, function))

    async def _on_disk(self, step: Awaitable[T]) -> T:
        """Convert errors of the file system of the incoming files.

        Raises:
            TqError: DISK_LOW, DISK_NOT_RESPONDING, PERMISSION or IO_ERROR.
        """
        try:
            return await step
        except OSError as error:
            raise self._as_tq_error(error) from error

    def _as_tq_error(self, error: OSError) -> TqError:
        shown = display(os.fsencode(self._incoming))
        if isinstance(error, NoAnswer):
            return TqError(ErrorCode.DISK_NOT_RESPONDING, error.strerror, "check the disk, then try again")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return TqError(
                ErrorCode.DISK_LOW,
                f"the disk of {shown} is full; what was acknowledged is kept",
                "free space there; the upload then continues at its offset",
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP):
            return TqError(ErrorCode.PERMISSION, f"{shown} cannot be used: {error.strerror}")
        return TqError(ErrorCode.IO_ERROR, f"{shown} cannot be written: {error.strerror}")
