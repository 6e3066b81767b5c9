"""Endpoint of the statistics: sums of ended attempts by day, batch or worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Literal

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.views import fill, parse_time
from tqstudio.engine.host.clock import MICROSECOND, iso_time, now_us
from tqstudio.engine.store.machine import statistics
from tqstudio.engine.store.machine.statistics import BatchLabel, Figures
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import BatchSummary, StatisticsRow, StatisticsView

router = APIRouter(route_class=BoundedRoute)

_DAYS = 30
_MAX_DAYS = 400
_MAX_ROWS = 100


@router.get("/stats")
async def stats(
    services: TheServices, since: str | None = None, by: Literal["day", "batch", "worker"] = "day"
) -> StatisticsView:
    """Sums of the attempts that ended since a time, by default of 30 days with today, in local time."""
    until = now_us() + 1
    start = _since(since, until)
    # One read a day, so that no other read waits for all of them.
    days = {
        day.isoformat(): await services.db.read(statistics.between, begin, end)
        for day, begin, end in local_days(start, until)
    }
    rows, batches = days, dict[str, BatchLabel]()
    if by != "day":
        rows = await services.db.read(statistics.grouped, by, start, until, limit=_MAX_ROWS)
    if by == "batch":
        batches = await services.db.read(statistics.batches, rows)
    return {
        "since": iso_time(start),
        "until": iso_time(until),
        "by": by,
        "total": _row("", statistics.total(days.values())),
        "rows": [_row(key, figures, batches.get(key)) for key, figures in rows.items()],
    }


def _since(text: str | None, until: int) -> int:
    if text is None:
        return _midnight(_day_of(until) - timedelta(days=_DAYS - 1))
    hint = f"write it as 2026-01-31T18:00:00, at most {_MAX_DAYS} days ago"
    try:
        start = parse_time(text)
    except (ValueError, OverflowError):
        raise TqError(ErrorCode.BAD_REQUEST, f"{text!r} is not a time", hint) from None
    if not until - _MAX_DAYS * 86_400 * MICROSECOND <= start < until:
        raise TqError(ErrorCode.BAD_REQUEST, f"{text} is not within the last {_MAX_DAYS} days", hint)
    return start


def local_days(start: int, until: int) -> Iterator[tuple[date, int, int]]:
    """Yields the local days from one time until before another, with their begin and end; they may have 23 or
    25 hours."""
    day = _day_of(start)
    while start < until:
        day += timedelta(days=1)
        end = min(_midnight(day), until)
        yield day - timedelta(days=1), start, end
        start = end


def _day_of(at: int) -> date:
    return datetime.fromtimestamp(at / MICROSECOND).date()


def _midnight(day: date) -> int:
    return int(datetime.combine(day, time()).timestamp()) * MICROSECOND


def _row(key: str, figures: Figures, batch: BatchLabel | None = None) -> StatisticsRow:
    return fill(
        StatisticsRow,
        figures,
        key=key,
        batch=None if batch is None else fill(BatchSummary, batch),
        speed=figures.speed,
        eta_error=figures.off_by(0.5),
        eta_error_p90=figures.off_by(0.9),
    )
