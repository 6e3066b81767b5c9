"""What a watch tells: which paths deserve a look. Hints may be late, doubled or missing; the disk is true."""

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
    """This file was renamed to here."""
    DIRECTORY = "directory"
    """This directory is new here, with whatever is in it already."""
    RESCAN = "rescan"
    """Hints were lost, or directories have gone."""


class Hint(NamedTuple):
    kind: HintKind
    path: bytes = b""
    origin: bytes | None = None
    """Where a renamed file was before; None when that was outside the tree."""


@dataclass(slots=True)
class Inbox:
    """The hints that wait for the next round."""

    files: set[bytes] = field(default_factory=set)
    arrived: set[bytes] = field(default_factory=set)
    """Those files that were renamed into place, which programs do with what they have finished."""
    directories: set[bytes] = field(default_factory=set)
    lost: bool = False
    """Only a look through everything will tell what happened."""

    def add(
        self, hints: Iterable[Hint], *, matters: Callable[[bytes], bool], awaited: Callable[[bytes], bool]
    ) -> None:
        """Take in hints.

        Args:
            matters: whether a file of this path is worth a look.
            awaited: whether a file of this path is being waited for. When such a file is renamed, its new
                name says nothing about its being complete.
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
        """The paths so far, which are no longer in this inbox; that hints were lost stays noted here."""
        taken = Inbox(self.files, self.arrived, self.directories)
        self.files, self.arrived, self.directories = set(), set(), set()
        return taken
