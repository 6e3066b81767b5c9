"""Waits for conditions: the tests never sleep for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 120.0
"""Long enough for a machine that does much else; a condition that holds earlier is noticed at once."""
_POLL_S = 0.02
_SLOWEST_POLL_S = 0.2


def until(condition: Callable[[], T], what: str = "the condition", timeout_s: float = WAIT_S) -> T:
    """Wait until a condition holds, and answer its value.

    The longer it takes, the more rarely it is checked: a check may cost the supervisor a request, and what
    tests that wait use is missing where others work.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise AssertionError(f"not true within {timeout_s:g} s: {what}")
        time.sleep(min(_SLOWEST_POLL_S, _POLL_S + waited_s / 20))
    return value


async def until_true(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    """Wait on the event loop until a condition of other threads or processes holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - states of the disk and of other threads
            await asyncio.sleep(_POLL_S / 4)
