"""A real intake over real folders, with what it offers written down."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.intake import FolderState, Intake
from tqstudio.engine.intake.rules import Rules
from tqstudio.engine.intake.scan import Findings, Scanner
from tqstudio.engine.media.source.fingerprint import Digest
from tqstudio.engine.parts.scheduler import Scheduler
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import NO_AUTORESTART
from waiting import until_true

NEVER_S = 600.0
"""An interval that does not pass within a test: what happens then has another cause."""


def stamp(path: Path | bytes) -> tuple[int, int]:
    found = os.stat(path)
    return (found.st_size, found.st_mtime_ns)


class World:
    """The supervisor's side: what is offered, what it knows, what it refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.offers: list[bytes] = []
        self.groups: list[int] = []
        """How many files were offered together."""
        self.digests: list[Digest | None] = []
        """What came with each offer."""
        self.known: dict[bytes, tuple[int, int]] = {}
        self.asked = 0
        self.looks = 0
        """How often the whole folder was looked through."""
        self.raises: dict[bytes, Exception] = {}
        self.intake: Intake
        self.row: FolderRow

    async def offer(self, row: FolderRow, files: Mapping[bytes, Digest | None]) -> Sequence[Exception | None]:
        assert all(path.startswith(row.path) for path in files)
        self.groups.append(len(files))
        self.offers += files
        self.digests += files.values()
        return [self.raises.get(os.path.basename(path)) for path in files]

    async def known_files(self, row: FolderRow) -> Mapping[bytes, tuple[int, int]]:
        self.asked += 1
        return {path: state for path, state in self.known.items() if path.startswith(row.path)}

    @property
    def names(self) -> list[bytes]:
        """What was offered, relative to the drop folder."""
        return [os.path.relpath(path, os.fsencode(self.root)) for path in self.offers]

    @property
    def state(self) -> FolderState:
        return self.intake.states()[self.row.id]

    @property
    def skipped(self) -> dict[str, str]:
        """Name and reason of what is left out; each has a code and says what to do."""
        assert all(ErrorCode(code) and hint for _, (code, _, hint) in self.state.skipped)
        return {name: reason for name, (_, reason, _) in self.state.skipped}

    @property
    def codes(self) -> dict[str, str]:
        return {name: code for name, (code, _, _) in self.state.skipped}

    async def offered(self, *names: bytes) -> None:
        await until_true(lambda: set(names) <= set(self.names))

    async def catch_up(self, name: str = "sentinel.mp4") -> None:
        """Return when everything that happened before this call has been looked at.

        A file renamed into place is offered without settling, and its hint comes behind all others.
        """
        (self.root / f"{name}.part").write_bytes(b"video")
        os.rename(self.root / f"{name}.part", self.root / name)
        await self.offered(name.encode())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    root = tmp_path / "drop"
    root.mkdir()
    world = World(root)
    world.row = make_row(root, output=tmp_path / "out")
    everything = Scanner.everything

    def count(self: Scanner) -> Findings:
        try:
            return everything(self)
        finally:
            world.looks += 1

    monkeypatch.setattr(Scanner, "everything", count)
    return world


def make_row(root: Path | bytes, *, output: Path, **rules: Any) -> FolderRow:
    row = FolderRow(
        id=1,
        path=os.fsencode(root),
        output_root=os.fsencode(output),
        profile="web",
        watch="inotify",
        enabled=True,
        recursive=True,
        patterns=(),
        settle_s=None,
        priority=0,
        autorestart=NO_AUTORESTART,
    )
    return replace(row, **rules)


def scanner_of(root: Path, rules: Rules | None = None) -> Scanner:
    """Looks of its own at a folder, without an intake."""
    return Scanner(
        os.fsencode(root),
        rules or Rules(()),
        recursive=True,
        excluded=(),
        is_done=lambda *_: False,
        halt=threading.Event(),
    )


def put(directory: Path, name: bytes) -> None:
    """Write a file whose name need not be text."""
    with open(os.path.join(os.fsencode(directory), name), "wb") as file:
        file.write(b"video")


@asynccontextmanager
async def watching(
    world: World,
    *,
    settle_s: float = 0.05,
    rescan_s: float = NEVER_S,
    beside: Sequence[FolderRow] = (),
    include_temporary_files: bool = False,
    **rules: Any,
) -> AsyncIterator[World]:
    """An intake over the world's folder that has looked through it once."""
    world.row = replace(world.row, **rules)
    scheduler = Scheduler()
    scheduler.start()
    world.intake = Intake(
        default_settle_s=settle_s,
        rescan_s=rescan_s,
        offer=world.offer,
        known=world.known_files,
        include_temporary_files=include_temporary_files,
    )
    scheduler.add_job(world.intake.request_due_scans, "interval", seconds=0.1)
    await world.intake.set_folders([world.row, *beside])
    await world.intake.start()
    await until_true(lambda: world.looks)
    try:
        yield world
    finally:
        await world.intake.stop()
        scheduler.shutdown()


_HOLD = """
import os, sys
handle = open(os.fsencode(sys.argv[1]), "r+b" if sys.argv[2] == "update" else "wb", buffering=0)
handle.write(b"some of it")
print("open", flush=True)
for order in sys.stdin:
    if order == "more\\n":
        handle.write(b"and more")
        print("written", flush=True)
    else:
        handle.close()
        print("closed", flush=True)
"""


class Writer:
    """Another process that has a file open for writing."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, order: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n".encode())
        await self._process.stdin.drain()
        assert await self._process.stdout.readline()


@asynccontextmanager
async def writing(path: Path, mode: str = "create") -> AsyncIterator[Writer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLD, path, mode, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"open\n"
        yield Writer(process)
    finally:
        process.kill()
        await process.communicate()
