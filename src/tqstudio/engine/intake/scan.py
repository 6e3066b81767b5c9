"""Scans the disk for one folder, in the folder's thread: its whole tree, or single files."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tqstudio.engine.files.mounts import is_within, system_devices
from tqstudio.engine.intake.ignore_files import IGNORE_NAME, Ignored, UnusableIgnoreFile
from tqstudio.engine.intake.problems import BIN, CLOSED_DIRECTORY, GIF, NOT_A_VIDEO, ODD_KINDS, SOUND
from tqstudio.engine.intake.rules import Choice, Rules
from tqstudio.engine.intake.settling import FileKey, FileStat, Stamp
from tqstudio.errors import ErrorCode, Problem
from tqstudio.ladder_files import is_head_at, is_ladder_at
from tqstudio.paths import display
from tqstudio.source_files import candidates

_Excluded = Callable[[], set[FileKey]]
"""The excluded folders, each of which costs a stat; read once in a scan, if it comes to another folder."""

_SKIPPED = {Choice.SKIP: NOT_A_VIDEO, Choice.SKIP_SOUND: SOUND, Choice.SKIP_GIF: GIF}
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
    """Why the folder as a whole, or a part of it with an unusable ignore file, cannot be read."""

    _bins: set[bytes] = field(default_factory=set)
    """Names of the bins in `odd`."""

    def leave_out(self, path: bytes, why: Problem) -> None:
        if len(self.odd) < _MAX_ODD:
            self.odd[path] = why

    def leave_out_bin(self, path: bytes) -> None:
        """Leave out a bin; only the first of a name is listed, as some systems make one in each folder."""
        name = os.path.basename(path)
        if name not in self._bins:
            self._bins.add(name)
            self.leave_out(path, BIN)


class Scanner:
    """Scans one folder.

    Args:
        excluded: folders below this one that are not part of it: outputs, other drop folders.
        is_done: whether this state of a file needs no further processing.
        on_ignored: called with each path that is left out silently, and the ignore files that apply to it.
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
        on_ignored: Callable[[bytes, Ignored], object] = lambda _path, _ignored: None,
    ) -> None:
        self._root = root
        self._prefix = os.path.join(root, b"")
        self._rules = rules
        self._recursive = recursive
        self._is_done = is_done
        self._halt = halt
        self._on_ignored = on_ignored
        self._device: int | None = None
        """`st_dev` of the folder, if that is not a virtual file system."""
        self.excluded = excluded

    def everything(self) -> Findings:
        """Scan the whole folder."""
        findings = Findings()
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
        if self._is_virtual(root):
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
        self._device = root.st_dev
        return None

    def _is_virtual(self, there: os.stat_result) -> bool:
        # Reading the mount table takes as long as scanning a small folder.
        return there.st_dev != self._device and there.st_dev in system_devices()

    def part(self, paths: Iterable[bytes]) -> Findings:
        """Check these files below the folder."""
        findings = Findings()
        entered: dict[bytes, Ignored | None] = {}
        excluded = cache(self._excluded_identities)
        found: dict[bytes, os.stat_result] = {}
        for path in paths:
            with contextlib.suppress(OSError):
                found[path] = os.lstat(path)
        # An ignore file is read after the files were seen, so that it counts for those that came after it.
        for path, there in found.items():
            with contextlib.suppress(OSError):
                ignored = self._enter(os.path.dirname(path), excluded, entered)
                if ignored is not None and not is_head_at(path):
                    self._classify(path, there, ignored, findings)
        return findings

    def concerns(self, path: bytes, is_directory: bool) -> bool:
        """Whether an entry below the folder may be or contain a source, judged by its path alone."""
        relative = path[len(self._prefix) :]
        folder, name = os.path.split(relative)
        excluded = (other for other in self.excluded if other.startswith(self._prefix))
        if b"/." in b"/" + folder or any(is_within(path, other) for other in excluded):
            return False
        if any(self._rules.leaves_out(part) for part in folder.split(b"/")):
            return False
        if name.startswith(b"."):
            return name == IGNORE_NAME
        return is_directory or self._rules.choose(relative) is not Choice.IGNORE

    def _enter(
        self, directory: bytes, excluded: _Excluded, known: dict[bytes, Ignored | None]
    ) -> Ignored | None:
        """The ignore files that apply in a directory; None if the full scan does not list it.

        Args:
            known: results during one scan, so that each directory is checked once.
        """
        if directory not in known:
            known[directory] = None
            with contextlib.suppress(UnusableIgnoreFile):
                known[directory] = self._entered(directory, excluded, known)
        return known[directory]

    def _entered(
        self, directory: bytes, excluded: _Excluded, known: dict[bytes, Ignored | None]
    ) -> Ignored | None:
        if len(directory) <= len(self._root):
            return Ignored().below(directory)
        name = os.path.basename(directory)
        if not self._recursive or name.startswith(b".") or self._rules.leaves_out(name):
            return None
        above = self._enter(os.path.dirname(directory), excluded, known)
        if above is None or is_ladder_at(directory):
            return None
        if not self._is_part(directory, os.lstat(directory), excluded, above):
            return None
        return above.below(directory)

    def _is_part(
        self, directory: bytes, there: os.stat_result, excluded: _Excluded, ignored: Ignored
    ) -> bool:
        return (
            stat.S_ISDIR(there.st_mode)
            and not self._is_virtual(there)
            and (there.st_dev, there.st_ino) not in excluded()
            and not self._rules.excludes(directory[len(self._prefix) :])
            and not ignored.excludes(directory, is_folder=True)
        )

    def _walk(self, findings: Findings) -> None:
        excluded = cache(self._excluded_identities)
        pending = [(self._root, Ignored())]
        while pending and not self._halt.is_set():
            directory, above = pending.pop()
            entries = self._list(directory, findings)
            try:
                # After the listing, so that it counts for every file that came after it.
                ignored = above.below(directory)
            except UnusableIgnoreFile as error:
                findings.problem = findings.problem or error.problem
                continue
            if ignored is not above and ignored.comment:
                findings.leave_out(os.path.join(directory, IGNORE_NAME), ignored.comment)
            below = []
            for entry in entries:
                if self._halt.is_set():
                    return
                try:
                    there = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if not stat.S_ISDIR(there.st_mode):
                    self._classify(entry.path, there, ignored, findings)
                elif self._recursive and self._is_part(entry.path, there, excluded, ignored):
                    if self._rules.leaves_out(entry.name):
                        findings.leave_out_bin(entry.path)
                    else:
                        below.append((entry.path, ignored))
                else:
                    self._on_ignored(os.path.join(entry.path, b""), ignored)
            pending.extend(reversed(below))

    def _list(self, directory: bytes, findings: Findings) -> Sequence[os.DirEntry[bytes]]:
        try:
            with os.scandir(directory) as listing:
                return candidates(listing, named=directory == self._root)
        except PermissionError:
            findings.leave_out(directory, CLOSED_DIRECTORY)
        except OSError:
            pass
        return ()

    def _classify(self, path: bytes, there: os.stat_result, ignored: Ignored, findings: Findings) -> None:
        """Add an entry that is not a directory to the findings."""
        regular = stat.S_ISREG(there.st_mode)
        if regular and self._is_done(path, (there.st_size, there.st_mtime_ns)):
            return
        choice = self._rules.choose(path[len(self._prefix) :])
        if choice is Choice.IGNORE or ignored.excludes(path, is_folder=False):
            self._on_ignored(path, ignored)
            return
        if not regular:
            if why := ODD_KINDS.get(stat.S_IFMT(there.st_mode)):
                findings.leave_out(path, why)
        elif choice is Choice.TAKE:
            findings.files[path] = Seen(FileStat.of(there), time.monotonic())
        else:
            findings.leave_out(path, _SKIPPED[choice])

    def _excluded_identities(self) -> set[FileKey]:
        found = set()
        for path in self.excluded:
            try:
                there = os.stat(path)
            except OSError:
                continue
            found.add((there.st_dev, there.st_ino))
        return found
