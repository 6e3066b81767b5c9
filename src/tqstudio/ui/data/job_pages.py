"""Reads pages of the job list into the window, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.lifecycle import TERMINAL
from tqstudio.protocol import calls
from tqstudio.ui.data.job_window import KEEP, PAGE, JobWindow
from tqstudio.ui.data.query import Query

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobPage

Edge = Literal["top", "end"]
MAX_MARKED = 10_000
"""Maximal number of jobs in one action request."""


class JobPages:
    """Moves the window over the list. Answers to a query that was replaced meanwhile are discarded."""

    def __init__(
        self,
        window: JobWindow,
        send: Callable[[calls.Call[Any]], Awaitable[Any]],
        now: Callable[[], datetime],
    ) -> None:
        self.window = window
        self._send = send
        self._now = now
        self._lock = asyncio.Lock()
        self._shown = window.query

    async def ask(self, query: Query, *, keep: int | None = None) -> None:
        """Show another query, around job `keep` if it matches, else from the top.

        If it cannot be answered, the query that was shown last becomes active again.
        """
        self.window.query = query
        async with self._lock:
            # The same filter may be asked for twice, by typing and by enter: only the last one counts.
            if query is not self.window.query:
                return
            try:
                page = await self._page(query)
            except TqError:
                if query is self.window.query:
                    self.window.query = self._shown
                raise
            if keep is not None and not _has(page, keep):
                page = await self._around(query, keep) or page
            if query is self.window.query:
                self._shown = query
                self.window.show(page)

    async def go(self, edge: Edge) -> None:
        """Load the first or the last page."""
        query = self.window.query
        async with self._lock:
            page = await self._page(query, before="end") if edge == "end" else await self._page(query)
            if query == self.window.query:
                self.window.show(page, from_end=edge == "end")

    async def more(self, edge: Edge, near: int | None) -> None:
        """Load the page beyond one end of the window; rows far from job `near` are dropped."""
        window, query = self.window, self.window.query
        if self._lock.locked():
            return
        async with self._lock:
            cursor = window.before if edge == "top" else window.after
            if cursor is None:
                return
            page = await self._page(query, **{"before" if edge == "top" else "after": cursor})
            if query != window.query:
                return
            window.extend(page, above=edge == "top")
        if len(window) > KEEP and near is not None:
            await self.reload(near)

    async def reload(self, anchor: int | None) -> None:
        """Read the window again; job `anchor` stays in it wherever it has moved, unless it ended and left."""
        try:
            await self._reload(anchor)
        except TqError as error:
            if error.code is not ErrorCode.BAD_REQUEST:
                raise
            # The drop folder that the filter names was removed.
            await self.ask(Query(sort=self.window.query.sort))

    async def _reload(self, anchor: int | None) -> None:
        window, query = self.window, self.window.query
        async with self._lock:
            page: JobPage | None = None
            if window.before is None and (anchor is None or (window.index_of(anchor) or 0) < PAGE // 2):
                page = await self._page(query)
                if anchor is not None and not _has(page, anchor):
                    near = await self._around(query, anchor)
                    page = near if near is not None and not self._has_moved_away(anchor, near) else page
            elif anchor is not None:
                page = await self._around(query, anchor)
                if page is not None and self._has_moved_away(anchor, page):
                    # The first ones are the next to end.
                    anchor = window.below(anchor)[-1]
                    page = await self._around(query, anchor)
            if page is None:
                page = await self._page(query)
            if query == window.query:
                window.show(page, anchor=anchor)

    def _has_moved_away(self, job: int, page: JobPage) -> bool:
        """Whether a job has moved away from the jobs that were below it: it ended, or the user moved it."""
        below, acted_on = self.window.below(job), self.window.is_acted_on(job)
        if not below or self.window.query.sort != "order":
            return False
        there = {row["id"] for row in page["jobs"] if acted_on or row["status"] not in TERMINAL}
        return (acted_on or job not in there) and there.isdisjoint(below)

    async def _page(self, query: Query, **where: Any) -> JobPage:
        """Read the page at a place: `after` or `before` a cursor, `around` a job, else the first."""
        page: JobPage = await self._send(calls.jobs(query.line(), sort=query.sort, limit=PAGE, **where))
        self.window.read_at = self._now()
        return page

    async def _around(self, query: Query, job: int) -> JobPage | None:
        """The page around a job; None if the query does not match it."""
        try:
            page = await self._page(query, around=job)
        except TqError as error:
            if error.code in UNANSWERED:
                raise
            return None
        return page if _has(page, job) else None


def _has(page: JobPage, job: int) -> bool:
    return any(row["id"] == job for row in page["jobs"])
