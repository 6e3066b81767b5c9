"""Watches one drop folder: scans it, waits for its files to be complete, and offers or skips them."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

import structlog

from tqstudio.engine.files.mounts import misses_inotify
from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.intake import problems
from tqstudio.engine.intake.file_states import FileStates
from tqstudio.engine.intake.hints import Hints
from tqstudio.engine.intake.ignore_files import IGNORE_NAME
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.intake.rules import Rules
from tqstudio.engine.intake.scan import Findings, Scanner, Seen
from tqstudio.engine.intake.settling import FileKey, FileStat, Settling, Stamp
from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import Digest, HashingStopped, NotHashed
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import Problem, TqError
from tqstudio.paths import display

Offer = Callable[[FolderRow, Mapping[bytes, Digest | None]], Awaitable[Sequence[Exception | None]]]
"""Queues files, with the digests of those for which an earlier call returned `NotHashed`; returns for each
why it is not queued."""
Known = Callable[[FolderRow], Awaitable[Mapping[bytes, Stamp]]]
_T = TypeVar("_T")

POLL_S = 5.0
"""Interval of scans if inotify does not work, or the folder is missing."""

_MIN_INTERVAL_S = 0.2
"""Minimum between two scans: removing a tree of folders requests a thousand."""

_POLL_SHARE = 10
"""Polling uses at most 1/N of the time, to spare slow mounts."""

_IDLE_SHARE = 200
"""Scans of a watched folder use at most 1/N of a processor core, however large it is."""

_TOGETHER = 500
"""Files that are offered at once; the others are checked again afterwards, because they may have changed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of a folder, for display."""

    settling: int
    """Files that are not complete yet."""
    checking: int
    """Files being hashed completely, because they have a new modification time but may be unchanged."""
    skipped: tuple[tuple[str, Problem], ...]
    """Relative names of skipped files, and why."""
    watch: Literal["inotify", "polling"]
    problem: Problem | None


class FolderWatcher:
    """Watches one folder while its task runs; everything but `_on_thread` runs in the event loop.

    Rounds run one after another, so that there are never two scans of the folder at a time. The interval of
    the scans depends on what the last one cost; the scheduler requests those that are due.
    """

    def __init__(
        self,
        row: FolderRow,
        *,
        settle_s: float,
        rescan_s: float,
        include_temporary_files: bool,
        excluded: Collection[bytes],
        offer: Offer,
        known: Known,
    ) -> None:
        self.row = row
        self._offer = offer
        self._known = known
        self._settling = Settling(settle_s)
        self._states = FileStates(row.path)
        self._halt = threading.Event()
        self._scanner = Scanner(
            row.path,
            Rules(row.patterns, row.exclude, sound=row.audio == "encode", bins=include_temporary_files),
            recursive=row.recursive,
            excluded=excluded,
            is_done=self._states.is_done,
            halt=self._halt,
        )
        self._thread = ThreadPoolExecutor(1, f"intake-{row.id}")
        self._reader = ThreadPoolExecutor(1, f"check-{row.id}")
        self._task: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._checks: dict[bytes, FileStat] = {}
        """Files to be hashed, with their state when offered; the first one is being read."""
        self._digests: dict[bytes, Digest] = {}
        """Digests of files that were hashed and are to be offered again."""

        self._wake = asyncio.Event()
        self._hints = Hints(
            row.path, recursive=row.recursive, matters=self._scanner.concerns, wake=self._wake.set
        )
        self._informed = False
        self._reopened: set[bytes] = set()
        """Since the last query of the database."""

        self._rescan_s = rescan_s
        self._scan_at = 0.0
        """When the next scan is due, by the monotonic clock; infinite while one runs."""
        self._reopens = True
        """Whether the next scan opens the watch again, which costs more than the scan of a small folder."""
        self._watched: FileKey | None = None
        """The directory that the watch was opened for."""
        self._earliest_scan = 0.0
        self._scan_since: float | None = None

        self._polls = row.watch == "polling"
        """inotify is not used, because it does not report all changes here."""
        self._limit: int | None = None
        """The errno for which inotify cannot watch the whole folder."""
        self._problem: Problem | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"intake of folder {self.row.id}")

    async def stop(self) -> None:
        """Stop watching, without waiting for a scan that hangs on a dead mount."""
        self._halt.set()
        tasks = {task for task in (self._task, self._checking) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._thread.submit(self._hints.close)
        self._thread.shutdown(wait=False)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def rescan_soon(self) -> None:
        self._scan_at, self._reopens = 0.0, True
        self._wake.set()

    def request_due_scan(self) -> None:
        if time.monotonic() >= self._scan_at:
            self._wake.set()

    def look_again(self, path: bytes) -> None:
        """Offer this file again, now or when it exists: the database no longer has its stored state."""
        self._reopened.add(path)
        self._states.reopen(path)
        self._hints.add(path)

    def set_excluded(self, excluded: Collection[bytes]) -> None:
        """Change which folders below this one are not part of it."""
        if set(excluded) != set(self._scanner.excluded):
            self._scanner.excluded = excluded
            self.rescan_soon()

    def state(self) -> FolderState:
        problem = self._problem
        if self._scan_since is not None and time.monotonic() - self._scan_since > problems.SLOW_S:
            problem = problems.no_answer(self.row.path)
        elif problem is None and self._limit is not None:
            problem = problems.no_room(self._limit, self.row.path)
        return FolderState(
            settling=len(self._settling),
            checking=len(self._checks),
            skipped=self._states.skipped(),
            watch="polling" if self._is_polling() else "inotify",
            problem=problem,
        )

    def _is_polling(self) -> bool:
        return self._polls or self._limit is not None

    # Rounds.

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                _log.exception("scan of a drop folder failed", action="intake", folder=self.row.id)
                self._schedule_rescan(POLL_S)
                self._reopens = True
                # The next round may be due at once.
                await asyncio.sleep(_MIN_INTERVAL_S)
            await self._pause()

    async def _pause(self) -> None:
        """Sleep until a hint or a request comes, or the next file or a requested scan is due."""
        due = self._settling.next_due()
        if self._scan_at <= time.monotonic():
            due = min(due, self._earliest_scan)
        await wait_until_set(self._wake, max(0.0, due - time.monotonic()))
        self._wake.clear()

    async def _round(self) -> None:
        now = time.monotonic()
        hinted = self._hints.take()
        self._reopens |= hinted.rescan
        if hinted.rescan or any(os.path.basename(path) == IGNORE_NAME for path in hinted.files):
            self._scan_at = now
        if now >= max(self._scan_at, self._earliest_scan):
            findings = await self._scan_all()
        else:
            paths = hinted.files.union(self._settling.due(now)[:_TOGETHER])
            if not paths:
                return
            findings = await self._scan_some(paths)
        await self._offer_settled(self._settle(findings.files, hinted.arrived))

    async def _scan_some(self, paths: set[bytes]) -> Findings:
        findings = await self._on_thread(lambda: self._scanner.part(sorted(paths)))
        missing = paths - findings.files.keys()
        for path in missing:
            self._settling.forget(path)
            self._digests.pop(path, None)
        self._states.forget(missing)
        for path in self._states.named_by(missing):
            self._hints.add(path)
        self._states.update_odd(paths, findings.odd)
        return findings

    async def _scan_all(self) -> Findings:
        """Scan the whole folder, independently of hints."""
        self._scan_at = math.inf
        first = not self._informed
        if first:
            await self._read_known()
        began = self._scan_since = time.monotonic()
        reopens, self._reopens = self._reopens, False
        try:
            findings, cpu_s = await self._on_thread(lambda: self._look_at_all(reopens))
        finally:
            self._scan_since = None
        if findings.problem != self._problem and findings.problem is not None:
            _log.warning(findings.problem[1], action="intake", folder=self.row.id, code=findings.problem[0])
        self._problem = findings.problem
        finds_new = any(self._is_new(path) for path in findings.files)
        # A file that no hint has reported may mean that the watch was lost, except in the first scan.
        self._reopens |= finds_new and not first
        # Queried only when there are new files, so that an idle folder causes no queries.
        if not first and finds_new:
            await self._read_known()
            findings.files = {
                path: seen
                for path, seen in findings.files.items()
                if not self._states.is_done(path, seen.look.stamp)
            }
        found = set(findings.files)
        self._settling.keep(found)
        self._states.after_scan(found, findings.odd)
        took_s = time.monotonic() - began
        self._earliest_scan = time.monotonic() + max(_MIN_INTERVAL_S, took_s)
        if self._is_polling() or self._problem is not None:
            self._schedule_rescan(max(min(self._rescan_s, POLL_S), took_s * _POLL_SHARE))
        else:
            self._schedule_rescan(max(self._rescan_s, cpu_s * _IDLE_SHARE))
        return findings

    def _look_at_all(self, reopens: bool) -> tuple[Findings, float]:
        """Open the watch, if it may have been lost with a mount or a renamed folder, and scan.

        Opened first, so that no new file is missed in between.

        Returns:
            The findings, and the processor time in seconds.
        """
        began = time.thread_time()
        # Before it is opened: a directory that replaces it later is found by the next scan.
        found = _directory_at(self.row.path)
        if reopens or self._limit is not None or self._watched != found:
            self._watched = found
            self._polls = self.row.watch == "polling" or (
                self.row.watch == "auto" and misses_inotify(os.path.realpath(self.row.path))
            )
            self._hints.close()
            self._limit = None if self._polls else self._hints.open()
        return self._scanner.everything(), time.thread_time() - began

    def _schedule_rescan(self, in_s: float) -> None:
        # One that was requested while this one ran stays due.
        self._scan_at = min(self._scan_at, time.monotonic() + in_s)

    def _is_new(self, path: bytes) -> bool:
        is_waiting = path in self._settling or path in self._checks
        return not is_waiting and not self._states.is_skipped(path)

    async def _read_known(self) -> None:
        self._reopened.clear()
        self._states.store(await self._known(self.row))
        for path in self._reopened:
            # The rows may have been read before it was reopened.
            self._states.reopen(path)
        self._informed = True

    def _settle(self, files: Mapping[bytes, Seen], arrived: set[bytes]) -> dict[bytes, FileStat]:
        """Record the state of files; return those that have settled."""
        return {
            path: look
            for path, (look, at) in files.items()
            if not self._states.is_refused(path, look)
            and self._checks.get(path) != look
            and self._settling.see(path, look, at, complete=path in arrived)
        }

    async def _offer_settled(self, settled: Mapping[bytes, FileStat]) -> None:
        """Offer the first of the files that have settled; the others are still due in the next round."""
        if not settled:
            return
        first = dict(islice(settled.items(), _TOGETHER))
        wanted = {look.identity: path for path, look in first.items()}
        busy = await self._on_thread(lambda: open_for_writing(wanted))
        ready = {}
        for path, look in first.items():
            if look.identity in busy:
                self._settling.hold(path, time.monotonic())
            elif look.size == 0:
                self._states.refused(path, look, problems.EMPTY)
                self._settling.forget(path)
            else:
                ready[path] = look
        if ready:
            await self._offer_together(ready)

    async def _offer_together(self, files: Mapping[bytes, FileStat]) -> None:
        self._states.forget(files)
        for path, look in files.items():
            # Before they are: `look_again` may come meanwhile.
            self._states.offered(path, look.stamp)
        errors: Sequence[Exception | None]
        try:
            errors = await self._offer(self.row, {path: self._digests.pop(path, None) for path in files})
        except Exception as error:
            errors = [error] * len(files)
        for (path, look), why in zip(files.items(), errors, strict=True):
            self._settling.forget(path)
            if why is not None:
                self._states.reopen(path)
                self._note(path, look, why)

    def _note(self, path: bytes, look: FileStat, error: Exception) -> None:
        """Remember why a file is not queued."""
        if isinstance(error, NotHashed):
            self._check(path, look)
        elif isinstance(error, TqError):
            self._states.not_queued(path, look, error)
        else:
            _log.error("a file could not be queued", action="intake", path=display(path), exc_info=error)
            self._states.failed(path, problems.NOT_QUEUED)

    # Hashing whole files, in parallel to the rounds: one may take minutes and must not delay other files.

    def _check(self, path: bytes, look: FileStat) -> None:
        self._checks[path] = look
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_all(), name=f"checks of folder {self.row.id}")

    async def _check_all(self) -> None:
        while self._checks:
            path, look = next(iter(self._checks.items()))
            try:
                self._digests[path] = await asyncio.get_running_loop().run_in_executor(
                    self._reader, fingerprint.digest, path, self._halt.is_set
                )
            except HashingStopped:
                return
            except TqError as error:
                self._states.refused(path, look, error.problem)
            # The file may have changed and been offered again meanwhile.
            if self._checks.get(path) == look:
                del self._checks[path]
            self._hints.add(path)

    async def _on_thread(self, look: Callable[[], _T]) -> _T:
        """Read the disk in this folder's own thread, so that a hanging mount delays no other folder."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)


def _directory_at(path: bytes) -> FileKey | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
