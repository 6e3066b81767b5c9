"""Manages the folders of unfinished work on the output's file system.

    OUT/.tqstudio/<store uuid>/segments/<video>/<rendition>/<stream_key>/
    OUT/.tqstudio/<store uuid>/scratch/<job>-<epoch>/, for a range with -<first segment>-<pid> after it
    OUT/.tqstudio/<store uuid>/trash/

Two homes may share an output, because the uuid separates their work. Two copies of one database, such as a
restored backup, may not: the file `lock` in the work folder prevents that. Removed work is first renamed into
the trash, in one step, and deleted later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from tqstudio.engine.files import bounded_io, dir_fd
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.mounts import misses_inotify
from tqstudio.engine.host import home_lock
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.assignments import assignment_of
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import videos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.paths import display

FOLDER = dir_fd.WORK
RECEIVED_NAME = ".received"
"""Marks a segment store of which parts come from another machine."""
_LOCK = "lock"
_UNUSED_S = 10.0
"""An unused output is unlocked after this time; a claim locks it again."""


@dataclass(slots=True)
class _OutputLock:
    """The lock of an output."""

    identity: home_lock.FileIdentity
    descriptor: int
    requested_at: float
    """When it was last requested; seconds of `time.monotonic`."""


class Workspace(Part):
    """The work folders of one database."""

    triggers = (EventKind.RESTART,)

    def __init__(
        self, db: Database, store_uuid: str, bounded_io: BoundedIO, *, allow_shared: bool = False
    ) -> None:
        self._db, self._uuid, self._bounded_io = db, store_uuid, bounded_io
        self._allow_shared = allow_shared
        self._work_dirs: dict[bytes, Path] = {}
        self._starting_over: dict[int, asyncio.Task[None]] = {}
        self._locking = threading.Lock()
        self._locks: dict[bytes, _OutputLock] = {}
        self._log = structlog.get_logger()

    @property
    def uuid(self) -> str:
        return self._uuid

    def work_dir(self, output_root: bytes) -> Path:
        """The folder below an output that workers write to."""
        # Cached, because every claim needs it.
        work_dir = self._work_dirs.get(output_root)
        if work_dir is None:
            work_dir = self._work_dirs[output_root] = Path(os.fsdecode(output_root)) / FOLDER / self._uuid
        return work_dir

    def hold(self, output_root: bytes, *names: str) -> AbstractContextManager[Path]:
        """Open that folder, or one in it, for writing; see `dir_fd.hold`."""
        return dir_fd.hold(Path(os.fsdecode(output_root)), FOLDER, self._uuid, *names)

    def require_unshared(self, output_root: bytes) -> None:
        """Refuse an output that other users may write to, unless a setting allows it.

        Raises:
            TqError: OUTPUT_SHARED.
            OSError: it cannot be checked.
        """
        if not self._allow_shared:
            require_unshared(output_root)

    def is_there(self, output_root: bytes) -> bool:
        """Whether the work folder exists, which it does not if the disk is unmounted."""
        return self.work_dir(output_root).is_dir()

    # Locks against other supervisors

    def require_lock(self, output_root: bytes) -> None:
        """Lock the work folder of an output, if it exists.

        Not on network file systems: if one stops answering, a process with an open file there cannot exit.

        Raises:
            TqError: OUTPUT_IN_USE when another supervisor has locked it.
        """
        # Calls that may hang are made outside the mutex, so that one disk does not block the others.
        try:
            if misses_inotify(os.path.realpath(output_root)):
                return
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with self.hold(output_root) as work_dir:
                descriptor = os.open(work_dir / _LOCK, flags, 0o600)
        except OSError:
            # It does not exist or is not writable, so it cannot be in use.
            self._unlock(output_root)
            return
        found = os.fstat(descriptor)
        now, identity, replaced = time.monotonic(), (found.st_dev, found.st_ino), None
        with self._locking:
            # An output may have two paths.
            ours = next((lock for lock in self._locks.values() if lock.identity == identity), None)
            is_taken = ours is not None or _try_lock(descriptor)
            if ours is not None:
                ours.requested_at = now
            elif is_taken:
                replaced = self._locks.get(output_root)
                self._locks[output_root] = _OutputLock(identity, descriptor, now)
        if ours is not None or not is_taken:
            os.close(descriptor)
        if replaced is not None:
            os.close(replaced.descriptor)
        if not is_taken:
            raise TqError(
                ErrorCode.OUTPUT_IN_USE,
                "another supervisor of this database, or of a copy (a restored backup?), uses"
                f" {display(output_root)}",
            )

    def locked(self) -> set[bytes]:
        """The outputs that are locked."""
        return set(self._locks)

    def unlock_unused(self, output_root: bytes) -> None:
        """Unlock an output without unfinished work, so that its disk can be unmounted."""
        ours = self._locks.get(output_root)
        if ours and time.monotonic() - ours.requested_at > _UNUSED_S and not any(self.stores(output_root)):
            self._unlock(output_root)

    def unlock(self) -> None:
        """Unlock every output, at shutdown."""
        for output_root in self.locked():
            self._unlock(output_root)

    def _unlock(self, output_root: bytes) -> None:
        with self._locking:
            ours = self._locks.pop(output_root, None)
        if ours is not None:
            os.close(ours.descriptor)

    # A video's segment store

    def stores(self, output_root: bytes) -> Iterator[tuple[int, Path]]:
        """The segment stores below an output: (video, folder)."""
        yield from _numbered(self.work_dir(output_root) / "segments")

    async def has_received(self, token: LeaseToken) -> bool:
        """Whether segments of a job come from another machine."""
        job = await self._db.read(assignment_of, token.job)
        facts = await self._db.read(job_facts, token.job)
        assert facts is not None, "a lease is of a job"
        store = self.work_dir(job.output_root) / "segments" / str(facts.video)
        return await bounded_io.on_a_thread((store / RECEIVED_NAME).exists)

    def set_aside(self, output_root: bytes, video: int) -> bool:
        """Empty a video's segment store at once; `sweep` frees the space. False when it was empty.

        Raises:
            OSError: it could not be emptied.
        """
        try:
            with self.hold(output_root, "segments") as stores, self.hold(output_root) as work_dir:
                store = stores / str(video)
                if not store.exists():
                    return False
                (work_dir / "trash").mkdir(exist_ok=True)
                with self.hold(output_root, "trash") as trash:
                    store.rename(trash / uuid.uuid4().hex)
        except FileNotFoundError:
            return False
        return True

    def sweep(self, output_root: bytes) -> None:
        """Empty the trash; files that cannot be removed are retried the next time."""
        # The folder itself stays: another thread may be about to rename something into it.
        with contextlib.suppress(OSError), self.hold(output_root, "trash") as trash:
            for entry in list(trash.iterdir()):
                shutil.rmtree(entry, ignore_errors=True)

    def sweep_soon(self, output_root: bytes) -> None:
        """Run `sweep` in the background."""
        asyncio.get_running_loop().run_in_executor(None, self.sweep, output_root)

    def discard(self, output_root: bytes, video: int) -> None:
        """Empty a video's segment store; errors are only logged."""
        try:
            self.set_aside(output_root, video)
        except OSError as error:
            self._log.warning("segment store not removed", video=video, error=str(error))
        self.sweep(output_root)

    async def forget(self, job: int) -> None:
        """Remove the finished segments of a job that is not running."""
        facts = await self._db.read(job_facts, job)
        video = await self._db.read(videos.get, facts.video) if facts else None
        if video is not None:
            await asyncio.to_thread(self.discard, video.output_root, video.id)

    # Restarted jobs

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Free the space of a restarted job at once, before it is claimed."""
        for event in events:
            if event.job is not None:
                self._begin_to_start_over(event.job)

    async def start_over(self, job: int) -> None:
        """Remove a job's work from before its restart, once; must finish before a worker gets the job.

        Raises:
            TqError: OUTPUT_UNAVAILABLE, or the database cannot be written; call it again later.
        """
        await asyncio.shield(self._begin_to_start_over(job))

    def _begin_to_start_over(self, job: int) -> asyncio.Task[None]:
        task = self._starting_over.get(job)
        if task is None:
            task = self._starting_over[job] = asyncio.create_task(self._start_over(job))
            task.add_done_callback(lambda ended: self._has_started_over(job, ended))
        return task

    async def _start_over(self, job: int) -> None:
        if not await self._db.read(jobs.starts_over, job):
            return
        facts = await self._db.read(job_facts, job)
        video = await self._db.read(videos.get, facts.video) if facts else None
        if video is not None:
            root = video.output_root
            await asyncio.to_thread(self._db.require_lead)
            try:
                await self._bounded_io.run(root, partial(self.set_aside, root, video.id))
            except NoAnswer as error:
                raise TqError(ErrorCode.OUTPUT_UNAVAILABLE, str(error.strerror)) from error
            except OSError as error:
                self._log.warning("segment store not removed", video=video.id, error=str(error))
            self.sweep_soon(root)
        await self._db.write(jobs.has_started_over, job)

    def _has_started_over(self, job: int, ended: asyncio.Task[None]) -> None:
        del self._starting_over[job]
        if not ended.cancelled() and (error := ended.exception()) is not None:
            self._log.warning("work from before a restart not removed yet", job=job, error=str(error))

    # Scratch directories

    def scratches(self, output_root: bytes, *, idle_s: float) -> Iterator[tuple[int, int, str]]:
        """Scratch directories without changes for `idle_s`: (job, epoch, name)."""
        before = time.time() - idle_s
        for job, folder in _numbered(self.work_dir(output_root) / "scratch"):
            epoch = folder.name.partition("-")[2].partition("-")[0]
            with contextlib.suppress(FileNotFoundError):
                if epoch.isdigit() and folder.stat().st_mtime < before:
                    yield job, int(epoch), folder.name

    def remove_scratch(self, output_root: bytes, name: str) -> None:
        """Remove a scratch directory as far as possible."""
        with contextlib.suppress(OSError), self.hold(output_root, "scratch") as scratches:
            shutil.rmtree(scratches / name, ignore_errors=True)


def require_unshared(output_root: bytes) -> None:
    """Refuse an output where another user could plant a link that redirects our files.

    Raises:
        TqError: OUTPUT_SHARED.
        OSError: it cannot be checked.
    """
    if reason := dir_fd.shared_with(Path(os.fsdecode(output_root))):
        shown = display(output_root)
        raise TqError(
            ErrorCode.OUTPUT_SHARED,
            f"other users may write to the output {shown}: {reason}",
            f"change that (chown, chmod go-w {shlex.quote(shown)}), choose another output, or set"
            " allow_shared_output = true in config.toml and restart",
        )


def _try_lock(descriptor: int) -> bool:
    """Lock a work folder; a file system without locks counts as success."""
    try:
        return home_lock.try_lock(descriptor)
    except OSError:
        return True


def _numbered(root: Path) -> Iterator[tuple[int, Path]]:
    """The folders in `root` whose names begin with a number."""
    try:
        entries = sorted(root.iterdir())
    except OSError:
        return
    for entry in entries:
        number = entry.name.partition("-")[0]
        if number.isdigit() and entry.is_dir():
            yield int(number), entry
