"""Deferred handling of Ctrl-C, for commands that print a summary at the end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Records Ctrl-C and SIGTERM, to be checked between two steps; a second one ends the command.

    An exception in the middle of a step would lose that step's result.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
