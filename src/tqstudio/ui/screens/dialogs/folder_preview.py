"""A line in a dialog that says what a folder holds by the rules typed above it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from textual.timer import Timer

from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol.calls import Call
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.dialogs.dialogs import Remark
from tqstudio.words.format import counted, number

if TYPE_CHECKING:
    from tqstudio.protocol.answers import FolderPreview

PAUSE_S = 0.3
"""Time without a key after which the supervisor is asked, and without an answer after which that is said."""
_NAMED = 3
"""Files that are left out and named."""


class FolderContent(Remark):
    """What a folder holds, from the supervisor, which looks through it; nothing for what is no folder."""

    DEFAULT_CSS = """
    FolderContent { display: none; color: $text-muted; margin-top: 1; }
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._due: Timer | None = None

    def ask(self, path: str | bytes, call: Call[FolderPreview]) -> None:
        """Ask as soon as nothing was typed for a moment; what was asked before is forgotten."""
        if self._due is not None:
            self._due.stop()
        self._due = self.set_timer(PAUSE_S, lambda: self.run_worker(self._show(path, call), exclusive=True))

    async def _show(self, path: str | bytes, call: Call[FolderPreview]) -> None:
        slow = self.set_timer(PAUSE_S, lambda: self.set_text("looking through the folder…"))
        try:
            is_folder = await asyncio.to_thread(os.path.isdir, path)
            text = words_of(await self.context.feed.send(call)) if is_folder else ""
        except TqError as error:
            text = in_one_line(error.code, error.message, error.hint)
        finally:
            slow.stop()
        self.set_text(text)


def words_of(found: FolderPreview) -> str:
    """What was found: `29 videos, 3 h 10 min; 2 left out: notes.txt (no video), old/ (excluded)`."""
    problem, some = found["problem"], "" if found["complete"] else "at least "
    said = some + counted(found["videos"], "video") if found["videos"] else "no videos"
    if found["length_s"]:
        said += f", {_length(found['length_s'])}"
    if found["unknown"]:
        said += f", {number(found['unknown'])} of them" if found["length_s"] else ","
        said += " not examined yet"
    if found["left_out"]:
        named = ", ".join(f"{each['name']} ({each['reason']})" for each in found["reasons"][:_NAMED])
        more = "" if found["left_out"] <= _NAMED else ", …"
        said += f"; {some}{number(found['left_out'])} left out: {named}{more}"
    return said if problem is None else f"{said}. {in_one_line(**problem)}"


def _length(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
