"""Publishes ladders in steps that keep files and database consistent if the process is killed after any.

| step | state after a kill | recovery |
|---|---|---|
| the intent is recorded under a live lease | nothing | rolled back |
| the generation is built, synced and verified | a folder with a temporary name | rolled back |
| it gets its final name | a folder that no master names | finished |
| the MPD of DASH is replaced, if there is one | a generation that no master names | finished |
| the master playlist is replaced | a published generation that is not recorded | finished |
| the segment store is set aside | the same | finished |
| job and generation are recorded, the intent is deleted | nothing | |

Rolled back means: the video's folder is as before, its segments are in the store, and its job is requeued.

The first quality of a running job is published by the same steps; its job, lease and segments stay.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from tqstudio.engine import outputs
from tqstudio.engine.files import bounded_io
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host import failpoints
from tqstudio.engine.live import leases
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.check import apple
from tqstudio.engine.media.plan.file_names import POSTER_NAME
from tqstudio.engine.media.plan.track_names import is_of_track
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.fingerprint import digest
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.engine.outputs import Place, master, whole_files
from tqstudio.engine.outputs.intent import Publication, forget, intend, load, record, video_of
from tqstudio.engine.outputs.place import bucket_url, place_of
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.library import generations, publications
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.errors import ErrorCode, JobWarning, TqError
from tqstudio.home import Home
from tqstudio.paths import display
from tqstudio.protocol.requests import CompleteRequest, Manifest

MakeFiles = Callable[[Path, Publication], list[JobWarning]]
"""Makes the files of the whole video in the folder of a generation that has its renditions, on the calling
thread; returns those that could not be made. Raises TqError if the machine is short of something, OSError."""

_UNDO_S = 60.0
_INTERRUPTED = "the publish was interrupted"


class Publisher(Part):
    """Publishes ladders; the only writer of published folders."""

    def __init__(
        self,
        home: Home,
        db: Database,
        running_jobs: RunningJobs,
        workspace: Workspace,
        bounded_io: BoundedIO,
        make_files: MakeFiles = lambda _folder, _publication: [],
    ) -> None:
        self._home = home
        self._db, self._running_jobs, self._workspace, self._bounded_io = (
            db,
            running_jobs,
            workspace,
            bounded_io,
        )
        self._make_files = make_files
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self.every = (Periodic(_UNDO_S, self.undo_leftovers, at_once=True),)
        self._log = structlog.get_logger()

    async def publish(
        self, token: LeaseToken, worker: str, request: CompleteRequest, before: Callable[[Connection], None]
    ) -> None:
        """Publish the result of a worker and mark its job as done.

        Args:
            before: runs in the transaction that records the intent.

        Raises:
            TqError: LOST_LEASE or NOT_FOUND; otherwise why it cannot be published, with nothing changed.
        """
        begun = time.monotonic()
        video, _, _ = await self._db.read(video_of, token.job)
        async with self._lock_of(video.id):
            await self._publish(await self._begin(token, worker, request, before, begun))

    async def publish_first(self, token: LeaseToken, worker: str, manifest: Manifest) -> None:
        """Publish a quality of a running job, unless a ladder is published; raises as `publish`."""
        request = CompleteRequest(instance=token.instance, epoch=token.epoch, manifest=manifest)
        begun = time.monotonic()
        video, _, _ = await self._db.read(video_of, token.job)
        async with self._lock_of(video.id):
            _, current, _ = await self._db.read(video_of, token.job)
            if current is None:
                begin = self._begin(token, worker, request, lambda _: None, begun, first=True)
                await self._publish(await begin)

    async def _publish(self, publication: Publication) -> None:
        failpoints.reach("publish.intended")
        try:
            warnings = await bounded_io.on_a_thread(partial(self._put_in_place, publication))
        except TqError:
            await self._undo(publication)
            raise
        except OSError as error:
            await self._undo(publication)
            raise outputs.unwritable(publication.place, error) from error
        except Exception as error:
            self._log.exception("publish failed", job=publication.row.job)
            await self._undo(publication)
            raise TqError(ErrorCode.INTERNAL, f"the ladder could not be published: {error!r}") from error
        if not await self._finish(publication, "publish", warnings):
            raise leases.lost(publication.token.job)

    async def finish_or_undo(self, token: LeaseToken) -> bool:
        """Finish or roll back an interrupted publish under this lease; return whether the job is done.

        Called before a lease is ended. Usually there is nothing to do.
        """
        row = await self._db.read(publications.of_job, token.job)
        if row is None:
            return False
        async with self._lock_of(row.video):
            # It may have been settled while this call waited for the lock.
            row = await self._db.read(publications.of_job, token.job)
            if row is None or not row.is_under(token):
                return False
            return await self._finish_or_undo(await self._db.read(load, row))

    async def _finish_or_undo(self, publication: Publication) -> bool:
        failpoints.reach("settle.begun")
        await asyncio.to_thread(self._db.require_lead)
        try:
            await self._bounded_io.require(publication.place.output_root)
            whole = await bounded_io.on_a_thread(partial(_point_if_whole, publication, self._db.require_lead))
        except (OSError, TqError) as error:
            self._log.warning("a publish cannot be finished", job=publication.row.job, error=str(error))
            whole = False
        if whole:
            return await self._finish(publication, "settle") and not publication.manifest.first
        await self._undo(publication, _INTERRUPTED)
        return False

    async def undo_leftovers(self) -> None:
        """Roll back publishes that could not be earlier, because their output was unavailable."""
        for row in await self._db.read(publications.abandoned):
            async with self._lock_of(row.video):
                if row == await self._db.read(publications.of_job, row.job):
                    await self._undo(await self._db.read(load, row), _INTERRUPTED)

    def _lock_of(self, video: int) -> asyncio.Lock:
        """The lock for changes to a video's folder."""
        lock = self._locks.get(video)
        if lock is None:
            lock = self._locks[video] = asyncio.Lock()
        return lock

    async def _begin(
        self,
        token: LeaseToken,
        worker: str,
        request: CompleteRequest,
        before: Callable[[Connection], None],
        begun: float,
        first: bool = False,
    ) -> Publication:
        video, current, number = await self._db.read(video_of, token.job)
        for stale in await self._db.read(publications.of_video, video.id):
            if not await self._undo(await self._db.read(load, stale), _INTERRUPTED):
                raise TqError(
                    ErrorCode.PUBLISH_FAILED,
                    f"the remains of an earlier publish in {_shown(place_of(video))} cannot be removed",
                )
        try:
            place, number = await bounded_io.on_a_thread(partial(self._find_room, video, current, number))
        except OSError as error:
            raise outputs.unwritable(place_of(video), error) from error
        manifest = request.manifest.model_copy(update={"first": first})
        row = PublicationRow(
            job=token.job,
            epoch=token.epoch,
            instance=token.instance,
            worker=worker,
            video=video.id,
            number=number,
            slug=place.slug,
            manifest=manifest.model_dump_json(),
            full_hash=request.full_hash,
        )
        publication = Publication(row, video, current, manifest, begun)
        _require_something(publication)

        def write(db: Connection) -> bool:
            before(db)
            return intend(db, publication)

        if not await self._db.write(write):
            raise leases.lost(token.job)
        return publication

    def _find_room(self, video: VideoRow, current: GenerationRow | None, number: int) -> tuple[Place, int]:
        if not self._workspace.is_there(video.output_root):
            # The segments were written there, so its disk must be unmounted now.
            raise TqError(ErrorCode.OUTPUT_UNAVAILABLE, f"{_shown(place_of(video))} is missing")
        self._workspace.require_unshared(video.output_root)
        owner = f"{self._workspace.uuid} {video.id}"
        place = outputs.own(place_of(video), owner, current.number if current else None)
        return place, outputs.first_free(place, number)

    def _put_in_place(self, publication: Publication) -> list[JobWarning]:
        with (
            self._workspace.hold(publication.video.output_root) as work_dir,
            publication.place.hold() as place,
        ):
            return self._put_into(place, work_dir, publication)

    def _put_into(self, place: Place, work_dir: Path, publication: Publication) -> list[JobWarning]:
        number, rows, manifest = publication.row.number, publication.rows, publication.manifest
        warnings: list[JobWarning] = []

        def add_files(folder: Path) -> None:
            if manifest.files:
                warnings.extend(self._make_files(folder, publication))
                failpoints.reach("publish.files_made")

        outputs.sweep(place)
        outputs.build(work_dir, place, number, manifest, rows, publication.kept_from(place), add_files)
        failpoints.reach("publish.built")
        self._db.require_lead()
        outputs.rename_to_final(place, number)
        failpoints.reach("publish.renamed")
        master.write_next(place, number, rows)
        failpoints.reach("publish.master_written")
        _require_rules(place.next_master)
        _require_same_source(publication)
        self._db.require_lead()
        master.replace(place, number)
        failpoints.reach("publish.pointed")
        return warnings

    async def _finish(
        self, publication: Publication, phase: str, warnings: Sequence[JobWarning] = ()
    ) -> bool:
        """Record the published generation; False when the lease is lost."""
        video, row = publication.video, publication.row
        # The segments may be those of a later job, which another supervisor has started.
        await asyncio.to_thread(self._db.require_lead)
        try:
            # Before the job is recorded as done: the next job of this video must find an empty store.
            if not publication.manifest.first:
                await bounded_io.on_a_thread(partial(self._workspace.set_aside, video.output_root, video.id))
        except OSError as error:
            self._log.warning("segment store could not be set aside", video=video.id, error=str(error))
        failpoints.reach(f"{phase}.set_aside")
        folder = publication.place.generation(row.number)
        name = POSTER_NAME if await bounded_io.on_a_thread((folder / POSTER_NAME).is_file) else None
        wanted = publication.manifest.files
        files = await bounded_io.on_a_thread(partial(whole_files.listed, folder)) if wanted else ()
        url = bucket_url(self._home, video.output_root, row.slug)

        def write(db: Connection) -> bool:
            recorded = record(
                db,
                publication,
                poster=name,
                files=files,
                url=url,
                warnings=warnings,
                settled=phase == "settle",
            )
            failpoints.reach(f"{phase}.recording")
            return recorded

        if not await self._db.write(write):
            await self._undo(publication, "its job lost its lease")
            return False
        failpoints.reach(f"{phase}.recorded")
        held = self._running_jobs.jobs.get(row.job)
        if held is not None and held.token == publication.token and not publication.manifest.first:
            self._running_jobs.end(row.job)
        self._workspace.sweep_soon(video.output_root)
        return True

    async def _undo(self, publication: Publication, why: str | None = None) -> bool:
        """Roll back a publish. If that is not possible now, it stays in the database: False."""
        row = publication.row
        if not await self._db.read(generations.exists, row.video, row.number):
            try:
                await self._bounded_io.require(publication.place.output_root)
                await bounded_io.on_a_thread(partial(self._undo_files, publication))
            except OSError as error:
                self._log.warning("a publish cannot be undone yet", job=row.job, error=str(error))
                return False
        failpoints.reach("settle.undone")
        await self._db.write(forget, publication, why)
        return True

    def _undo_files(self, publication: Publication) -> None:
        place = publication.place
        if not place.folder.is_dir() and not self._workspace.is_there(publication.video.output_root):
            # The disk may be unmounted, with the files still on it.
            raise FileNotFoundError(f"{_shown(place)} is missing")
        self._db.require_lead()
        if not _is_overtaken(publication):
            outputs.undo(place, publication.row.number, publication.rows, publication.before)


