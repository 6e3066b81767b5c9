"""Ctrl-C for commands that have something to say at the end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Takes Ctrl-C and SIGTERM as a wish that is looked at between two steps; a second one ends the command.

    An exception in the middle of a step would leave what the step was about unsaid.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
