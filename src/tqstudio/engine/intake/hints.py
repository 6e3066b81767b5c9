"""Collects hints from inotify about which paths to check.

Hints may be late, duplicated or missing; only the state of the disk counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class HintKind(Enum):
    LOOK = "look"
    """Something happened to this file."""
    ARRIVED = "arrived"
    """This file was renamed to this path."""
    DIRECTORY = "directory"
    """This directory is new and may contain files."""
    RESCAN = "rescan"
    """Hints were lost, or directories were removed."""


class Hint(NamedTuple):
    kind: HintKind
    path: bytes = b""
    origin: bytes | None = None
    """Previous path of a renamed file; None if it was outside the tree."""


@dataclass(slots=True)
class Inbox:
    """The hints for the next round."""

    files: set[bytes] = field(default_factory=set)
    arrived: set[bytes] = field(default_factory=set)
    """Files that were renamed to their path, as programs do with finished files."""
    directories: set[bytes] = field(default_factory=set)
    lost: bool = False
    """Hints were lost, so a full scan is needed."""

    def add(
        self, hints: Iterable[Hint], *, matters: Callable[[bytes], bool], awaited: Callable[[bytes], bool]
    ) -> None:
        """Add hints.

        Args:
            matters: whether a path needs to be checked.
            awaited: whether the file at a path is known to be incomplete. If such a file is renamed, that
                does not mean that it is complete.
        """
        for kind, path, origin in hints:
            if kind is HintKind.RESCAN:
                self.lost = True
            elif kind is HintKind.DIRECTORY:
                if not os.path.basename(path).startswith(b"."):
                    self.directories.add(path)
            elif matters(path):
                self.files.add(path)
                if kind is HintKind.ARRIVED and (
                    origin is None or not (origin in self.files or awaited(origin))
                ):
                    self.arrived.add(path)

    def take(self) -> Inbox:
        """Remove and return the paths so far; `lost` stays set here."""
        taken = Inbox(self.files, self.arrived, self.directories)
        self.files, self.arrived, self.directories = set(), set(), set()
        return taken
