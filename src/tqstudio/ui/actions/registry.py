"""The table of all actions: keymap, footer, `?` help and command palette are generated from it.

Screens and the app implement action `x` as method `do_x`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

from textual.binding import Binding, BindingType

from tqstudio.lifecycle import Operation
from tqstudio.ui.data.target import Target, refusal

View = Literal["queue", "job", "workers", "folders", "history", "statistics", "text", "log", "wall"]
LISTS: tuple[View, ...] = ("queue", "workers", "folders", "history")
SCROLLED: tuple[View, ...] = (*LISTS, "job", "statistics", "text", "log")
JOBS: tuple[View, ...] = ("queue", "job")
EVERYWHERE: tuple[View, ...] = (*SCROLLED, "wall")
READ_ONLY = frozenset({"leave", "suspend", "theme", "help", "reconnect"})
"""The actions of a read-only screen."""


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
    footer: int = 0
    operation: Operation | None = None
    palette: bool = True
    _: KW_ONLY
    group: str
    views: tuple[View, ...]


_job = partial(Action, group="Job", views=JOBS)
_queue = partial(Action, group="Queue", views=("queue",))
_list = partial(Action, group="List", views=("queue",))
_log = partial(Action, group="Log", views=("log",))
_worker = partial(Action, group="Worker", views=("workers",))
_folder = partial(Action, group="Folder", views=("folders",))
_move = partial(Action, group="Move", views=SCROLLED, palette=False)
_everywhere = partial(Action, group="Everywhere", views=EVERYWHERE)

ACTIONS: tuple[Action, ...] = (
    _job("pause", ("p",), "pause", "pause or resume the job", 10, Operation.PAUSE),
    _job("cancel", ("x",), "cancel", "cancel the job; finished segments are kept", 11, Operation.CANCEL),
    _job(
        "retry",
        ("r",),
        "retry",
        "retry a failed or cancelled job; restore a deleted one",
        12,
        Operation.RETRY,
    ),
    _job(
        "change",
        ("e",),
        "change",
        "change a waiting job, or encode a done one again",
        13,
        Operation.CHANGE,
    ),
    _job(
        "restart", ("R",), "restart", "restart the job; finished segments are discarded", 0, Operation.RESTART
    ),
    _job("raise", ("plus",), "priority", "raise the priority by 1", 13, Operation.PRIORITY),
    _job("lower", ("minus",), "lower", "lower the priority by 1", 0, Operation.PRIORITY),
    _job("priority", ("equals_sign",), "priority…", "set the priority", 0, Operation.PRIORITY),
    _job("delete", ("D",), "delete", "remove the job from the list", 0, Operation.DELETE),
    _job("delete_video", ("X",), "delete video", "delete the video with its ladder"),
    _job("open_result", ("o",), "open", "show the job's result in the browser, or copy its address", 25),
    _job("log", ("l",), "log", "show the log of the latest or selected attempt", 21),
    _job("command", ("c",), "command", "show the ffmpeg commands, ready to paste", 22),
    _job("facts", ("i",), "facts", "show everything known about the source", 23),
    _everywhere("undo", ("z",), "undo", "undo your newest action; repeated, the one before", 43),
    _everywhere("pause_all", ("P",), "pause all", "pause or resume the whole queue", 44),
    _everywhere("pause_until", ("W",), "pause until…", "pause the whole queue until a time"),
    _queue("add", ("n",), "add files", "add files or a folder to the queue", 30),
    _queue("sort", ("s",), "sort…", "choose what the list is sorted by", 32),
    _queue("freeze", ("F",), "freeze", "freeze or unfreeze the order of the list"),
    _queue(
        "follow",
        ("f",),
        "follow",
        "keep the cursor on the first job or the newest line",
        views=("queue", "history", "text", "log"),
    ),
    _job("next_attempt", ("tab",), "attempt", "select an earlier attempt, for its log", views=("job",)),
    _job("pictures", ("v",), "pictures", "show or hide the pictures of the video", views=("job",)),
    _queue("pane", ("tab",), "pane", "switch the pane: qualities, facts, hidden"),
    _list(
        "open", ("enter",), "details", "show all details of the selected line", 15, views=("queue", "history")
    ),
    _list("open", ("enter",), "its job", "show the job of the selected worker", 15, views=("workers",)),
    _list("open", ("enter",), "its jobs", "show the jobs of the selected folder", 15, views=("folders",)),
    _list(
        "filter",
        ("slash",),
        "filter",
        "filter the list: words, or state:failed",
        16,
        views=LISTS,
    ),
    _list("acted_on", ("grave_accent",), "last job", "move to the job acted on last"),
    _list("mark", ("space",), "mark", "mark or unmark this job"),
    _list("mark_all", ("a",), "mark all", "mark every job that the filter shows"),
    _list("range", ("v",), "range", "mark from this job to the one where it is pressed again"),
    _list("alike", ("asterisk",), "alike", "mark what has this job's error code, drop folder or profile"),
    _list("unmark", ("u",), "unmark", "remove all marks", 14),
    _list(
        "copy",
        ("y",),
        "copy",
        "copy the path, the playlist, the command or the text",
        24,
        views=("queue", "job", "text", "log"),
    ),
    _log("search", ("slash",), "search", "search for a text in the log", 10),
    _log("next_match", ("n",), "next", "go to the next line that matches", 11),
    _log("previous_match", ("N",), "previous", "go to the previous line that matches"),
    _log("next_error", ("e",), "next error", "go to the next line about an error", 12),
    _log("fold", ("enter",), "fold", "fold or show commands and what ffmpeg says of its files", 13),
    _log("wrap", ("w",), "wrap", "break long lines, or cut them", 14),
    _log("previous_job", ("left_square_bracket",), "job above", "show the log of the job above in the list"),
    _log("next_job", ("right_square_bracket",), "job below", "show the log of the job below in the list", 15),
    _log("save", ("s",), "save", "save the log in the working directory", 16),
    _worker("worker_switch", ("e",), "on/off", "enable or disable the worker", 10),
    _worker("worker_drain", ("d",), "drain", "finish the running job, then take no more", 11),
    _worker("worker_add", ("n",), "add…", "add a worker, here or on another machine", 12),
    _worker("worker_remove", ("D",), "remove", "end the worker; its job is requeued", 13),
    _folder("folder_add", ("n",), "add folder", "watch another folder", 10),
    _folder("folder_switch", ("e",), "on/off", "start or stop watching the folder", 11),
    _folder("folder_rules", ("r",), "rules…", "edit its rules, and see what they would take", 13),
    _folder("folder_remove", ("D",), "remove", "remove the drop folder; no file is touched", 12),
    _move("down", ("j", "down"), "down", "one line down"),
    _move("up", ("k", "up"), "up", "one line up"),
    _move("top", ("g", "home"), "top", "to the top"),
    _move("end", ("G", "end"), "end", "to the end"),
    _move("half_up", ("ctrl+u", "pageup"), "half_up", "a page up"),
    _move("half_down", ("ctrl+d", "pagedown"), "half_down", "a page down"),
    _everywhere("view_queue", ("1",), "queue", "show the queue"),
    _everywhere("view_workers", ("2",), "workers", "show the workers"),
    _everywhere("view_folders", ("3",), "folders", "show the drop folders"),
    _everywhere("view_history", ("4",), "history", "show the event history"),
    _everywhere("view_statistics", ("5",), "statistics", "show what was done in the last 30 days"),
    _everywhere(
        "view_wall",
        ("w",),
        "wall",
        "show the running jobs as bands, each segment in the colour of its machine",
        40,
        views=tuple(view for view in SCROLLED if view != "log"),
    ),
    _everywhere("close_wall", ("w",), "back", "go back to the queue", palette=False, views=("wall",)),
    _everywhere(
        "back", ("escape",), "back", "go back: close, clear filter, clear marks, queue", 45, palette=False
    ),
    _everywhere("reported", ("exclamation_mark",), "failed job", "show the job that failed last"),
    _everywhere("reports", ("b",), "reports", "report failures and an empty queue with the bell, or not"),
    _everywhere("theme", ("t",), "theme", "switch to the next theme"),
    _everywhere("start", ("S",), "start it", "start a supervisor if none is running", 1),
    _everywhere("reconnect", ("ctrl+r",), "try now", "reconnect and reload now", 2),
    _everywhere(
        "palette",
        ("colon", "ctrl+p"),
        "palette",
        "find an action, job, folder, worker, profile, setting or theme",
        palette=False,
    ),
    _everywhere("help", ("question_mark",), "help", "show this menu of what can be done here", 50),
    _everywhere("suspend", ("ctrl+z",), "suspend", "suspend to the shell; fg resumes"),
    _everywhere("leave", ("q", "ctrl+c"), "quit", "quit the UI; the supervisor keeps running", 51),
)

BY_NAME = {action.name: action for action in ACTIONS}


def actions_of(view: View, *, read_only: bool = False) -> list[Action]:
    """The actions of a view, or those of them that a read-only screen has."""
    return [each for each in ACTIONS if view in each.views and (each.name in READ_ONLY or not read_only)]


def bindings_of(view: View) -> list[BindingType]:
    """The keymap of a view; every key has a binding id of its own, so that it can be remapped."""
    return [
        Binding(key, f"perform('{action.name}')", action.text, show=False, id=f"{view}.{action.name}.{key}")
        for action in actions_of(view)
        for key in action.keys
    ]


def operation_for(action: Action, targets: Collection[Target]) -> Operation | None:
    """The operation of an action: `p` resumes if none of the targets can be paused; `r` restores deleted ones
    if none can be retried."""
    if action.operation is Operation.RETRY and any(target.deleted for target in targets):
        return Operation.RETRY if _is_possible(Operation.RETRY, targets) else Operation.UNDELETE
    if action.operation is not Operation.PAUSE:
        return action.operation
    pauses = _is_possible(Operation.PAUSE, targets) or not _is_possible(Operation.RESUME, targets)
    return Operation.PAUSE if pauses and any(target.pausable for target in targets) else Operation.RESUME


def _is_possible(operation: Operation, targets: Collection[Target]) -> bool:
    return any(not refusal(operation, target) for target in targets)


def enabled(action: Action, targets: Collection[Target]) -> bool:
    """Whether at least one of these jobs allows the action."""
    return not obstacle(action, targets)


def obstacle(action: Action, targets: Collection[Target]) -> str:
    """Why none of these jobs allows the action; empty if one does."""
    operation = operation_for(action, targets)
    if operation is None or _is_possible(operation, targets):
        return ""
    return next((refusal(operation, target) for target in targets), "no job is selected")


def label(action: Action, targets: Collection[Target], *, paused: bool = False) -> str:
    """The action's footer word for these jobs, in a queue that may be `paused`."""
    if action.name == "pause" and targets and operation_for(action, targets) is Operation.RESUME:
        return "resume"
    if action.name == "retry" and operation_for(action, targets) is Operation.UNDELETE:
        return "restore"
    return "resume all" if action.name == "pause_all" and paused else action.text
