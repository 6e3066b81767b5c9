"""Remembers how the user has set up the UI, from one start to the next."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Literal

from tqstudio.home import Home

Key = Literal["theme", "view", "sort", "pane", "reports", "pictures", "filters"]
KEPT_FILTERS = 10


class Remembered:
    """The choices of the user in the home's `ui.json`; unreadable ones are as if there were none."""

    def __init__(self, home: Home) -> None:
        self._path = home.root / "ui.json"
        self._values: dict[str, str] = {}
        with suppress(OSError, ValueError):
            found = json.loads(self._path.read_text())
            if isinstance(found, dict):
                self._values = {key: value for key, value in found.items() if isinstance(value, str)}

    def get(self, key: Key) -> str | None:
        """The remembered choice; None for none."""
        return self._values.get(key)

    @property
    def filters(self) -> list[str]:
        """The last filters, newest last."""
        return [line for line in (self.get("filters") or "").split("\n") if line]

    def keep_filter(self, line: str) -> None:
        """Add a filter to the last ones."""
        kept = [each for each in self.filters if each != line]
        self.set("filters", "\n".join([*kept, line][-KEPT_FILTERS:]))

    def set(self, key: Key, value: str) -> None:
        """Remember a choice. If it cannot be written, it lasts until the UI ends."""
        if self._values.get(key) != value:
            self._values[key] = value
            with suppress(OSError):
                self._path.write_text(json.dumps(self._values) + "\n")
