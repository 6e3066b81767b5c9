"""Scans the disk for one folder, in the folder's thread: its whole tree, or single files."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tqstudio.engine.files.mounts import is_blind, system_devices
from tqstudio.engine.intake.inotify import LIMITS, TreeWatch
from tqstudio.engine.intake.problems import CLOSED_DIRECTORY, NOT_A_VIDEO, ODD_KINDS
from tqstudio.engine.intake.rules import Choice, Rules
from tqstudio.engine.intake.settling import FileKey, FileStat, Stamp
from tqstudio.errors import ErrorCode, Problem
from tqstudio.ladder_files import is_head_at, is_ladder_at
from tqstudio.paths import display
from tqstudio.source_files import (
    candidates,
)

_MAX_ODD = 1_000
"""Limit for remembered skipped paths: a folder of a million logs must not fill the memory."""


class Seen(NamedTuple):
    look: FileStat
    at: float
    """`time.monotonic()` of the check."""


@dataclass(slots=True)
class Findings:
    """The result of a scan."""

    files: dict[bytes, Seen] = field(default_factory=dict)
    """Files that the rules accept and that are not done, in name order within a directory."""
    odd: dict[bytes, Problem] = field(default_factory=dict)
    """Skipped paths, and why."""
    directories: set[FileKey] = field(default_factory=set)
    cpu_s: float = 0.0
    """Processor time that the scan took."""
    problem: Problem | None = None
    """Why the folder as a whole cannot be read."""
    blind: bool = False
    """inotify does not report all changes here."""
    limit: int | None = None
    """The errno with which inotify refused to watch more directories."""

    def leave_out(self, path: bytes, why: Problem) -> None:
        if len(self.odd) < _MAX_ODD:
            self.odd[path] = why


class Scanner:
    """Scans one folder.

    Args:
        trust_inotify: watch even where inotify is known to miss changes.
        excluded: folders below this one that are not part of it: outputs, other drop folders.
        is_done: whether this state of a file needs no further processing.
    """

    def __init__(
        self,
        root: bytes,
        rules: Rules,
        *,
        recursive: bool,
        trust_inotify: bool,
        excluded: Collection[bytes],
        is_done: Callable[[bytes, Stamp], bool],
        halt: threading.Event,
    ) -> None:
        self._root = root
        self._prefix = os.path.join(root, b"")
        self._rules = rules
        self._recursive = recursive
        self._trust_inotify = trust_inotify
        self._is_done = is_done
        self._halt = halt
        self._system: frozenset[int] = frozenset()
        self.excluded = excluded

    def everything(self, watch: TreeWatch | None) -> Findings:
        """Scan the whole folder, and watch exactly its directories."""
        findings = Findings()
        began = time.thread_time()
        self._system = system_devices()
        try:
            root = os.stat(self._root)
        except OSError as error:
            findings.problem = Problem(
                str(ErrorCode.SOURCE_MISSING),
                f"the folder {display(self._root)} is missing ({(error.strerror or str(error)).lower()})",
                "mount or create it again; it is then scanned automatically",
            )
        else:
            findings.problem = self._unfit(root)
        if findings.problem is None:
            findings.blind = not self._trust_inotify and is_blind(os.path.realpath(self._root))
            self._walk([(self._root, (root.st_dev, root.st_ino))], findings, watch)
        if watch is not None:
            watch.keep(findings.directories)
        findings.cpu_s = time.thread_time() - began
        return findings

    def _unfit(self, root: os.stat_result) -> Problem | None:
        """Why the folder cannot be scanned."""
        shown = display(self._root)
        if not stat.S_ISDIR(root.st_mode):
            return Problem(
                str(ErrorCode.SOURCE_MISSING),
                f"{shown} is no longer a folder",
                "put the folder back, or remove it from the drop folders",
            )
        if root.st_dev in self._system:
            return Problem(
                str(ErrorCode.UNSUPPORTED),
                f"{shown} is on a virtual file system of the kernel, which stores no files",
                "remove it from the drop folders",
            )
        if not os.access(self._root, os.R_OK | os.X_OK):
            return Problem(
                str(ErrorCode.PERMISSION),
                f"the folder {shown} may not be read",
                "give the user that runs the supervisor access to it; it is then scanned automatically",
            )
        return None

    def part(self, paths: Iterable[bytes], directories: Iterable[bytes], watch: TreeWatch | None) -> Findings:
        """Check these files, and scan these directories below the folder."""
        findings = Findings()
        ladders: dict[bytes, bool] = {}
        for path in paths:
            try:
                there = os.lstat(path)
                if not self._in_ladder(os.path.dirname(path), ladders) and not is_head_at(path):
                    self._classify(path, there, findings)
            except OSError:
                continue
        for path in directories:
            try:
                there = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(there.st_mode) and self._recursive:
                identity = (there.st_dev, there.st_ino)
                if identity not in self._excluded_identities() and not self._in_ladder(path, ladders):
                    self._walk([(path, identity)], findings, watch)
        return findings

    def _in_ladder(self, directory: bytes, cache: dict[bytes, bool]) -> bool:
        """Whether a directory below the folder is, or is part of, a published ladder.

        Args:
            cache: results during one scan, so that each directory is checked once.
        """
        chain = []
        while len(directory) > len(self._root) and directory not in cache:
            chain.append(directory)
            directory = os.path.dirname(directory)
        found = cache.get(directory, False)
        for below in reversed(chain):
            found = cache[below] = found or is_ladder_at(below)
        return found

    def _walk(
        self, pending: list[tuple[bytes, FileKey]], findings: Findings, watch: TreeWatch | None
    ) -> None:
        excluded = self._excluded_identities()
        while pending and not self._halt.is_set():
            directory, identity = pending.pop()
            findings.directories.add(identity)
            # Watched before it is listed, so that no new file is missed in between.
            self._watch(directory, identity, findings, watch)
            below = []
            for path, there in self._entries(directory, findings):
                if not stat.S_ISDIR(there.st_mode):
                    self._classify(path, there, findings)
                elif self._recursive and there.st_dev not in self._system:
                    identity = (there.st_dev, there.st_ino)
                    if identity not in excluded:
                        below.append((path, identity))
            pending.extend(reversed(below))

    def _entries(self, directory: bytes, findings: Findings) -> Iterable[tuple[bytes, os.stat_result]]:
        try:
            with os.scandir(directory) as listing:
                entries = candidates(listing, named=directory == self._root)
        except PermissionError:
            findings.leave_out(directory, CLOSED_DIRECTORY)
            return
        except OSError:
            return
        for entry in entries:
            try:
                yield entry.path, entry.stat(follow_symlinks=False)
            except OSError:
                continue

    def _classify(self, path: bytes, there: os.stat_result, findings: Findings) -> None:
        """Add an entry that is not a directory to the findings."""
        regular = stat.S_ISREG(there.st_mode)
        if regular and self._is_done(path, (there.st_size, there.st_mtime_ns)):
            return
        choice = self._rules.choose(path[len(self._prefix) :])
        if choice is Choice.IGNORE:
            return
        if not regular:
            if why := ODD_KINDS.get(stat.S_IFMT(there.st_mode)):
                findings.leave_out(path, why)
        elif choice is Choice.TAKE:
            findings.files[path] = Seen(FileStat.of(there), time.monotonic())
        else:
            findings.leave_out(path, NOT_A_VIDEO)

    def _watch(
        self, directory: bytes, identity: FileKey, findings: Findings, watch: TreeWatch | None
    ) -> None:
        if watch is None or findings.blind or findings.limit is not None:
            return
        try:
            watch.add(directory, identity)
        except OSError as error:
            if error.errno in LIMITS:
                findings.limit = error.errno

    def _excluded_identities(self) -> set[FileKey]:
        found = set()
        for path in self.excluded:
            try:
                there = os.stat(path)
            except OSError:
                continue
            found.add((there.st_dev, there.st_ino))
        return found
