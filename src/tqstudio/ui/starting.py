"""Follows the start of a supervisor, and finds out why it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from subprocess import Popen

from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.protocol import launch
from tqstudio.ui.data.model import Model

START_POLL_S = 0.1
"""Interval of checks on a supervisor that is starting."""


async def start_problem(
    home: Home, model: Model, process: Popen[bytes], listening: Callable[[], bool]
) -> TqError | None:
    """Wait until a supervisor answers, or return why it could not start.

    Wrong settings are reported before it has exited.

    Args:
        listening: whether a supervisor accepts connections, perhaps another one.
    """
    problem = await asyncio.to_thread(_wrong_settings, home)
    if problem is not None:
        # Left running, it might read settings corrected meanwhile and start beside the next one.
        process.terminate()
    while problem is None:
        if model.up:
            return None
        if process.poll() is None:
            await asyncio.sleep(START_POLL_S)
        elif await asyncio.to_thread(listening):
            return None
        else:
            problem = launch.exit_error(home, process)
    return problem


def _wrong_settings(home: Home) -> TqError | None:
    from tqstudio.config import load_settings

    try:
        load_settings(home)
    except TqError as error:
        return error
    return None
