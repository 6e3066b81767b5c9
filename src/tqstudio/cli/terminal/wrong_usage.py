"""Says in words what is wrong with a command line, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import readable
from tqstudio.toml_files import near, one_of

_JOB = "a job number, such as 12"
_NUMBERS = {"ids": _JOB, "job_id": _JOB, "job": _JOB, "folder": "a folder number, such as 3"}


def no_command(ctx: typer.Context, name: str, known: Sequence[str]) -> TqError:
    hint = f"{near(name, known)}see: {ctx.command_path} --help"
    return TqError(ErrorCode.BAD_REQUEST, f"{ctx.command_path} has no command {_shown(name)}", hint)


def usage_message(error: typer.TyperException) -> TqError:
    """Convert typer's message about wrong arguments into a `TqError`."""
    context = getattr(error, "ctx", None)
    see = f"see: {context.command_path if context is not None else 'tqstudio'} --help"
    text = error.format_message().strip().rstrip(".")
    message, hint = text[:1].lower() + text[1:], see
    if (param := getattr(error, "param", None)) is not None:
        # Typer gives the wrong value in its message only, as Python writes it.
        written, _, _ = str(getattr(error, "message", "")).rpartition(" is not ")
        value = written[1:-1] if written[:1] in ("'", '"') else written
        message = f"{_name(param)} cannot be {_shown(value)}" if written else f"{_name(param)} is missing"
        hint = f"{right}; {see}" if (right := _right_value(param, value)) else see
    elif option := getattr(error, "option_name", ""):
        what = "needs a value" if "requires" in text else "takes no value" if "does not take" in text else ""
        message = f"{_shown(option)} {what}" if what else f"there is no option {_shown(option)}"
        # A file name that begins with a dash looks like an option.
        dashed = "" if what else "; a name that begins with a dash is written as ./-name"
        hint = f"{near(option, getattr(error, 'possibilities', None) or ())}{see}{dashed}"
    elif "extra argument" in text:
        message = f"too many arguments: {text.partition('(s) (')[2].rstrip(')')}"
    return TqError(ErrorCode.BAD_REQUEST, message, hint)


def _right_value(param: Any, wrong: str) -> str:
    """What may be given instead of a wrong value; empty if anything may."""
    if known := [str(each) for each in getattr(param.type, "choices", ())]:
        return one_of(wrong, known)
    kind = {"int": "a whole number", "float": "a number"}.get(str(param.type.name).split()[0], "")
    if not kind or param.name in _NUMBERS:
        return f"use {_NUMBERS[param.name]}" if kind else ""
    low, high = (getattr(param.type, bound, None) for bound in ("min", "max"))
    if low is None:
        return f"use {kind}"
    return f"use {kind} of at least {low}" if high is None else f"use {kind} from {low} to {high}"


def _name(param: Any) -> str:
    """An option by its long name, an argument by what its page calls it."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name.upper()).strip("[].")


def _shown(value: str) -> str:
    return readable(value) or "empty"
