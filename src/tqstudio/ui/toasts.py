"""Toasts: at most one remark and one error at a time."""

from __future__ import annotations

from time import monotonic
from typing import Any

from textual.app import App

REMARK_S, PROBLEM_S, LETTER_S = 4.0, 6.0, 0.04
"""Seconds a remark and an error are shown, and what each character beyond SHORT adds."""
SHORT = 60


class Toasts:
    """A newer remark replaces the previous one; an error is not replaced by a remark."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._current: dict[bool, tuple[str, float]] = {}
        self._due = False

    def show(self, text: str, *, problem: bool) -> None:
        stands_s = (PROBLEM_S if problem else REMARK_S) + LETTER_S * max(0, len(text) - SHORT)
        self._current[problem] = (text, monotonic() + stands_s)
        if not self._due:
            # One update per batch: a notification that is being delivered cannot be withdrawn.
            self._due = True
            self._app.call_next(self._show)

    def _show(self) -> None:
        self._due = False
        now = monotonic()
        self._app.clear_notifications()
        for problem, (text, until) in self._current.items():
            if until > now:
                self._app.notify(
                    text, severity="error" if problem else "information", timeout=until - now, markup=False
                )
