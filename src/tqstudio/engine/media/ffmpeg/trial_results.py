"""Keeps the results of trial runs for later starts of the supervisor."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of

_VALID_S = {True: 7 * 86400, False: 600}
"""For how long a trial counts as passed, or as failed. Not every change of a driver is visible."""


class Results:
    """The results in one file, by the name of each trial with all that it depends on."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            clock: seconds since 1970.
        """
        self._path, self._clock = path, clock
        self._known: dict[str, tuple[bool, float]] = {}
        self._used: dict[str, tuple[bool, float]] = {}
        # A missing or damaged file costs a trial run each.
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            stored = json.loads(durable.read(path))
            self._known = {key: (passed is True, float(at)) for key, (passed, at) in stored.items()}

    def passed(self, key: str, run: Callable[[], TqError | None]) -> bool:
        """Whether a trial passes: as it did before, else as `run` returns its error or None."""
        now = self._clock()
        if key in self._known:
            passed, at = self._known[key]
            if 0 <= now - at < _VALID_S[passed]:
                self._used[key] = passed, at
                return passed
        error = run()
        if error is None or not _is_passing(error):
            self._used[key] = error is None, now
        return error is None

    def save(self) -> None:
        """Write the results that were used or obtained; a failure to write costs trial runs later."""
        if self._used == self._known:
            return
        temporary = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            durable.write(temporary, json.dumps(self._used, indent=1).encode())
            temporary.replace(self._path)


def _is_passing(error: TqError) -> bool:
    """Whether an error may be about this moment: a timeout, or no free session, memory, process or space."""
    passing = (ErrorCode.STALLED, ErrorCode.OUT_OF_MEMORY)
    return class_of(error.code) is ErrorClass.RESOURCE or error.code in passing
