"""Sets the wall clock of a supervisor and its children alone, by libfaketime."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

YEAR_S = 365 * 86_400


class WallClock:
    """A wall clock in the test's hands; monotonic clocks and the times of files are the machine's.

    Args:
        file: says how far it is ahead, and may be moved while processes run.
    """

    def __init__(self, file: Path) -> None:
        found = find_spec("libfaketime")
        assert found is not None, "of the tests' dependencies"
        assert found.origin is not None
        [library] = Path(found.origin).parent.rglob("libfaketime.so.1")
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else waits with a timeout return at once, and whoever waits spins.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
            "TZ": "UTC",
        }
        self.ahead_s = 0.0
        self.set(0)

    def set(self, ahead_s: float) -> None:
        """Set it so many seconds ahead of the machine's, or behind."""
        self.ahead_s = ahead_s
        # At once: a reader would take half a number.
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_s:+.0f}\n")
        new.replace(self._file)
