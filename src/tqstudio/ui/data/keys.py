"""The keys of the UI as the user has set them, and the user's own commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PLACEHOLDER = re.compile(r"(?<![$\w])\{([a-z_]+)\}")
"""A part of an own command that stands for a fact about the job; `${home}` is the shell's."""


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A shell command on a key; with `terminal` it has the terminal until it ends."""

    run: str
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class Keys:
    by_view: Mapping[str, Mapping[str, tuple[str, ...]]]
    """View → action → its keys."""
    commands: Mapping[str, OwnCommand]
    """Key → what it runs, in the queue and on the job page."""
    problems: tuple[str, ...]
    """What is wrong with the file, each a sentence."""

    def of(self, view: str, action: str) -> tuple[str, ...]:
        """The keys of an action of a view."""
        return self.by_view[view][action]