def _shown(place: Place) -> str:
    return display(os.fsencode(place.folder))


def _point_if_whole(publication: Publication, require_lead: Callable[[], None]) -> bool:
    """Make the master name a generation that is complete; return whether it is published now."""
    number, rows = publication.row.number, publication.rows
    if _is_overtaken(publication):
        return False
    with publication.place.hold() as place:
        folder = place.generation(number)
        if place.building(number).exists() or any(outputs.torn(folder, rows)):
            return False
        if outputs.named(place) != number:
            _require_same_source(publication)
            master.write_next(place, number, rows)
            _require_rules(place.next_master)
            require_lead()
            master.replace(place, number)
    failpoints.reach("settle.pointed")
    return True


def _is_overtaken(publication: Publication) -> bool:
    """Whether the master names a generation unknown to this database, which was restored from a backup: the
    publish was finished or rolled back long ago."""
    before = publication.before
    known = {None, publication.row.number, before.number if before else None}
    return outputs.named(publication.place) not in known


def _require_something(publication: Publication) -> None:
    there = {row.name for row in publication.rows}
    missing = sorted(set(publication.manifest.keep) - there)
    if missing:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{missing[0]} cannot be kept: it is not published")
    if all(is_of_track(name) for name in there):
        raise TqError(ErrorCode.OUTPUT_INVALID, "there is no quality to publish")


def _require_rules(written: Path) -> None:
    """Check a ladder that is complete but for the name of its master playlist against Apple's rules.

    Raises:
        TqError: OUTPUT_INVALID, with the violated rule.
        OSError: from the file system.
    """
    if violated := apple.violation(apple.check(written)):
        raise TqError(ErrorCode.OUTPUT_INVALID, violated)


def _require_same_source(publication: Publication) -> None:
    """Check that the source was not changed since it was encoded: by its whole content if it was touched.

    A source that is missing or unreadable passes: the ladder is still the newest.

    Raises:
        TqError: SOURCE_CHANGED.
    """
    source, before, encoded = publication.video.source, publication.manifest.source, publication.row.full_hash
    if before is None:
        return
    try:
        now = source_file.state_of(source)
        if now == FileId(**before.model_dump()):
            return
        found = digest(source) if encoded is not None and now.size == before.size else None
    except TqError:
        return
    if found is None or (found.mtime_ns, found.full_hash) != (now.mtime_ns, encoded):
        name = display(os.path.basename(source))
        raise TqError(ErrorCode.SOURCE_CHANGED, f"{name} changed while its ladder was being published")
