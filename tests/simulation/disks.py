"""Two disks that fill up: that of the home with its database, and that of the outputs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tqstudio.engine.files.volumes import Volume

PLENTY = 1_000_000_000
_ANY_PAGES = 1_000_000_000


class Disks:
    """What is free on each.

    Args:
        home: what lies below it is on the first disk, everything else on the second.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.home_free = self.output_free = PLENTY
        self.slow_s = 0.0
        """How long a turn takes while they are slow."""
        self._limited = False

    def heal(self) -> None:
        self.home_free = self.output_free = PLENTY
        self.slow_s = 0.0

    @property
    def database_is_full(self) -> bool:
        return self.home_free == 0

    def volume_of(self, path: Path) -> Volume:
        """In the place of `space.volume_of`."""
        at_home = path == self._home or self._home in path.parents
        return Volume(1, self.home_free) if at_home else Volume(2, self.output_free)

    def limit(self, raw: sqlite3.Connection) -> None:
        """While the first disk is full its database cannot grow: SQLite itself says so."""
        if self.database_is_full:
            raw.execute("PRAGMA max_page_count = 1")  # never below what it has
        elif self._limited:
            raw.execute(f"PRAGMA max_page_count = {_ANY_PAGES}")
        self._limited = self.database_is_full
