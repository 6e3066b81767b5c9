"""Completes values that the studio knows: numbers of jobs and folders, names of profiles and workers.

Without a supervisor that answers in time there are none, and no error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from typer._click.shell_completion import CompletionItem

from tqstudio.cli.terminal.options import after_commas, use_studio
from tqstudio.errors import WARNINGS, TqError
from tqstudio.home import current_home
from tqstudio.lifecycle import QUEUE_ORDER
from tqstudio.paths import readable
from tqstudio.protocol import calls, remote
from tqstudio.protocol.client import Client
from tqstudio.words.sentences import status_word

_ANSWER_S = 1.0
_AT_MOST = 200
_NEWEST = 2**53
"""Above the number of any video."""
_STATUSES = {
    "pause": ("in_progress", "pending"),
    "resume": ("paused",),
    "cancel": ("in_progress", "pending", "paused"),
    "retry": ("failed", "cancelled"),
    "change": ("pending", "paused", "done"),
    "retranscode": ("done",),
}
"""Of the jobs that a command is for."""
Values = Mapping[str, str]
"""Descriptions, which zsh and fish show, by value."""


def complete(command: Any) -> None:
    """Let the values of a command's options and arguments be completed."""
    for param in command.params:
        of = _SOURCES.get(f"{command.name} {param.name}") or _SOURCES.get(param.name)
        if of is not None:
            param.shell_complete = _completing(of)


def _completing(of: Callable[[Any, str], Values]) -> Callable[[Any, str], list[CompletionItem]]:
    def found(ctx: Any, incomplete: str) -> list[CompletionItem]:
        use_studio(**ctx.find_root().params)
        values = of(ctx, incomplete).items()
        return [CompletionItem(x, help=readable(about)) for x, about in values if x.startswith(incomplete)]

    return found


def _jobs(ctx: Any, _: str) -> Values:
    verb = ctx.command.name
    states = ("deleted",) if verb == "undelete" else _STATUSES.get(verb, ())
    call = calls.jobs(f"state:{','.join(states)}" if states else "", limit=_AT_MOST)
    return {str(each["id"]): f"{each['word']} {each['name']}" for each in _rows(call, "jobs")}


def _profiles(*_: object) -> Values:
    """Also without a supervisor, as profiles are files; then without descriptions."""
    from tqstudio.engine.media.plan.profiles import SHIPPED_DIR

    found = _described(calls.profiles(), "profiles", "name", "description")
    files = [*SHIPPED_DIR.glob("*.toml"), *current_home().profiles.glob("*.toml")]
    return found or {file.stem: "" for file in sorted(files)}


def _described(call: Any, key: str, value: str, about: str) -> Values:
    return {str(each[value]): each[about] for each in _rows(call, key)}


def _rows(call: Any, key: str) -> list[Any]:
    """What the studio answers; empty if it does not answer in time."""
    rows: list[Any] = []

    def ask() -> None:
        with suppress(TqError, OSError):
            at = Client(remote.chosen() or current_home().socket)
            rows.extend(at.send(call, timeout_s=_ANSWER_S)[key])

    # A host that does not answer would take longer to connect to.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_S)
    return rows


_SOURCES: Mapping[str, Callable[[Any, str], Values]] = {
    **dict.fromkeys(("ids", "job_id", "job", "arguments"), _jobs),
    **dict.fromkeys(("profile", "extends", "show name", "check name"), _profiles),
    "video": lambda *_: _described(calls.videos(before=_NEWEST, limit=_AT_MOST), "videos", "id", "name"),
    "folder": lambda *_: _described(calls.folders(), "folders", "id", "path"),
    "names": lambda *_: _described(calls.workers(), "workers", "name", "status"),
    "revoke name": lambda *_: _described(calls.tokens(), "tokens", "name", "role"),
    "status": lambda _, typed: dict.fromkeys(after_commas(typed, map(status_word, QUEUE_ORDER)), ""),
    "warning": lambda *_: {"any": "any warning", **WARNINGS},
    "owner": lambda *_: dict.fromkeys(("folder", "user", "upload"), ""),
}
"""By the parameter of a command's function, after the command's name where that differs."""
