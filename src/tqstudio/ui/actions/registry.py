"""Everything a person can do, once: keymap, footer, `?` help and command palette come from this table.

A screen or the app carries out action `x` in its method `do_x`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

from tqstudio.lifecycle import Operation
from tqstudio.ui.data.target import Target, refusal

View = Literal["queue", "job", "workers", "folders", "history", "text"]
LISTS: tuple[View, ...] = ("queue", "workers", "folders", "history")
SCROLLED: tuple[View, ...] = (*LISTS, "job", "text")
EVERY: tuple[View, ...] = SCROLLED
JOBS: tuple[View, ...] = ("queue", "job")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do.

    `text` is its word in the footer, `help` its sentence; `footer` is its rank there, 0 keeps it out.
    `operation` ties it to the lifecycle, which knows whether a job allows it.
    """

    name: str
    keys: tuple[str, ...]
    text: str
    help: str
    views: tuple[View, ...]
    group: str
    footer: int = 0
    operation: Operation | None = None
    palette: bool = True


def _move(name: str, keys: tuple[str, ...], help: str) -> Action:
    return Action(name, keys, name, help, SCROLLED, "Move", palette=False)


ACTIONS: tuple[Action, ...] = (
    Action("pause", ("p",), "pause", "pause the job, or let it go on", JOBS, "Job", 10, Operation.PAUSE),
    Action(
        "cancel", ("x",), "cancel", "end the job; finished segments stay", JOBS, "Job", 11, Operation.CANCEL
    ),
    Action("retry", ("r",), "retry", "try a failed or cancelled job again", JOBS, "Job", 12, Operation.RETRY),
    Action(
        *("retranscode", ("e",), "retranscode", "make some or all qualities of a done job again"),
        *(JOBS, "Job", 13, Operation.RETRANSCODE),
    ),
    Action(
        *("restart", ("R",), "restart", "start the job over; finished segments are lost"),
        *(JOBS, "Job", 0, Operation.RESTART),
    ),
    Action(
        *("raise", ("plus",), "priority", "raise the priority by one", JOBS, "Job", 13),
        Operation.PRIORITY,
    ),
    Action("lower", ("minus",), "lower", "lower the priority by one", JOBS, "Job", 0, Operation.PRIORITY),
    Action("priority", ("equals_sign",), "priority…", "type a priority", JOBS, "Job", 0, Operation.PRIORITY),
    Action(
        "delete",
        ("D",),
        "delete",
        "take the job off the list; U brings it back",
        JOBS,
        "Job",
        0,
        Operation.DELETE,
    ),
    Action("undelete", ("U",), "undelete", "bring back what was deleted last", JOBS, "Job"),
    Action("log", ("l",), "log", "read the log: of the newest attempt, or the chosen one", JOBS, "Job", 21),
    Action("command", ("c",), "command", "show the ffmpeg commands, ready to paste", JOBS, "Job", 22),
    Action("facts", ("i",), "facts", "all that is known about the source", JOBS, "Job", 23),
    Action("pause_all", ("P",), "pause all", "hand out no more jobs, or go on", EVERY, "Everywhere", 44),
    Action("add", ("n",), "add files", "add files or a folder to the queue", ("queue",), "Queue", 30),
    Action("sort", ("s",), "sort", "sort by queue order, newest or oldest", ("queue",), "Queue", 32),
    Action("freeze", ("F",), "freeze", "hold the list still, or let it move again", ("queue",), "Queue"),
    Action(
        *("follow", ("f",), "follow", "stay with what happens: the first job, the newest line"),
        *(("queue", "history", "text"), "Queue"),
    ),
    Action("next_attempt", ("tab",), "attempt", "choose an earlier attempt, for its log", ("job",), "Job"),
    Action("pane", ("tab",), "pane", "what the pane shows: qualities, facts, nothing", ("queue",), "Queue"),
    Action("open", ("enter",), "details", "show everything about this one", LISTS, "List", 15),
    Action("filter", ("slash",), "filter", "show only some: words, or state:failed", LISTS, "List", 16),
    Action("mark", ("space",), "mark", "mark or unmark this job", ("queue",), "List"),
    Action("mark_all", ("a",), "mark all", "mark every job that the filter shows", ("queue",), "List"),
    Action("unmark", ("u",), "unmark", "take all marks away", ("queue",), "List", 14),
    Action(
        *("copy", ("y",), "copy", "copy the path, the playlist, the command or the text"),
        *(("queue", "job", "text"), "List", 24),
    ),
    Action("worker_switch", ("e",), "on/off", "switch the worker off or on", ("workers",), "Worker", 10),
    Action(
        *("worker_drain", ("d",), "drain", "let the worker end its job and take no more"),
        *(("workers",), "Worker", 11),
    ),
    Action("folder_add", ("n",), "add folder", "watch another folder", ("folders",), "Folder", 10),
    Action("folder_switch", ("e",), "on/off", "watch the folder, or not", ("folders",), "Folder", 11),
    Action(
        "folder_remove", ("D",), "remove", "stop watching; no file is touched", ("folders",), "Folder", 12
    ),
    _move("down", ("j", "down"), "one line down"),
    _move("up", ("k", "up"), "one line up"),
    _move("top", ("g", "home"), "to the top"),
    _move("end", ("G", "end"), "to the end"),
    _move("half_up", ("ctrl+u", "pageup"), "a page up"),
    _move("half_down", ("ctrl+d", "pagedown"), "a page down"),
    Action("view_queue", ("1",), "queue", "the queue", EVERY, "Everywhere"),
    Action("view_workers", ("2",), "workers", "the workers", EVERY, "Everywhere"),
    Action("view_folders", ("3",), "folders", "the drop folders", EVERY, "Everywhere"),
    Action("view_history", ("4",), "history", "what happened", EVERY, "Everywhere"),
    Action(
        *("back", ("escape",), "back", "back: close, then filter, then marks, then view"),
        *(EVERY, "Everywhere", 45),
        palette=False,
    ),
    Action("theme", ("t",), "theme", "the next theme", EVERY, "Everywhere"),
    Action("start", ("S",), "start it", "start a supervisor when none runs", EVERY, "Everywhere", 1),
    Action("reconnect", ("ctrl+r",), "try now", "read everything anew, now", EVERY, "Everywhere", 2),
    Action(
        *("palette", ("colon", "ctrl+p"), "palette", "find an action by its name", EVERY, "Everywhere"),
        palette=False,
    ),
    Action("help", ("question_mark",), "help", "the keys of this view", EVERY, "Everywhere", 50),
    Action("suspend", ("ctrl+z",), "suspend", "back to the shell; fg comes back", EVERY, "Everywhere"),
    Action("leave", ("q", "ctrl+c"), "leave", "leave; the engine goes on", EVERY, "Everywhere", 51),
)

