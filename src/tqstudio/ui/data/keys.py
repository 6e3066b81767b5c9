"""The keys of the UI as the user has set them, and the user's own commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PLACEHOLDER = re.compile(r"(?<![$\w])\{([a-z_]+)\}")
"""A part of an own command that stands for a fact about the job; `${home}` is the shell's."""


KEY_SIGNS = {
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "slash": "/",
    "asterisk": "*",
    "grave_accent": "`",
    "exclamation_mark": "!",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "colon": ":",
    "question_mark": "?",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "up": "↑",
    "down": "↓",
}


def key_sign(key: str) -> str:
    """The displayed name of a key."""
    return KEY_SIGNS.get(key, key)


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

    def sign(self, action: str) -> str:
        """The key of an action as sentences name it; for one without a key, how the palette finds it."""
        found = (keys[action] for keys in self.by_view.values() if keys.get(action))
        return key_sign(next(found, (f":{action}",))[0])
