"""What a finished job teaches, and which of them an estimate is judged by."""

from __future__ import annotations

import asyncio

import pytest

from tqstudio.engine.forecasts import Forecasts
from tqstudio.engine.leases import Leases
from tqstudio.engine.live import LiveBoard, LiveJob
from tqstudio.engine.media.workload import Workload, workload
from tqstudio.engine.store.claims import Token
from tqstudio.engine.store.database import Database

from .test_estimates import FAST, TINY, facts


def finish(forecasts: Forecasts, work: Workload, seconds: float) -> float | None:
    """Foretell a run and have it take so long; answers what was foretold."""
    foretold = forecasts.estimates.foretell(work)
    steps = {"thumbnail": 9.0, "transcode": seconds, "finalize": 1.0}
    live = LiveJob(Token(1, 1, ""), "cpu-0", steps=steps, foretold=foretold)
    asyncio.run(forecasts.finished(live, {}))
    return foretold.seconds


def test_estimates_are_not_judged_by_jobs_with_next_to_nothing_to_do(opened: Database) -> None:
    forecasts = Forecasts(opened, LiveBoard(Leases(lease_us=1, heartbeat_us=1)))
    normal = workload(facts(), FAST, "libx264")
    assert finish(forecasts, normal, 30.0) is None
    assert finish(forecasts, normal, 31.0) is not None
    before = forecasts.estimates.error, forecasts.estimates.foretell(normal)
    for source, taken in TINY.values():
        assert finish(forecasts, workload(source, FAST, "libx264"), taken) is not None
    assert forecasts.estimates.judged == 1
    assert (forecasts.estimates.error, forecasts.estimates.foretell(normal)) == before
    asyncio.run(forecasts.load())
    assert forecasts.estimates.foretell(normal) == before[1], "nor does the next supervisor know of them"


def test_the_poster_is_made_beside_the_rest_and_takes_no_time_of_its_own(opened: Database) -> None:
    forecasts = Forecasts(opened, LiveBoard(Leases(lease_us=1, heartbeat_us=1)))
    work = workload(facts(), FAST, "libx264")
    finish(forecasts, work, 30.0)
    foretold = finish(forecasts, work, 30.0)
    assert foretold == pytest.approx(31.0)
    assert forecasts.estimates.error == pytest.approx(0)
