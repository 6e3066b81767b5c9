"""Where unfinished work lies: on the output's file system, apart from what is published.

    OUT/.tqstudio/<store uuid>/segments/<video>/<rendition>/<stream_key>/
    OUT/.tqstudio/<store uuid>/scratch/<job>-<epoch>/
    OUT/.tqstudio/<store uuid>/trash/

Two homes may share an output: the uuid keeps their work apart. Two with one store, a restored backup beside
the database that it was made of, may not: the file `lock` in the work folder tells the second. What is not
needed any more loses its name in one step, by a rename into the trash, and its space when there is time.
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
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from tqstudio.engine.files import dir_fd as held
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.files.mounts import is_blind
from tqstudio.engine.host import home_lock
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import videos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Trigger
from tqstudio.paths import display

FOLDER = ".tqstudio"
_LOCK = "lock"
_UNUSED_S = 10.0
"""An output that is not worked on is unlocked after this time: a claim locks it first."""


@dataclass(slots=True)
class _Held:
    """The locked file of an output."""

    identity: home_lock.LockOwner
    descriptor: int
    asked_at: float
    """When somebody wanted it locked last; seconds of `time.monotonic`."""


class Workspace:
    """The work folders of one database."""

    def __init__(
        self, db: Database, store_uuid: str, bounded_io: BoundedIO, *, allow_shared: bool = False
    ) -> None:
        self._db, self._uuid, self._bounded_io = db, store_uuid, bounded_io
        self._allow_shared = allow_shared
        self._sinks: dict[bytes, Path] = {}
        self._starting_over: dict[int, asyncio.Task[None]] = {}
        self._locking = threading.Lock()
        self._locks: dict[bytes, _Held] = {}
        self._log = structlog.get_logger()

    @property
    def uuid(self) -> str:
        return self._uuid

    def sink(self, output_root: bytes) -> Path:
        """The folder below an output that workers write to."""
        # Every claim asks; outputs are few.
        sink = self._sinks.get(output_root)
        if sink is None:
            sink = self._sinks[output_root] = Path(os.fsdecode(output_root)) / FOLDER / self._uuid
        return sink

    def hold(self, output_root: bytes, *names: str) -> AbstractContextManager[Path]:
        """The same, or a folder in it, held open as of `held`: for whoever writes or removes there."""
        return held.hold(Path(os.fsdecode(output_root)), FOLDER, self._uuid, *names)

    def require_unshared(self, output_root: bytes) -> None:
        """
        Raises:
            TqError: OUTPUT_SHARED when other users may write to an output, unless a setting allows that.
            OSError: it cannot be looked at.
        """
        if not self._allow_shared:
            require_unshared(output_root)

    def is_there(self, output_root: bytes) -> bool:
        """Whether the output can be looked at: a disk that is not mounted has no work folder."""
        return self.sink(output_root).is_dir()

    # Keeping other supervisors out

    def require_lock(self, output_root: bytes) -> None:
        """Lock the work folder of an output as soon as there is one.

        Not on network file systems: where one does not answer any more, a process that has a file open there
        cannot end.

        Raises:
            TqError: OUTPUT_IN_USE when another supervisor has locked it.
        """
        # Only what cannot hang is done under the mutex: one disk must not hold up the others.
        try:
            if is_blind(os.path.realpath(output_root)):
                return
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with self.hold(output_root) as sink:
                descriptor = os.open(sink / _LOCK, flags, 0o600)
        except OSError:
            # There is none, or it takes no file: nobody works in it.
            self._unlock(output_root)
            return
        found = os.fstat(descriptor)
        now, identity, replaced = time.monotonic(), (found.st_dev, found.st_ino), None
        with self._locking:
            # An output may have two names.
            ours = next((held for held in self._locks.values() if held.identity == identity), None)
            is_taken = ours is not None or _locks(descriptor)
            if ours is not None:
                ours.asked_at = now
            elif is_taken:
                replaced = self._locks.get(output_root)
                self._locks[output_root] = _Held(identity, descriptor, now)
        if ours is not None or not is_taken:
            os.close(descriptor)
        if replaced is not None:
            os.close(replaced.descriptor)
        if not is_taken:
            raise TqError(
                ErrorCode.OUTPUT_IN_USE,
                "another supervisor with a copy of this database (a restored backup?) works in"
                f" {display(output_root)}",
            )

    def locked(self) -> set[bytes]:
        """The outputs that are locked."""
        return set(self._locks)

    def unlock_unused(self, output_root: bytes) -> None:
        """Unlock an output where nothing unfinished lies, so that its disk can be unmounted."""
        ours = self._locks.get(output_root)
        if ours and time.monotonic() - ours.asked_at > _UNUSED_S and not any(self.stores(output_root)):
            self._unlock(output_root)

    def unlock(self) -> None:
        """Let others have every output: the supervisor ends."""
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
        yield from _numbered(self.sink(output_root) / "segments")

    def set_aside(self, output_root: bytes, video: int) -> bool:
        """Empty a video's segment store at once; `sweep` frees the space. False when it was empty.

        Raises:
            OSError: it stays as it is.
        """
        try:
            with self.hold(output_root, "segments") as stores, self.hold(output_root) as sink:
                store = stores / str(video)
                if not store.exists():
                    return False
                (sink / "trash").mkdir(exist_ok=True)
                with self.hold(output_root, "trash") as trash:
                    store.rename(trash / uuid.uuid4().hex)
        except FileNotFoundError:
            return False
        return True

    def sweep(self, output_root: bytes) -> None:
        """Remove what was set aside; what resists is tried again the next time."""
        # The folder itself stays: somebody may be about to rename something into it.
        with contextlib.suppress(OSError), self.hold(output_root, "trash") as trash:
            for entry in list(trash.iterdir()):
                shutil.rmtree(entry, ignore_errors=True)

    def sweep_soon(self, output_root: bytes) -> None:
        """`sweep` without waiting for it."""
        asyncio.get_running_loop().run_in_executor(None, self.sweep, output_root)

    def discard(self, output_root: bytes, video: int) -> None:
        """Empty a video's segment store; one that cannot be emptied is only wasted space."""
        try:
            self.set_aside(output_root, video)
        except OSError as error:
            self._log.warning("a segment store stays", video=video, error=str(error))
        self.sweep(output_root)

    async def forget(self, job: int) -> None:
        """Remove the finished segments of a job that nobody works on."""
        facts = await self._db.read(job_facts, job)
        video = await self._db.read(videos.get, facts.video) if facts else None
        if video is not None:
            await asyncio.to_thread(self.discard, video.output_root, video.id)

    # Jobs that start over

    def hint(self, events: Iterable[EventRow]) -> None:
        """Something happened; a job that starts over need not wait for its turn to free its space."""
        for event in events:
            if event.trigger == Trigger.RESTART and event.job is not None:
                self._begin_to_start_over(event.job)

    async def start_over(self, job: int) -> None:
        """Remove what was made of a job before its restart, once; it must be done before anybody works on it.

        Raises:
            TqError: OUTPUT_GONE, or the database cannot be written; it is still owed then.
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
            try:
                await self._bounded_io.run(root, partial(self.set_aside, root, video.id))
            except NoAnswer as error:
                raise TqError(ErrorCode.OUTPUT_GONE, str(error.strerror)) from error
            except OSError as error:
                self._log.warning("a segment store stays", video=video.id, error=str(error))
            self.sweep_soon(root)
        await self._db.write(jobs.has_started_over, job)

    def _has_started_over(self, job: int, ended: asyncio.Task[None]) -> None:
        del self._starting_over[job]
        if not ended.cancelled() and (error := ended.exception()) is not None:
            self._log.warning("what was made before a restart stays for now", job=job, error=str(error))

    # Scratch directories

    def scratches(self, output_root: bytes, *, idle_s: float) -> Iterator[tuple[int, int, str]]:
        """Scratch directories in which nothing was made for so long: (job, epoch, name)."""
        before = time.time() - idle_s
        for job, folder in _numbered(self.sink(output_root) / "scratch"):
            epoch = folder.name.partition("-")[2]
            with contextlib.suppress(FileNotFoundError):
                if epoch.isdigit() and folder.stat().st_mtime < before:
                    yield job, int(epoch), folder.name

    def remove_scratch(self, output_root: bytes, name: str) -> None:
        """Remove a scratch directory as far as that can be done."""
        with contextlib.suppress(OSError), self.hold(output_root, "scratch") as scratches:
            shutil.rmtree(scratches / name, ignore_errors=True)


def require_unshared(output_root: bytes) -> None:
    """Refuse an output where another user could plant a link that leads what we write elsewhere.

    Raises:
        TqError: OUTPUT_SHARED.
        OSError: it cannot be looked at.
    """
    if who := held.shared_with(Path(os.fsdecode(output_root))):
        shown = display(output_root)
        raise TqError(
            ErrorCode.OUTPUT_SHARED,
            f"the output {shown} is not for your user alone: {who}",
            f"make it so (chown, chmod go-w {shlex.quote(shown)}), choose another output, or set"
            " allow_shared_output = true in config.toml and restart",
        )


def _locks(descriptor: int) -> bool:
    """Take the lock of a work folder; where locks do not work it counts as taken."""
    try:
        return home_lock.taken(descriptor)
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
