"""Remembers the state of each file of a folder: stored, offered, refused or skipped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from tqstudio.engine.intake.problems import NamedOtherwise
from tqstudio.engine.intake.settling import FileStat, Stamp
from tqstudio.errors import UNWRITTEN, ErrorCode, Problem, TqError
from tqstudio.paths import display

MAX_SKIPPED = 100
"""Skipped files that are listed."""

_TEMPORARY = (*UNWRITTEN, ErrorCode.DATABASE_BUSY)
"""Errors of the database, which do not concern the file."""


class FileStates:
    """The files that are done, and why others are skipped."""

    def __init__(self, root: bytes) -> None:
        self._prefix = len(os.path.join(root, b""))
        self._stored: dict[bytes, Stamp] = {}
        self._offered: dict[bytes, Stamp] = {}
        self._refused: dict[bytes, tuple[FileStat, Problem]] = {}
        self._failed: dict[bytes, Problem] = {}
        self._odd: dict[bytes, Problem] = {}
        self._other_names: dict[bytes, tuple[FileStat, bytes]] = {}
        """Files that are the source of a video under another path."""

    def is_done(self, path: bytes, stamp: Stamp) -> bool:
        """Whether this state of the file is in the database or was offered since."""
        if self._stored.get(path) == stamp:
            return True
        return self._offered.get(path) == stamp and (path not in self._other_names or self._is_named(path))

    def _is_named(self, path: bytes) -> bool:
        """Whether a file is still at its other path too."""
        look, other = self._other_names[path]
        try:
            return FileStat.of(os.stat(other)).identity == look.identity
        except OSError:
            return False

    def is_refused(self, path: bytes, look: FileStat) -> bool:
        """Whether the file was refused and is unchanged since; a changed file is offered again."""
        refused = self._refused.get(path)
        if refused is None or refused[0] == look:
            return refused is not None
        del self._refused[path]
        return False

    def is_skipped(self, path: bytes) -> bool:
        """Whether the file is listed as skipped."""
        return path in self._refused or path in self._failed or path in self._odd

    def store(self, known: Mapping[bytes, Stamp]) -> None:
        self._stored = dict(known)

    def reopen(self, path: bytes) -> None:
        """Forget that the file was queued, so that it is offered again."""
        self._stored.pop(path, None)
        self._offered.pop(path, None)

    def offered(self, path: bytes, stamp: Stamp) -> None:
        self._offered[path] = stamp
        self._other_names.pop(path, None)

    def refused(self, path: bytes, look: FileStat, why: Problem) -> None:
        """Skip this state of the file for good."""
        self._refused[path] = (look, why)

    def not_queued(self, path: bytes, look: FileStat, error: TqError) -> None:
        """Skip the file: until it changes, or until the next scan if the error does not concern it.

        One that is another name of a source counts as offered while that one is there.
        """
        if isinstance(error, NamedOtherwise):
            self._offered[path], self._other_names[path] = look.stamp, (look, error.path)
        elif error.code in _TEMPORARY:
            self.failed(path, error.problem)
        else:
            self.refused(path, look, error.problem)

    def failed(self, path: bytes, why: Problem) -> None:
        """Skip the file until the next scan of the folder."""
        self._failed[path] = why

    def update_odd(self, checked: Iterable[bytes], odd: Mapping[bytes, Problem]) -> None:
        """Skip those checked paths that are in `odd` because of their kind, and none of the others."""
        for path in checked:
            self._odd.pop(path, None)
        self._odd.update(odd)

    def after_scan(self, found: set[bytes], odd: dict[bytes, Problem]) -> None:
        """After a full scan, forget files that are gone, and failures, so that they are retried."""
        self._refused = {path: why for path, why in self._refused.items() if path in found}
        self._failed = {}
        self._odd = odd

    def forget(self, paths: Iterable[bytes]) -> None:
        """Forget why these files are skipped."""
        for path in paths:
            self._refused.pop(path, None)
            self._failed.pop(path, None)
            self._odd.pop(path, None)

    def named_by(self, paths: Iterable[bytes]) -> list[bytes]:
        """The files whose other path is one of these."""
        others = set(paths)
        return [path for path, (_, other) in self._other_names.items() if other in others]

    def skipped(self) -> tuple[tuple[str, Problem], ...]:
        """Relative name and reason; refusals come before files skipped because of their kind."""
        refused = ((path, why) for path, (_, why) in self._refused.items())
        every = chain(refused, self._failed.items(), self._odd.items())
        return tuple((display(path[self._prefix :]), why) for path, why in islice(every, MAX_SKIPPED))
