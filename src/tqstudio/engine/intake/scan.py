"""Scans the disk for one folder, in the folder's thread: its whole tree, or single files."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tqstudio.engine.files.mounts import is_within, system_devices
from tqstudio.engine.intake.problems import CLOSED_DIRECTORY, NOT_A_VIDEO, ODD_KINDS
from tqstudio.engine.intake.rules import Choice, Rules
from tqstudio.engine.intake.settling import FileKey, FileStat, Stamp
from tqstudio.errors import ErrorCode, Problem
from tqstudio.ladder_files import is_head_at, is_ladder_at
from tqstudio.paths import display
from tqstudio.source_files import candidates

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
    problem: Problem | None = None
    """Why the folder as a whole cannot be read."""

    def leave_out(self, path: bytes, why: Problem) -> None:
        if len(self.odd) < _MAX_ODD:
            self.odd[path] = why


class Scanner:
    """Scans one folder.

    Args:
        excluded: folders below this one that are not part of it: outputs, other drop folders.
        is_done: whether this state of a file needs no further processing.
    """

    def __init__(
        self,
        root: bytes,
        rules: Rules,
        *,
        recursive: bool,
        excluded: Collection[bytes],
        is_done: Callable[[bytes, Stamp], bool],
        halt: threading.Event,
    ) -> None:
        self._root = root
        self._prefix = os.path.join(root, b"")
        self._rules = rules
        self._recursive = recursive
        self._is_done = is_done
        self._halt = halt
        self._system: frozenset[int] = frozenset()
        self.excluded = excluded

    def everything(self) -> Findings:
        """Scan the whole folder."""
        findings = Findings()
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
            self._walk(findings)
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

    def part(self, paths: Iterable[bytes]) -> Findings:
        """Check these files below the folder."""
        findings = Findings()
        entered: dict[bytes, bool] = {}
        excluded = self._excluded_identities()
        for path in paths:
            try:
                there = os.lstat(path)
                if self._enters(os.path.dirname(path), excluded, entered) and not is_head_at(path):
                    self._classify(path, there, findings)
            except OSError:
                continue
        return findings

    def concerns(self, path: bytes, is_directory: bool) -> bool:
        """Whether an entry below the folder may be or contain a source, judged by its path alone."""
        relative = path[len(self._prefix) :]
        excluded = (other for other in self.excluded if other.startswith(self._prefix))
        if b"/." in b"/" + relative or any(is_within(path, other) for other in excluded):
            return False
        return is_directory or self._rules.choose(relative) is not Choice.IGNORE

    def _enters(self, directory: bytes, excluded: set[FileKey], known: dict[bytes, bool]) -> bool:
        """Whether the full scan lists this directory, and those above it.

        Args:
            known: results during one scan, so that each directory is checked once.
        """
        if directory not in known:
            known[directory] = len(directory) <= len(self._root) or (
                self._recursive
                and not os.path.basename(directory).startswith(b".")
                and self._enters(os.path.dirname(directory), excluded, known)
                and self._is_part(os.lstat(directory), excluded)
                and not is_ladder_at(directory)
            )
        return known[directory]

    def _is_part(self, there: os.stat_result, excluded: set[FileKey]) -> bool:
        return (
            stat.S_ISDIR(there.st_mode)
            and there.st_dev not in self._system
            and (there.st_dev, there.st_ino) not in excluded
        )

    def _walk(self, findings: Findings) -> None:
        excluded = self._excluded_identities()
        pending = [self._root]
        while pending and not self._halt.is_set():
            below = []
            for path, there in self._entries(pending.pop(), findings):
                if not stat.S_ISDIR(there.st_mode):
                    self._classify(path, there, findings)
                elif self._recursive and self._is_part(there, excluded):
                    below.append(path)
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

    def _excluded_identities(self) -> set[FileKey]:
        found = set()
        for path in self.excluded:
            try:
                there = os.stat(path)
            except OSError:
                continue
            found.add((there.st_dev, there.st_ino))
        return found