BY_NAME = {action.name: action for action in ACTIONS}

KEY_SIGNS = {
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "up": "↑",
    "down": "↓",
}


def key_sign(key: str) -> str:
    """A key as people read it."""
    return KEY_SIGNS.get(key, key)


def actions_of(view: View) -> list[Action]:
    return [action for action in ACTIONS if view in action.views]


def bindings_of(view: View) -> list[BindingType]:
    """The keymap of a view. Every key has a binding and an id of its own, so that it can be remapped."""
    return [
        Binding(key, f"perform('{action.name}')", action.text, show=False, id=f"{view}.{action.name}.{key}")
        for action in actions_of(view)
        for key in action.keys
    ]


def operation_for(action: Action, targets: Collection[Target]) -> Operation | None:
    """The operation an action asks for: `p` resumes when nothing of the targets can be paused."""
    if action.operation is not Operation.PAUSE:
        return action.operation

    def possible(operation: Operation) -> bool:
        return any(not refusal(operation, target) for target in targets)

    if any(target.pausable for target in targets) and (
        possible(Operation.PAUSE) or not possible(Operation.RESUME)
    ):
        return Operation.PAUSE
    return Operation.RESUME


def enabled(action: Action, targets: Collection[Target]) -> bool:
    """Whether the action would do something to one of these jobs."""
    operation = operation_for(action, targets)
    return operation is None or any(not refusal(operation, target) for target in targets)


def label(action: Action, targets: Collection[Target], *, paused: bool = False) -> str:
    """The action's word for these jobs.

    Args:
        paused: the queue is.
    """
    if action.name == "pause" and targets and operation_for(action, targets) is Operation.RESUME:
        return "resume"
    return "resume all" if action.name == "pause_all" and paused else action.text
