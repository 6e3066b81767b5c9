"""One drop folder: its looks at the disk, its waiting files, what it offers and what it leaves out."""

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
from tqstudio.engine.intake.file_states import Account
from tqstudio.engine.intake.hints import Hint, Inbox
from tqstudio.engine.intake.inotify import Notifier, TreeWatch
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.intake.rescan_schedule import BREATH_S, Pace
from tqstudio.engine.intake.rules import Choice, Rules
from tqstudio.engine.intake.scan import Findings, Scanner, Seen
from tqstudio.engine.intake.settling import FileStat, Settling, Stamp
from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import Digest, NotHashed, Stopped
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import UNWRITTEN, ErrorCode, Problem, TqError
from tqstudio.paths import display

Offer = Callable[[FolderRow, bytes, Digest | None], Awaitable[None]]
"""Takes a file, with its digest where that was asked for by raising `NotHashed`."""
Known = Callable[[FolderRow], Awaitable[Mapping[bytes, Stamp]]]
_T = TypeVar("_T")
_PASSING = (*UNWRITTEN, ErrorCode.DATABASE_BUSY)
"""Says nothing of the file: the database could not take it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FolderState:
    """How a folder stands, for people."""

    settling: int
    """Files that are not complete yet."""
    checking: int
    """Files that are read whole: their time is new, and what was published may be made of what they are."""
    skipped: tuple[tuple[str, Problem], ...]
    """Name within the folder of what was left out, and why."""
    watch: Literal["inotify", "polling"]
    problem: Problem | None


class FolderIntake:
    """Watches one folder as long as its task runs; everything but `_on_thread` happens on the event loop.

    One round follows another, so that no two looks at this folder are ever under way at once.
    """

    def __init__(
        self,
        row: FolderRow,
        notifier: Notifier,
        *,
        settle_s: float,
        rescan_s: float,
        apart: Collection[bytes],
        offer: Offer,
        known: Known,
    ) -> None:
        self.row = row
        self._notifier = notifier
        self._offer = offer
        self._known = known
        self._rules = Rules(row.patterns)
        self._settling = Settling(settle_s)
        self._account = Account(row.path)
        self._halt = threading.Event()
        self._scanner = Scanner(
            row.path,
            self._rules,
            recursive=row.recursive,
            trust_inotify=row.watch == "inotify",
            apart=apart,
            accounted=self._account.is_done,
            halt=self._halt,
        )
        self._thread = ThreadPoolExecutor(1, f"intake-{row.id}")
        self._reader = ThreadPoolExecutor(1, f"check-{row.id}")
        self._task: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._checks: dict[bytes, FileStat] = {}
        """Files to be read whole, and as what they were offered; the first one is being read."""
        self._digests: dict[bytes, Digest] = {}
        """Of files that were read whole and are to be offered again."""

        self._wake = asyncio.Event()
        self._inbox = Inbox()
        self._informed = False
        self._reopened: set[bytes] = set()
        """Since the database was asked last."""
        self._pace = Pace(rescan_s)
        self._scan_since: float | None = None

        self._tree: TreeWatch | None = None
        self._blind = row.watch == "auto" and is_blind(row.path)
        self._limit: int | None = None
        self._problem: Problem | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"intake of folder {self.row.id}")

    async def stop(self) -> None:
        """End the watch; a look that hangs on a dead mount is left to itself."""
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
        self._pace.ask()
        self._wake.set()

    def look_again(self, path: bytes) -> None:
        """The database no longer has this file as it was taken: offer it if it is there, or when it is."""
        self._reopened.add(path)
        self._account.reopen(path)
        self._inbox.files.add(path)
        self._wake.set()

    def keep_apart(self, apart: Collection[bytes]) -> None:
        """Change which folders below this one are not part of it."""
        if set(apart) != set(self._scanner.apart):
            self._scanner.apart = apart
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
            skipped=self._account.skipped(),
            watch="polling" if self._is_polling() else "inotify",
            problem=problem,
        )

    def _is_polling(self) -> bool:
        return self.row.watch == "polling" or self._blind or self._limit is not None

    # Hints, as the watch delivers them.

    def _receive(self, hints: list[Hint]) -> None:
        self._inbox.add(hints, matters=self._matters, awaited=self._settling.__contains__)
        self._wake.set()

    def _matters(self, path: bytes) -> bool:
        if path in self._settling or self._account.is_noted(path):
            return True
        relative = path[len(os.path.join(self.row.path, b"")) :]
        return self._rules.choose(relative) is not Choice.IGNORE

    # The rounds.

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                _log.exception("a look at a drop folder failed", action="intake", folder=self.row.id)
                self._pace.fail()
                # What failed may be due at once again.
                await asyncio.sleep(BREATH_S)
            await self._pause()

    async def _pause(self) -> None:
        """Sleep until a hint comes, the next file is due, or everything is to be looked through."""
        due, scan = self._settling.next_due(), self._pace.due(hints_lost=self._inbox.lost)
        until = scan if due is None else min(due, scan)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._wake.wait()
        self._wake.clear()

    async def _round(self) -> None:
        now = time.monotonic()
        scan = now >= self._pace.due(hints_lost=self._inbox.lost)
        hinted = self._inbox.take()
        if scan:
            findings = await self._look_through()
        else:
            paths = hinted.files.union(self._settling.due(now))
            if not paths and not hinted.directories:
                return
            findings = await self._look_at(paths, hinted.directories)
        await self._offer_settled(self._settle(findings.files, hinted.arrived))

    async def _look_at(self, paths: set[bytes], directories: set[bytes]) -> Findings:
        tree = None if self._blind else self._tree
        findings = await self._on_thread(lambda: self._scanner.part(sorted(paths), sorted(directories), tree))
        self._limit = findings.limit or self._limit
        away = paths - findings.files.keys()
        for path in away:
            self._settling.forget(path)
            self._digests.pop(path, None)
        self._account.forget(away)
        self._account.leave_out(paths, findings.odd)
        return findings

    async def _look_through(self) -> Findings:
        """The truth: all files, whatever hints came or did not."""
        self._pace.begin()
        self._inbox.lost = False
        first = not self._informed
        if first:
            await self._ask_known()
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
        # Asked again only when something is new, so that an idle folder costs the database nothing.
        if not first and any(self._is_new(path) for path in findings.files):
            await self._ask_known()
            findings.files = {
                path: seen
                for path, seen in findings.files.items()
                if not self._account.is_done(path, seen.look.stamp)
            }
        there = set(findings.files)
        self._settling.keep(there)
        self._account.begin_anew(there, findings.odd)
        self._pace.end(
            polling=self._is_polling() or self._problem is not None,
            took_s=time.monotonic() - began,
            cpu_s=findings.cpu_s,
        )
        return findings

    def _open_watch(self) -> None:
        """Have a watch for the walk to fill, where one is wanted; tried again at each look through."""
        if self._tree is None and self.row.watch != "polling" and not self._blind:
            try:
                self._tree = self._notifier.tree(self._receive)
            except OSError as error:
                self._limit = error.errno

    def _is_new(self, path: bytes) -> bool:
        is_waiting = path in self._settling or path in self._checks
        return not is_waiting and not self._account.is_noted(path)

    async def _ask_known(self) -> None:
        self._reopened.clear()
        self._account.store(await self._known(self.row))
        for path in self._reopened:
            # What was read may be older than that.
            self._account.reopen(path)
        self._informed = True

    def _settle(self, files: Mapping[bytes, Seen], arrived: set[bytes]) -> dict[bytes, FileStat]:
        """Take in looks; the files that have settled by them."""
        return {
            path: look
            for path, (look, at) in files.items()
            if not self._account.is_refused(path, look)
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
                self._account.refused(path, look, problems.EMPTY)
            else:
                await self._offer_one(path, look)
            self._settling.forget(path)

    async def _offer_one(self, path: bytes, look: FileStat) -> None:
        self._account.forget([path])
        try:
            await self._offer(self.row, path, self._digests.pop(path, None))
        except NotHashed:
            self._check(path, look)
        except TqError as error:
            why = Problem(error.code.value, error.message, error.hint)
            if error.code in _PASSING:
                self._account.failed(path, why)
            else:
                self._account.refused(path, look, why)
        except Exception:
            _log.exception("a file could not be queued", action="intake", path=display(path))
            self._account.failed(path, problems.NOT_QUEUED)
        else:
            self._account.offered(path, look.stamp)

    # Reading files whole, beside the rounds: one that takes minutes holds up no other file.

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
                self._account.refused(path, look, Problem(error.code.value, error.message, error.hint))
            # It may have been offered again meanwhile, as what it has become.
            if self._checks.get(path) == look:
                del self._checks[path]
            self._inbox.files.add(path)
            self._wake.set()

    async def _on_thread(self, look: Callable[[], _T]) -> _T:
        """Read the disk on this folder's own thread: a mount that hangs holds up no other folder."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)
