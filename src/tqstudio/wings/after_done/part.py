"""Moves or deletes sources whose ladder is published, where the rule of their drop folder says so.

| step | state after a kill | the next run |
|---|---|---|
| the job is recorded as done, the removal as due | the source is in its place | begins |
| ladder and source are checked | the same | begins |
| the removal is recorded as begun, with the target of a move | the same | begins again, with that target |
| the source is moved or deleted | it is at the target, or gone | records it |
| the removal is recorded and ended | | |

A source that cannot be moved or deleted stays, with a warning on its job.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import structlog

from tqstudio.engine import outputs
from tqstudio.engine.files import dir_fd, durable
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.files.mounts import is_within
from tqstudio.engine.host import failpoints
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.media.source.fingerprint import HashingStopped, full_hash
from tqstudio.engine.outputs import relocation
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.library import generations, removals, videos
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.engine.store.library.removals import MAX_INODE, Removal
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.errors import UNWRITTEN, TqError, WarningCode
from tqstudio.events import EventKind
from tqstudio.paths import display

_PAGE = 50
_FINAL = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
"""Errors of sources that stay where they are; after any other it is tried again."""
_LACKING = frozenset(
    (
        WarningCode.STREAMS_LEFT_OUT,
        WarningCode.RENDITION_LEFT_OUT,
        WarningCode.AUDIO_UNREADABLE,
        WarningCode.AUDIO_CUT,
        WarningCode.SOURCE_DAMAGED,
        WarningCode.SOURCE_INCOMPLETE,
    )
)
"""A ladder with these warnings lacks something that only the source has."""
_RETRY_S = 60.0


class _Kept(Exception):
    """The source stays where it is; with the reason, unless it is no longer the source."""


class AfterDone(Part):
    """Moves and deletes sources, one after the other, in a task of its own."""

    triggers = (EventKind.PUBLISHED, EventKind.FOLDER_CHANGED)

    def __init__(self, db: Database, bounded_io: BoundedIO, on_left: Callable[[bytes], None]) -> None:
        self._db, self._bounded_io, self._on_left = db, bounded_io, on_left
        self.every = (Periodic(_RETRY_S, self.retry, at_once=True),)
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._ending = threading.Event()
        self._log = structlog.get_logger()

    def on_events(self, _events: Sequence[EventRow]) -> None:
        """Look for due removals when a ladder was published or a rule has changed."""
        self._wake()

    async def retry(self) -> None:
        """Look for removals that are due, or could not be done earlier."""
        self._wake()

    async def stop(self) -> None:
        """End after the present step; a copy is abandoned."""
        self._ending.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _wake(self) -> None:
        self._wanted = True
        if not self._ending.is_set() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work(), name="after done")

    async def _work(self) -> None:
        try:
            while self._wanted and not self._ending.is_set():
                self._wanted = False
                await self._remove_all()
        except TqError as error:
            if error.code not in UNWRITTEN:
                self._log.exception("sources could not be moved or deleted")
        except Exception:
            self._log.exception("sources could not be moved or deleted")

    async def _remove_all(self) -> None:
        after, stuck = 0, set[int | None]()
        while rows := await self._db.read(removals.due, after=after, limit=_PAGE):
            for row in rows:
                if self._ending.is_set():
                    return
                if row.folder not in stuck and not await self._remove(row):
                    # Most probably the others fail for the same reason.
                    stuck.add(row.folder)
            after = rows[-1].job

    async def _remove(self, row: Removal) -> bool:
        """Move or delete a source; False if that has to wait for something other than its jobs."""
        try:
            await self._attempt(row)
        except _Kept as kept:
            await self._db.write(_keep, row, str(kept))
        except HashingStopped:
            return False
        except (OSError, TqError) as error:
            if isinstance(error, TqError) and error.code in UNWRITTEN:
                raise
            verb = "deleted" if row.after_done == "delete" else "moved"
            what = error.message if isinstance(error, TqError) else error.strerror or error
            why = f"the source could not be {verb}: {what}"
            self._log.warning("a source stays", job=row.job, error=str(error))
            if not isinstance(error, OSError) or error.errno not in _FINAL:
                await self._db.write(
                    removals.record_failure, row, f"{why}; retried every minute", now=now_us()
                )
                return False
            await self._db.write(_keep, row, why)
        except Exception:
            self._log.exception("a source could not be moved or deleted", job=row.job)
        return True

    async def _attempt(self, row: Removal) -> None:
        """Move or delete a source, or record what an earlier run did.

        Raises:
            _Kept: it stays.
            HashingStopped: at shutdown.
            OSError, TqError: of a file system.
        """
        video = await self._db.read(videos.get, row.video)
        generation = await self._db.read(generations.current, row.video)
        folder, done_dir = row.folder_path or os.path.dirname(row.source), row.done_dir or row.source
        for place in (folder, done_dir, *([video.output_root] if video else [])):
            await self._bounded_io.require(Path(os.fsdecode(place)))
        if await asyncio.to_thread(_stat, row.source) is None:
            await self._found_gone(row)
            return
        if video is None or generation is None or row.folder_path is None or row.after_done == "keep":
            raise _Kept
        await asyncio.to_thread(_require_source, row)
        await asyncio.to_thread(_require_ladder, row, video, generation, self._ending.is_set)
        await (self._move(row) if row.after_done == "move" else self._delete(row))

    async def _found_gone(self, row: Removal) -> None:
        """Record what an earlier run did before it was killed."""
        if row.begun_at is None:
            raise _Kept
        if row.target is None:
            await self._db.write(removals.deleted, row, now=now_us())
            return
        moved = await asyncio.to_thread(_stat, row.target)
        if moved is None or moved.st_size != row.size:
            raise _Kept
        await self._moved(row, row.target, moved)

    async def _delete(self, row: Removal) -> None:
        if not await self._db.write(removals.begin, row, None, now=now_us()):
            return
        failpoints.reach("removal.begun")
        await asyncio.to_thread(_unlink, row)
        failpoints.reach("removal.removed")
        await self._db.write(removals.deleted, row, now=now_us())
        self._on_left(row.source)

    async def _move(self, row: Removal) -> None:
        for target in _targets(row):
            if target != row.target and (
                await asyncio.to_thread(os.path.lexists, target)
                or await self._db.read(removals.is_taken, target)
            ):
                continue
            if not await self._db.write(removals.begin, row, target, now=now_us()):
                return
            failpoints.reach("removal.begun")
            with contextlib.suppress(FileExistsError):
                moved = await asyncio.to_thread(_relocate, row, target, self._ending.is_set)
                failpoints.reach("removal.removed")
                await self._moved(row, target, moved)
                return

    async def _moved(self, row: Removal, target: bytes, found: os.stat_result) -> None:
        await self._db.write(removals.moved, row, target, found, now=now_us())
        self._on_left(row.source)


def _keep(db: Connection, row: Removal, why: str) -> None:
    if why:
        removals.record_failure(db, row, why, now=now_us())
    removals.forget(db, row)


def _stat(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextlib.contextmanager
def _held(root: bytes, path: bytes, *, make: bool = False) -> Iterator[Path]:
    """A file below a folder, with the folders above it kept open, so that no link leads elsewhere.

    Args:
        make: create missing folders, which then belong to us.
    """
    *folders, name = os.fsdecode(os.path.relpath(path, root)).split("/")
    with dir_fd.hold(Path(os.fsdecode(root)), *folders, make=make, any_owner=not make) as folder:
        yield folder / name


def _require_source(row: Removal) -> None:
    """Check that a source is the file that was encoded, and that no process writes to it.

    Raises:
        _Kept: it is another file now.
        BlockingIOError: a process has it open for writing.
    """
    if os.path.relpath(row.source, row.folder_path).split(b"/")[0] == b"..":
        raise _Kept  # it was moved out of its folder while its job waited
    with _held(row.folder_path or b"/", row.source) as source:
        _require_same(row, source)
        found = source.lstat()
    if open_for_writing({(found.st_dev, found.st_ino): row.source}):
        raise BlockingIOError(errno.EAGAIN, "a process has it open for writing")


def _require_same(row: Removal, source: Path) -> None:
    found = source.lstat()
    same = (row.size, row.inode) == (found.st_size, found.st_ino & MAX_INODE)
    if same and (row.mtime_ns, row.ctime_ns) != (found.st_mtime_ns, found.st_ctime_ns):
        # Its mode, owner, names or time have changed, or its content by a program that restored its time.
        same = full_hash(os.fsencode(source)) == row.full_hash
    if not same or not stat.S_ISREG(found.st_mode):
        raise _Kept


def _require_ladder(
    row: Removal, video: VideoRow, generation: GenerationRow, stop: Callable[[], bool]
) -> None:
    """Check that the published ladder is complete, before its source is deleted byte by byte.

    Raises:
        _Kept: it is not.
        HashingStopped: by `stop`.
    """
    place = place_of(video)
    if is_within(os.path.realpath(video.output_root), os.path.realpath(row.folder_path or b"/")):
        raise _Kept("the source was kept: the output is inside the drop folder")
    whole = outputs.intact_with_files(place, generation)
    if row.after_done == "delete":
        if lacking := sorted(row.warnings & _LACKING):
            raise _Kept(f"the source was not deleted: the ladder lacks something of it ({lacking[0]})")
        whole = whole and not outputs.damaged(place, generation, stop)
    if not whole:
        raise _Kept("the source was kept: the published ladder is no longer complete")


def _unlink(row: Removal) -> None:
    with _held(row.folder_path or b"/", row.source) as source:
        _require_same(row, source)
        source.unlink()
        durable.sync_folder(source.parent)


def _targets(row: Removal) -> Iterator[bytes]:
    """Where a source may be moved to, best first; a name that is taken gets a number."""
    done_dir = row.done_dir or b"/"
    if row.target is not None and is_within(row.target, done_dir):
        yield row.target
    wanted = os.path.join(done_dir, os.path.relpath(row.source, row.folder_path))
    yield wanted
    stem, extension = os.path.splitext(wanted)
    yield from (b"%b-%d%b" % (stem, number, extension) for number in itertools.count(2))


def _relocate(row: Removal, target: bytes, stop: Callable[[], bool]) -> os.stat_result:
    """Move a source, or finish an earlier move.

    Raises:
        FileExistsError: another file is at the target.
    """
    done_dir = row.done_dir or b"/"
    if not os.path.isdir(done_dir):
        raise FileNotFoundError(errno.ENOENT, f"the folder {display(done_dir)} is missing")
    with (
        _held(row.folder_path or b"/", row.source) as source,
        _held(done_dir, target, make=True) as new,
    ):
        _require_same(row, source)
        if target == row.target and new.exists() and new.stat().st_size:
            if full_hash(os.fsencode(new)) != full_hash(os.fsencode(source)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
            source.unlink()
            durable.sync_folder(source.parent)
        else:
            copy = new.with_name(f".tqstudio-{row.job}.part")
            relocation.move(source, new, copy, require=partial(_require_same, row, source), stop=stop)
        return new.lstat()
