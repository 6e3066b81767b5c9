"""Pages of the job list whose requests fail or overtake each other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tqstudio.errors import ErrorCode, TqError
from tqstudio.ui.data.job_pages import JobPages
from tqstudio.ui.data.job_window import JobWindow
from tqstudio.ui.data.query import query_of

EMPTY = {"jobs": [], "before": None, "after": None, "total": 0}


async def test_a_filter_typed_and_entered_survives_that_the_first_request_fails() -> None:
    answers = [asyncio.Event(), asyncio.Event()]
    sent: list[int] = []

    async def send(_call: Any) -> Any:
        sent.append(number := len(sent))
        await answers[number].wait()
        if number == 0:
            raise TqError(ErrorCode.TIMEOUT, "no answer")
        return EMPTY

    window = JobWindow()
    before = window.query
    job_pages = JobPages(window, send, lambda: datetime.now(UTC))
    typed = asyncio.create_task(job_pages.ask(query_of("state:done")))
    await asyncio.sleep(0)
    entered = asyncio.create_task(job_pages.ask(query_of("state:done")))
    await asyncio.sleep(0)
    answers[0].set()
    with pytest.raises(TqError):
        await typed
    answers[1].set()
    await entered
    assert (window.query.line(), window.loaded) == ("state:done", True)

    answers[:] = [asyncio.Event(), asyncio.Event()]
    sent.clear()
    failing = asyncio.create_task(job_pages.ask(query_of("other")))
    answers[0].set()
    with pytest.raises(TqError):
        await failing
    assert window.query.line() == "state:done", "what is shown"
    assert before.line() == ""
