"""Endpoint of the statistics: sums of ended attempts by hour, day, batch or worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import zip_longest
from typing import Literal

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.views import fill, parse_time
from tqstudio.engine.host.clock import MICROSECOND, iso_time, now_us
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import statistics
from tqstudio.engine.store.machine.statistics import BatchLabel, Figures
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import OPEN
from tqstudio.protocol.answers import BatchSummary, StatisticsRow, StatisticsView

router = APIRouter(route_class=BoundedRoute)

_DAYS, _HOURS = 30, 48
_MAX_DAYS, _MAX_DAYS_OF_HOURS = 400, 14
_HOUR = 3600 * MICROSECOND
_MAX_ROWS = 100


@router.get("/stats")
async def stats(
    services: TheServices, since: str | None = None, by: Literal["hour", "day", "batch", "worker"] = "day"
) -> StatisticsView:
    """Sums of the attempts that ended since a time, in local time; by default of 30 days with today, or 48
    hours with this one."""
    until = now_us() + 1
    start = _since(since, until, by_hour=by == "hour")
    spans = [*(local_hours if by == "hour" else local_days)(start, until)]
    # One read a span, so that no other read waits for all of them.
    sums = [(key, await services.db.read(statistics.between, *span)) for key, *span in spans]
    rows, batches = sums, dict[str, BatchLabel]()
    queue: list[int] = []
    if by in ("hour", "day"):
        counts = await services.db.read(pages.counts_by_status)
        queue = [sum(counts[status] for status in OPEN)]
        for _, *span in spans[:0:-1]:
            queue.insert(0, max(0, queue[0] - await services.db.read(statistics.queue_change, *span)))
    elif by in ("batch", "worker"):
        rows = [*(await services.db.read(statistics.grouped, by, start, until, limit=_MAX_ROWS)).items()]
    if by == "batch":
        batches = await services.db.read(statistics.batches, [key for key, _ in rows])
    return {
        "since": iso_time(start),
        "until": iso_time(until),
        "by": by,
        "total": _row("", statistics.total(figures for _, figures in sums)),
        "rows": [
            _row(key, figures, batches.get(key), length)
            for (key, figures), length in zip_longest(rows, queue)
        ],
    }


def _since(text: str | None, until: int, *, by_hour: bool) -> int:
    if text is None and by_hour:
        return _hour_of(until) - (_HOURS - 1) * _HOUR
    if text is None:
        return _midnight(_day_of(until) - timedelta(days=_DAYS - 1))
    most = _MAX_DAYS_OF_HOURS if by_hour else _MAX_DAYS
    hint = f"write it as 2026-01-31T18:00:00, at most {most} days ago"
    try:
        start = parse_time(text)
    except (ValueError, OverflowError):
        raise TqError(ErrorCode.BAD_REQUEST, f"{text!r} is not a time", hint) from None
    if not until - most * 86_400 * MICROSECOND <= start < until:
        raise TqError(ErrorCode.BAD_REQUEST, f"{text} is not within the last {most} days", hint)
    return start


def local_days(start: int, until: int) -> Iterator[tuple[str, int, int]]:
    """Yields the local days from one time until before another, with their begin and end; they may have 23 or
    25 hours."""
    day = _day_of(start)
    while start < until:
        day += timedelta(days=1)
        end = min(_midnight(day), until)
        yield (day - timedelta(days=1)).isoformat(), start, end
        start = end


def local_hours(start: int, until: int) -> Iterator[tuple[str, int, int]]:
    """Yields the hours of the local clock, such as `2026-01-31 18:00`, as `local_days` does the days."""
    while start < until:
        hour = _hour_of(start)
        end = min(hour + _HOUR, until)
        yield f"{datetime.fromtimestamp(hour // MICROSECOND):%Y-%m-%d %H:%M}", start, end
        start = end


def _hour_of(at: int) -> int:
    """When the hour of the local clock began."""
    offset = datetime.fromtimestamp(at // MICROSECOND).astimezone().utcoffset() or timedelta()
    return at - (at + int(offset.total_seconds()) * MICROSECOND) % _HOUR


def _day_of(at: int) -> date:
    return datetime.fromtimestamp(at / MICROSECOND).date()


def _midnight(day: date) -> int:
    return int(datetime.combine(day, time()).timestamp()) * MICROSECOND


def _row(
    key: str, figures: Figures, batch: BatchLabel | None = None, queue: int | None = None
) -> StatisticsRow:
    return fill(
        StatisticsRow,
        figures,
        key=key,
        batch=None if batch is None else fill(BatchSummary, batch),
        speed=figures.speed,
        eta_error=figures.off_by(0.5),
        eta_error_p90=figures.off_by(0.9),
        queue=queue,
    )
