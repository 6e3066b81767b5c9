"""Watches one drop folder: scans it, waits for its files to be complete, and offers or skips them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeVar

import structlog

from tqstudio.engine.files.mounts import is_blind
from tqstudio.engine.intake import problems
from tqstudio.engine.intake.file_states import FileStates
from tqstudio.engine.intake.hints import Hint, Inbox
from tqstudio.engine.intake.inotify import Notifier, TreeWatch
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.intake.rescan_schedule import MIN_INTERVAL_S, RescanSchedule
from tqstudio.engine.intake.rules import Choice, Rules
from tqstudio.engine.intake.scan import Findings, Scanner, Seen
from tqstudio.engine.intake.settling import FileStat, Settling, Stamp
from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import Digest, NotHashed, Stopped
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import UNWRITTEN, ErrorCode, Problem, TqError
from tqstudio.paths import display

Offer = Callable[[FolderRow, bytes, Digest | None], Awaitable[None]]
"""Queues a file; with its digest, if an earlier call raised `NotHashed`."""
Known = Callable[[FolderRow], Awaitable[Mapping[bytes, Stamp]]]
_T = TypeVar("_T")
_TEMPORARY = (*UNWRITTEN, ErrorCode.DATABASE_BUSY)
"""Errors of the database, which do not concern the file."""

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


class FolderIntake:
    """Watches one folder while its task runs; everything but `_on_thread` runs in the event loop.

    Rounds run one after another, so that there are never two scans of the folder at a time.
    """

    def __init__(
        self,
        row: FolderRow,
        notifier: Notifier,
        *,
        settle_s: float,
        rescan_s: float,
        excluded: Collection[bytes],
        offer: Offer,
        known: Known,
    ) -> None:
        self.row = row
        self._notifier = notifier
        self._offer = offer
        self._known = known
        self._rules = Rules(row.patterns)
        self._settling = Settling(settle_s)
        self._states = FileStates(row.path)
        self._halt = threading.Event()
        self._scanner = Scanner(
            row.path,
            self._rules,
            recursive=row.recursive,
            trust_inotify=row.watch == "inotify",
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
        """Of files that were hashed and are to be offered again."""

        self._wake = asyncio.Event()
        self._inbox = Inbox()
        self._informed = False
        self._reopened: set[bytes] = set()
        """Since the last query of the database."""
        self._schedule = RescanSchedule(rescan_s)
        self._scan_since: float | None = None

        self._tree: TreeWatch | None = None
        self._blind = row.watch == "auto" and is_blind(row.path)
        self._limit: int | None = None
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
        if self._tree is not None:
            self._tree.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def rescan_soon(self) -> None:
        self._schedule.request()
        self._wake.set()

    def look_again(self, path: bytes) -> None:
        """Offer this file again, now or when it exists: the database no longer has its stored state."""
        self._reopened.add(path)
        self._states.reopen(path)
        self._inbox.files.add(path)
        self._wake.set()

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
        return self.row.watch == "polling" or self._blind or self._limit is not None

    # Hints from inotify.

    def _receive(self, hints: list[Hint]) -> None:
        self._inbox.add(hints, matters=self._matters, awaited=self._settling.__contains__)
        self._wake.set()

    def _matters(self, path: bytes) -> bool:
        if path in self._settling or self._states.is_skipped(path):
            return True
        relative = path[len(os.path.join(self.row.path, b"")) :]
        return self._rules.choose(relative) is not Choice.IGNORE

    # Rounds.

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                _log.exception("scan of a drop folder failed", action="intake", folder=self.row.id)
                self._schedule.fail()
                # The next round may be due at once.
                await asyncio.sleep(MIN_INTERVAL_S)
            await self._pause()

    async def _pause(self) -> None:
        """Sleep until a hint comes, or the next file or scan is due."""
        due, scan = self._settling.next_due(), self._schedule.due(hints_lost=self._inbox.lost)
        until = scan if due is None else min(due, scan)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._wake.wait()
        self._wake.clear()

    async def _round(self) -> None:
        now = time.monotonic()
        scan = now >= self._schedule.due(hints_lost=self._inbox.lost)
        hinted = self._inbox.take()
        if scan:
            findings = await self._scan_all()
        else:
            paths = hinted.files.union(self._settling.due(now))
            if not paths and not hinted.directories:
                return
            findings = await self._scan_some(paths, hinted.directories)
        await self._offer_settled(self._settle(findings.files, hinted.arrived))

    async def _scan_some(self, paths: set[bytes], directories: set[bytes]) -> Findings:
        tree = None if self._blind else self._tree
        findings = await self._on_thread(lambda: self._scanner.part(sorted(paths), sorted(directories), tree))
        self._limit = findings.limit or self._limit
        missing = paths - findings.files.keys()
        for path in missing:
            self._settling.forget(path)
            self._digests.pop(path, None)
        self._states.forget(missing)
        self._states.update_odd(paths, findings.odd)
        return findings

    async def _scan_all(self) -> Findings:
        """Scan the whole folder, independently of hints."""
        self._schedule.begin()
        self._inbox.lost = False
        first = not self._informed
        if first:
            await self._read_known()
        began = self._scan_since = time.monotonic()
        try:
            self._open_watch()
            findings = await self._on_thread(lambda: self._scanner.everything(self._tree))
        finally:
            self._scan_since = None
        if findings.problem != self._problem and findings.problem is not None:
            _log.warning(findings.problem[1], action="intake", folder=self.row.id, code=findings.problem[0])
        self._problem, self._blind = findings.problem, findings.blind
        if self._tree is not None:
            self._limit = findings.limit
        # Queried only when there are new files, so that an idle folder causes no queries.
        if not first and any(self._is_new(path) for path in findings.files):
            await self._read_known()
            findings.files = {
                path: seen
                for path, seen in findings.files.items()
                if not self._states.is_done(path, seen.look.stamp)
            }
        found = set(findings.files)
        self._settling.keep(found)
        self._states.after_scan(found, findings.odd)
        self._schedule.end(
            polling=self._is_polling() or self._problem is not None,
            took_s=time.monotonic() - began,
            cpu_s=findings.cpu_s,
        )
        return findings

    def _open_watch(self) -> None:
        """Open the inotify watch that the scan fills, if wanted; retried at each scan."""
        if self._tree is None and self.row.watch != "polling" and not self._blind:
            try:
                self._tree = self._notifier.tree(self._receive)
            except OSError as error:
                self._limit = error.errno

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
        if not settled:
            return
        wanted = {look.identity: path for path, look in settled.items()}
        busy = await self._on_thread(lambda: open_for_writing(wanted))
        for path, look in settled.items():
            if look.identity in busy:
                self._settling.hold(path, time.monotonic())
                continue
            if look.size == 0:
                self._states.refused(path, look, problems.EMPTY)
            else:
                await self._offer_one(path, look)
            self._settling.forget(path)

    async def _offer_one(self, path: bytes, look: FileStat) -> None:
        self._states.forget([path])
        try:
            await self._offer(self.row, path, self._digests.pop(path, None))
        except NotHashed:
            self._check(path, look)
        except TqError as error:
            why = Problem(error.code.value, error.message, error.hint)
            if error.code in _TEMPORARY:
                self._states.failed(path, why)
            else:
                self._states.refused(path, look, why)
        except Exception:
            _log.exception("a file could not be queued", action="intake", path=display(path))
            self._states.failed(path, problems.NOT_QUEUED)
        else:
            self._states.offered(path, look.stamp)

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
            except Stopped:
                return
            except TqError as error:
                self._states.refused(path, look, Problem(error.code.value, error.message, error.hint))
            # The file may have changed and been offered again meanwhile.
            if self._checks.get(path) == look:
                del self._checks[path]
            self._inbox.files.add(path)
            self._wake.set()

    async def _on_thread(self, look: Callable[[], _T]) -> _T:
        """Read the disk in this folder's own thread, so that a hanging mount delays no other folder."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)
