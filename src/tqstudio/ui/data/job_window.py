"""The part of the job list that is in memory: a contiguous run of rows, with cursors at both ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from tqstudio.lifecycle import TERMINAL
from tqstudio.ui.data.query import Query

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobPage, JobRow

PAGE = 200
"""Rows per request."""
AHEAD = 60
"""Rows to keep loaded on either side of the cursor."""
BELOW = 8
"""Rows below a job that are compared, to see whether the list has moved with it or it alone has gone."""
ACTED_S = 10.0
"""A row that moves within this time of an action on its job moves because of it."""
KEEP = 600
"""Maximal number of loaded rows; those farther from the cursor are dropped and read again when needed."""


class JobWindow:
    """A run of consecutive rows. `version` grows with every change, so that views can detect it."""

    def __init__(self) -> None:
        self.query = Query()
        self.rows: list[JobRow] = []
        self.before: str | None = None
        self.after: str | None = None
        self.offset: int | None = 0
        """Rows above the window; None if unknown."""
        self.loaded = False
        self.read_at: datetime | None = None
        """When the newest page was read; countdowns start there."""
        self.version = 0
        self._acted_at: dict[int, float] = {}
        self._total: int | None = 0
        self._index: dict[int, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> int | None:
        """Rows in the whole list; None if unknown."""
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

    def act_on(self, jobs: Iterable[int]) -> None:
        """Record that the user has changed these jobs: the cursor does not follow where that moves them."""
        now = monotonic()
        recent = {job: at for job, at in self._acted_at.items() if now - at < ACTED_S}
        self._acted_at = recent | dict.fromkeys(jobs, now)

    def is_acted_on(self, job: int | None) -> bool:
        """Whether the user has just changed a job."""
        return monotonic() - self._acted_at.get(job or 0, -ACTED_S) < ACTED_S

    def below(self, job: int | None) -> list[int]:
        """The jobs directly below a job: those that are unfinished, and all after an action on it."""
        at = self.index_of(job)
        rows = [] if at is None else self.rows[at + 1 : at + 1 + BELOW]
        every = self.is_acted_on(job)
        return [row["id"] for row in rows if every or row["status"] not in TERMINAL]

    def show(self, page: JobPage, *, anchor: int | None = None, from_end: bool = False) -> None:
        """Replace the window by this page.

        Args:
            anchor: a job whose position in the list is assumed unchanged, so that the offset stays known.
            from_end: the page is the last one.
        """
        place = self.index_of(anchor)
        known = None if place is None or self.offset is None else self.offset + place
        self.rows = list(page["jobs"])
        self.before, self.after = page["before"], page["after"]
        self._total = page["total"]
        self.loaded = True
        self._changed()
        now_at = self.index_of(anchor)
        if self.before is None:
            self.offset = 0
        elif from_end and self.total is not None:
            self.offset = max(0, self.total - len(self.rows))
        else:
            self.offset = None if known is None or now_at is None else max(0, known - now_at)

    def extend(self, page: JobPage, *, above: bool) -> None:
        """Add the page above or below."""
        known = {row["id"] for row in self.rows}
        new = [row for row in page["jobs"] if row["id"] not in known]
        self._total = page["total"]
        if not above:
            self.rows, self.after = self.rows + new, page["after"]
        else:
            self.rows, self.before = new + self.rows, page["before"]
            if self.before is None:
                self.offset = 0
            elif self.offset is not None:
                self.offset = max(0, self.offset - len(new))
        self._changed()

    def patch(self, job: int, fields: Mapping[str, Any]) -> None:
        """Replace some fields of a row, if it is loaded."""
        at = self.index_of(job)
        if at is not None:
            # A new dict, so that views notice the change by identity.
            self.rows[at] = cast("JobRow", {**self.rows[at], **fields})
            self.version += 1

    def drop(self, jobs: Collection[int]) -> None:
        """Remove deleted jobs before the list is read again."""
        self.rows = [row for row in self.rows if row["id"] not in jobs]
        self._changed()

    def _changed(self) -> None:
        self._index = None
        self.version += 1
