"""Tips: actions that are worth a try, shown until each was tried."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tip:
    """An action of the registry, and what it does in a few words."""

    action: str
    does: str
    status: str = ""
    """Shown only while a job has this status."""


class Tips:
    """The tips that are left."""

    def __init__(self, tips: Sequence[Tip] = ()) -> None:
        self._left = {tip.action: tip for tip in tips}

    def shown(self, actions: Collection[str], statuses: Collection[str]) -> list[Tip]:
        """The tips for these actions while jobs have these statuses."""
        return [
            tip
            for tip in self._left.values()
            if tip.action in actions and (not tip.status or tip.status in statuses)
        ]

    def tried(self, action: str) -> bool:
        """Remove the tip of an action; whether there was one."""
        return self._left.pop(action, None) is not None

    def close(self) -> None:
        """Remove all tips."""
        self._left.clear()
