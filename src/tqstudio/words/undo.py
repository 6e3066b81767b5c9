"""Describes in a sentence what was undone, for commands and the terminal UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tqstudio.lifecycle import Undoable
from tqstudio.paths import readable
from tqstudio.words.format import counted, number

if TYPE_CHECKING:
    from tqstudio.protocol.answers import UndoAnswer

NOTHING = "nothing left to undo"

_DONE = {
    Undoable.PAUSE: "resumed {what} again",
    Undoable.RESUME: "paused {what} again",
    Undoable.CANCEL: "cancelling {what} is undone",
    Undoable.CHANGE: "the former settings of {what} are back",
    Undoable.PRIORITY: "the former priority of {what} is back",
    Undoable.DELETE: "{what} restored to the list",
    Undoable.VIDEO_DELETED: "video {what} is back",
    Undoable.FOLDER_ON: "{what} is off again",
    Undoable.FOLDER_OFF: "{what} is watched again",
    Undoable.FOLDER_CHANGED: "the former rules of {what} are back",
    Undoable.FOLDER_REMOVED: "{what} is watched again",
}


def added(before: UndoAnswer | None, answer: UndoAnswer) -> UndoAnswer:
    """Add the next part of an action to the parts before it."""
    if before is None:
        return answer
    back, left = before["restored"] + answer["restored"], before["not_restored"] + answer["not_restored"]
    return {**answer, "restored": back, "not_restored": left, "reason": before["reason"] or answer["reason"]}


def sentence(answer: UndoAnswer) -> str:
    """What was undone, and how many were left and why."""
    if answer["operation"] is None:
        return NOTHING
    back, left, several = (
        answer["restored"],
        answer["not_restored"],
        answer["restored"] + answer["not_restored"] > 1,
    )
    what = counted(back, "job") if several else readable(answer["subject"])
    done = _DONE[Undoable(answer["operation"])].format(what=what) if back else "nothing undone"
    if not left:
        return done
    them = f"{number(left)} left" if several else readable(answer["subject"])
    why = answer["reason"] or ("they were changed since" if left > 1 else "it was changed since")
    return f"{done}; {them}: {why}"
