"""The part of the job list that is held in memory: one unbroken run of rows, with cursors to go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from tqstudio.ui.data.query import Query

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobLive, JobPage, JobRow

PAGE = 200
"""Rows asked for at a time."""
AHEAD = 60
"""Rows held beyond the reader on either side, if the list has so many; pages are read to keep it so."""
BELOW = 8
"""So many rows below a job tell whether the list has moved with it, or it alone has gone."""
KEEP = 600
"""Rows held; what lies farther from the reader is dropped and read again when it is needed."""


class JobWindow:
    """A run of consecutive rows. `version` grows with every change, so that views can tell."""

    def __init__(self) -> None:
        self.query = Query()
        self.rows: list[JobRow] = []
        self.before: str | None = None
        self.after: str | None = None
        self.searching = False
        """The supervisor answered before a page was full; there may be more beyond the cursors."""
        self.offset: int | None = 0
        """Rows above the window; None when it is not known."""
        self.loaded = False
        self.read_at: datetime | None = None
        """When the newest page was read; countdowns go on from there."""
        self.version = 0
        self._total: int | None = 0
        self._index: dict[int, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> int | None:
        """Rows in the whole list; None when that is not known."""
        return len(self.rows) if self.whole else self._total

    @property
    def whole(self) -> bool:
        """Whether the window is the whole list."""
        return self.before is None and self.after is None

    def index_of(self, job: int | None) -> int | None:
        if job is None:
            return None
        if self._index is None:
            self._index = {row["id"]: at for at, row in enumerate(self.rows)}
        return self._index.get(job)

    def row(self, job: int | None) -> JobRow | None:
        at = self.index_of(job)
        return None if at is None else self.rows[at]

    def below(self, job: int | None) -> list[int]:
        """The jobs that stand next below a job."""
        at = self.index_of(job)
        return [] if at is None else [row["id"] for row in self.rows[at + 1 : at + 1 + BELOW]]

    def show(self, page: JobPage, *, anchor: int | None = None, from_end: bool = False) -> None:
        """Hold this page and nothing else.

        Args:
            anchor: a job whose place in the list is taken to be unchanged, so that the offset stays known.
            from_end: the page is the last one.
        """
        place = self.index_of(anchor)
        known = None if place is None or self.offset is None else self.offset + place
        self.rows = list(page["jobs"])
        self.before, self.after = page["before"], page["after"]
        self._total, self.searching = page["total"], page["searching"]
        self.loaded = True
        self._changed()
        now_at = self.index_of(anchor)
        if self.before is None:
            self.offset = 0
        elif from_end and self.total is not None:
            self.offset = max(0, self.total - len(self.rows))
        else:
            self.offset = None if known is None or now_at is None else max(0, known - now_at)

    def extend(self, page: JobPage) -> None:
        """Append the page below; drop rows above when too many are held."""
        known = {row["id"] for row in self.rows}
        self.rows += [row for row in page["jobs"] if row["id"] not in known]
        self.after, self._total, self.searching = page["after"], page["total"], page["searching"]
        self._changed()

    def prepend(self, page: JobPage) -> None:
        """Put the page above in front; drop rows below when too many are held."""
        known = {row["id"] for row in self.rows}
        new = [row for row in page["jobs"] if row["id"] not in known]
        self.rows = new + self.rows
        self.before, self._total, self.searching = page["before"], page["total"], page["searching"]
        if self.before is None:
            self.offset = 0
        elif self.offset is not None:
            self.offset = max(0, self.offset - len(new))
        self._changed()

    def merge(self, updates: Iterable[JobLive]) -> set[int]:
        """Put the moving parts of running jobs into their rows; answers which rows changed."""
        changed = set()
        for update in updates:
            if self.patch(update["id"], cast("Mapping[str, Any]", update)):
                changed.add(update["id"])
        return changed

    def patch(self, job: int, fields: Mapping[str, Any]) -> bool:
        """Replace some fields of a row; False when the job is not held."""
        at = self.index_of(job)
        if at is None:
            return False
        # A new dict, so that whoever drew the old one sees that it changed.
        self.rows[at] = cast("JobRow", {**self.rows[at], **fields})
        self.version += 1
        return True

    def drop(self, jobs: Collection[int]) -> None:
        """Leave out jobs that are gone, before the list is read again."""
        self.rows = [row for row in self.rows if row["id"] not in jobs]
        self._changed()

    def _changed(self) -> None:
        self._index = None
        self.version += 1
