"""What became of each file of a folder: in the database, offered, refused, or left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from tqstudio.engine.intake.settling import FileStat, Stamp
from tqstudio.errors import Problem
from tqstudio.paths import display

MAX_SKIPPED = 100
"""Left-out files that are named; more would help nobody."""


class Account:
    """The files that need nothing more, and why some are left out."""

    def __init__(self, root: bytes) -> None:
        self._prefix = len(os.path.join(root, b""))
        self._stored: dict[bytes, Stamp] = {}
        self._offered: dict[bytes, Stamp] = {}
        self._refused: dict[bytes, tuple[FileStat, Problem]] = {}
        self._failed: dict[bytes, Problem] = {}
        self._odd: dict[bytes, Problem] = {}

    def is_done(self, path: bytes, stamp: Stamp) -> bool:
        """Whether this state of the file is in the database, or was offered since."""
        return self._stored.get(path) == stamp or self._offered.get(path) == stamp

    def is_refused(self, path: bytes, look: FileStat) -> bool:
        """Whether the file was refused and is still what it was then; otherwise it gets another chance."""
        refused = self._refused.get(path)
        if refused is None or refused[0] == look:
            return refused is not None
        del self._refused[path]
        return False

    def is_noted(self, path: bytes) -> bool:
        """Whether something is remembered against the file."""
        return path in self._refused or path in self._failed or path in self._odd

    def store(self, known: Mapping[bytes, Stamp]) -> None:
        self._stored = dict(known)

    def reopen(self, path: bytes) -> None:
        """Forget that the file was taken: what is at its path, now or later, is to be offered."""
        self._stored.pop(path, None)
        self._offered.pop(path, None)

    def offered(self, path: bytes, stamp: Stamp) -> None:
        self._offered[path] = stamp

    def refused(self, path: bytes, look: FileStat, why: Problem) -> None:
        """Leave this state of the file out for good."""
        self._refused[path] = (look, why)

    def failed(self, path: bytes, why: Problem) -> None:
        """Leave the file out until the next look through the folder."""
        self._failed[path] = why

    def leave_out(self, looked_at: Iterable[bytes], odd: Mapping[bytes, Problem]) -> None:
        """Of the paths looked at, those in `odd` are left out by their kind, and the others no more."""
        for path in looked_at:
            self._odd.pop(path, None)
        self._odd.update(odd)

    def begin_anew(self, there: set[bytes], odd: dict[bytes, Problem]) -> None:
        """After a look through everything: only what is there counts, and what failed is tried again."""
        self._refused = {path: why for path, why in self._refused.items() if path in there}
        self._failed = {}
        self._odd = odd

    def forget(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            self._refused.pop(path, None)
            self._failed.pop(path, None)
            self._odd.pop(path, None)

    def skipped(self) -> tuple[tuple[str, Problem], ...]:
        """Name within the folder and why; refusals are named before what is left out by its kind."""
        refused = ((path, why) for path, (_, why) in self._refused.items())
        every = chain(refused, self._failed.items(), self._odd.items())
        return tuple((display(path[self._prefix :]), why) for path, why in islice(every, MAX_SKIPPED))
