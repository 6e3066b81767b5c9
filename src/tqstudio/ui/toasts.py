"""Remarks that come and go: at most one, and one problem beside it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App

REMARK_S, PROBLEM_S, LETTER_S = 4.0, 6.0, 0.04
"""How long a remark stands, how long a problem, and what each letter beyond a short remark adds."""
SHORT = 60


class Toasts:
    """A newer remark takes the place of the one before; a problem is not pushed away by a remark."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._standing: dict[bool, tuple[str, float]] = {}
        self._due = False

    def show(self, text: str, *, problem: bool) -> None:
        stands_s = (PROBLEM_S if problem else REMARK_S) + LETTER_S * max(0, len(text) - SHORT)
        self._standing[problem] = (text, monotonic() + stands_s)
        if not self._due:
            # Once for all that is said in one go: what is being delivered could not be taken back.
            self._due = True
            self._app.call_next(self._show)

    def _show(self) -> None:
        self._due = False
        now = monotonic()
        self._app.clear_notifications()
        for problem, (text, until) in self._standing.items():
            if until > now:
                self._app.notify(
                    text, severity="error" if problem else "information", timeout=until - now, markup=False
                )
