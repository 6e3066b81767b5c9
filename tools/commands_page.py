"""Renders the reference of commands and of error and warning codes from the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tqstudio.cli.command_tree import root_command
from tqstudio.errors import MEANINGS, WARNINGS, ErrorClass

_LEFT_OUT = {"--install-completion", "--show-completion", "--json"}
_CLASSES = {
    ErrorClass.FATAL: "fails at once",
    ErrorClass.RESOURCE: "waits",
    ErrorClass.RETRYABLE: "is retried",
    ErrorClass.LOST: "counts a crash",
    ErrorClass.REQUEST: "–",
}


def commands() -> str:
    """Every command that is not hidden: synopsis, help, options."""
    parts = []
    for name, command in tree():
        synopsis = " ".join(["tqstudio", *name.split(), *arguments(command)])
        about = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
        rows = [f"| {_signs(each)} | {_cell(each.help)} |" for each in options(command)]
        table = ["", "| option | |", "|---|---|", *rows] if rows else []
        parts.append("\n".join([f"### `{synopsis}`", "", about, *table]))
    return "\n\n".join(parts)


def tree() -> Iterator[tuple[str, Any]]:
    """(name, command) of every command that is not hidden, "" for the program itself."""
    root = root_command()
    yield "", root
    for name in root.commands:
        command: Any = root.get_command(None, name)
        for verb in getattr(command, "commands", [""]):
            each = command.get_command(None, verb) if verb else command
            if not each.hidden:
                yield f"{name} {verb}".strip(), each


def errors() -> str:
    """The table of error codes."""
    rows = [
        f"| {code} | {_CLASSES[each.error_class]} | {_cell(each.meaning)} | {_cell(each.hint)} |"
        for code, each in MEANINGS.items()
    ]
    return "\n".join(["| code | the job | meaning | what to do |", "|---|---|---|---|", *rows])


def warnings() -> str:
    """The table of warning codes."""
    rows = [f"| {code} | {meaning} |" for code, meaning in WARNINGS.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def options(command: Any) -> list[Any]:
    """The options of a command that are shown."""
    return [
        each
        for each in command.params
        if each.param_type_name == "option" and not each.hidden and not _LEFT_OUT & set(each.opts)
    ]


def arguments(command: Any) -> list[str]:
    """The arguments of a command, as in its synopsis."""
    return [
        each.metavar or each.name.upper() for each in command.params if each.param_type_name == "argument"
    ]


def _signs(option: Any) -> str:
    words = [f"`{each}`" for each in sorted((*option.opts, *option.secondary_opts), key=len)]
    value = "" if option.is_flag or not option.metavar else f" {_cell(option.metavar)}"
    return ", ".join(words) + value


def _cell(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|")
