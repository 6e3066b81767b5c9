"""The table of all actions: keymap, footer, `?` help and command palette are generated from it.

Screens and the app implement action `x` as method `do_x`.
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
    """One action.

    `text` is its word in the footer, `help` its sentence; `footer` is its rank there, 0 leaves it out.
    `operation` is the lifecycle operation that decides whether a job allows it.
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
    Action("pause", ("p",), "pause", "pause or resume the job", JOBS, "Job", 10, Operation.PAUSE),
    Action(
        "cancel",
        ("x",),
        "cancel",
        "cancel the job; finished segments are kept",
        JOBS,
        "Job",
        11,
        Operation.CANCEL,
    ),
    Action("retry", ("r",), "retry", "retry a failed or cancelled job", JOBS, "Job", 12, Operation.RETRY),
    Action(
        *("retranscode", ("e",), "retranscode", "encode some or all qualities of a done job again"),
        *(JOBS, "Job", 13, Operation.RETRANSCODE),
    ),
    Action(
        *("restart", ("R",), "restart", "restart the job; finished segments are discarded"),
        *(JOBS, "Job", 0, Operation.RESTART),
    ),
    Action(
        *("raise", ("plus",), "priority", "raise the priority by 1", JOBS, "Job", 13),
        Operation.PRIORITY,
    ),
    Action("lower", ("minus",), "lower", "lower the priority by 1", JOBS, "Job", 0, Operation.PRIORITY),
    Action("priority", ("equals_sign",), "priority…", "set the priority", JOBS, "Job", 0, Operation.PRIORITY),
    Action(
        "delete",
        ("D",),
        "delete",
        "remove the job from the list; U restores it",
        JOBS,
        "Job",
        0,
        Operation.DELETE,
    ),
    Action("undelete", ("U",), "undelete", "restore the jobs deleted last", JOBS, "Job"),
    Action("log", ("l",), "log", "show the log of the latest or selected attempt", JOBS, "Job", 21),
    Action("command", ("c",), "command", "show the ffmpeg commands, ready to paste", JOBS, "Job", 22),
    Action("facts", ("i",), "facts", "show everything known about the source", JOBS, "Job", 23),
    Action("pause_all", ("P",), "pause all", "pause or resume the whole queue", EVERY, "Everywhere", 44),
    Action("add", ("n",), "add files", "add files or a folder to the queue", ("queue",), "Queue", 30),
    Action("sort", ("s",), "sort", "sort by queue order, newest or oldest", ("queue",), "Queue", 32),
    Action("freeze", ("F",), "freeze", "freeze or unfreeze the order of the list", ("queue",), "Queue"),
    Action(
        *("follow", ("f",), "follow", "keep the cursor on the first job or the newest line"),
        *(("queue", "history", "text"), "Queue"),
    ),
    Action("next_attempt", ("tab",), "attempt", "select an earlier attempt, for its log", ("job",), "Job"),
    Action("pane", ("tab",), "pane", "switch the pane: qualities, facts, hidden", ("queue",), "Queue"),
    Action("open", ("enter",), "details", "show all details of the selected line", LISTS, "List", 15),
    Action("filter", ("slash",), "filter", "filter the list: words, or state:failed", LISTS, "List", 16),
    Action("mark", ("space",), "mark", "mark or unmark this job", ("queue",), "List"),
    Action("mark_all", ("a",), "mark all", "mark every job that the filter shows", ("queue",), "List"),
    Action("unmark", ("u",), "unmark", "remove all marks", ("queue",), "List", 14),
    Action(
        *("copy", ("y",), "copy", "copy the path, the playlist, the command or the text"),
        *(("queue", "job", "text"), "List", 24),
    ),
    Action("worker_switch", ("e",), "on/off", "enable or disable the worker", ("workers",), "Worker", 10),
    Action(
        *("worker_drain", ("d",), "drain", "finish the running job, then take no more"),
        *(("workers",), "Worker", 11),
    ),
    Action("folder_add", ("n",), "add folder", "watch another folder", ("folders",), "Folder", 10),
    Action(
        "folder_switch", ("e",), "on/off", "start or stop watching the folder", ("folders",), "Folder", 11
    ),
    Action(
        "folder_remove",
        ("D",),
        "remove",
        "remove the drop folder; no file is touched",
        ("folders",),
        "Folder",
        12,
    ),
    _move("down", ("j", "down"), "one line down"),
    _move("up", ("k", "up"), "one line up"),
    _move("top", ("g", "home"), "to the top"),
    _move("end", ("G", "end"), "to the end"),
    _move("half_up", ("ctrl+u", "pageup"), "a page up"),
    _move("half_down", ("ctrl+d", "pagedown"), "a page down"),
    Action("view_queue", ("1",), "queue", "show the queue", EVERY, "Everywhere"),
    Action("view_workers", ("2",), "workers", "show the workers", EVERY, "Everywhere"),
    Action("view_folders", ("3",), "folders", "show the drop folders", EVERY, "Everywhere"),
    Action("view_history", ("4",), "history", "show the event history", EVERY, "Everywhere"),
    Action(
        *("back", ("escape",), "back", "go back: close, clear filter, clear marks, queue"),
        *(EVERY, "Everywhere", 45),
        palette=False,
    ),
    Action("theme", ("t",), "theme", "switch to the next theme", EVERY, "Everywhere"),
    Action("start", ("S",), "start it", "start a supervisor if none is running", EVERY, "Everywhere", 1),
    Action("reconnect", ("ctrl+r",), "try now", "reconnect and reload now", EVERY, "Everywhere", 2),
    Action(
        *("palette", ("colon", "ctrl+p"), "palette", "search actions by name", EVERY, "Everywhere"),
        palette=False,
    ),
    Action("help", ("question_mark",), "help", "show the keys of this view", EVERY, "Everywhere", 50),
    Action("suspend", ("ctrl+z",), "suspend", "suspend to the shell; fg resumes", EVERY, "Everywhere"),
    Action(
        "leave",
        ("q", "ctrl+c"),
        "quit",
        "quit the UI; the supervisor keeps running",
        EVERY,
        "Everywhere",
        51,
    ),
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
    """The displayed name of a key."""
    return KEY_SIGNS.get(key, key)


def actions_of(view: View) -> list[Action]:
    return [action for action in ACTIONS if view in action.views]


def bindings_of(view: View) -> list[BindingType]:
    """The keymap of a view; every key has a binding id of its own, so that it can be remapped."""
    return [
        Binding(key, f"perform('{action.name}')", action.text, show=False, id=f"{view}.{action.name}.{key}")
        for action in actions_of(view)
        for key in action.keys
    ]


def operation_for(action: Action, targets: Collection[Target]) -> Operation | None:
    """The operation of an action: `p` resumes if none of the targets can be paused."""
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
    """Whether at least one of these jobs allows the action."""
    operation = operation_for(action, targets)
    return operation is None or any(not refusal(operation, target) for target in targets)


def label(action: Action, targets: Collection[Target], *, paused: bool = False) -> str:
    """The action's footer word for these jobs.

    Args:
        paused: whether the queue is paused.
    """
    if action.name == "pause" and targets and operation_for(action, targets) is Operation.RESUME:
        return "resume"
    return "resume all" if action.name == "pause_all" and paused else action.text
