"""Output of commands: results on stdout, remarks and errors on stderr, tables, words, times.

Does not use rich, whose import takes 60 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from tqstudio.cli.terminal import std_streams
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.lifecycle import QUEUE_ORDER
from tqstudio.words import format as fmt
from tqstudio.words.sentences import gate_reason as reason_of
from tqstudio.words.sentences import status_word
from tqstudio.words.symbols import UNICODE, job_state, state_of

if TYPE_CHECKING:
    from tqstudio.protocol.answers import GateView, JobRow, WarningView

WRONG_USAGE = 2
UNUSABLE_DATABASE = 5
"""Exit codes of a supervisor that could not start until someone acts; after others it may start by itself."""

_EXIT_CODES: Mapping[ErrorCode, int] = {
    ErrorCode.DATABASE_VERSION: UNUSABLE_DATABASE,
    ErrorCode.DATABASE_DAMAGED: UNUSABLE_DATABASE,
    ErrorCode.NO_SUPERVISOR: 3,
    ErrorCode.SUPERVISOR_NOT_RESPONDING: 3,
    ErrorCode.REFUSED: 4,
    ErrorCode.NOT_FOUND: 4,
    ErrorCode.ALREADY_RUNNING: 4,
    ErrorCode.OUTPUT_IN_USE: 4,
    ErrorCode.DATABASE_BUSY: 4,
    ErrorCode.UNAUTHORIZED: 4,
    ErrorCode.TOO_MANY_FAILURES: 4,
    ErrorCode.LOST_LEASE: 4,
    ErrorCode.FFMPEG_MISSING: 4,
    ErrorCode.DISK_LOW: 4,
    ErrorCode.DATABASE_UNWRITABLE: 4,
    ErrorCode.DATABASE_UNREACHABLE: 4,
    ErrorCode.BAD_REQUEST: WRONG_USAGE,
    ErrorCode.BAD_CONFIG: WRONG_USAGE,
    ErrorCode.SOURCE_MISSING: WRONG_USAGE,
    ErrorCode.SOURCE_EMPTY: WRONG_USAGE,
    ErrorCode.SOURCE_UNREADABLE: WRONG_USAGE,
    ErrorCode.NO_MEDIA: WRONG_USAGE,
    ErrorCode.PERMISSION: WRONG_USAGE,
    ErrorCode.UNSUPPORTED: WRONG_USAGE,
}
BROKEN_PIPE = 141
"""Exit code after a broken pipe, as shells report it (128 + SIGPIPE)."""

# A word is always printed too; colour is only additional.
_COLOURS: Mapping[str, str] = {
    "in_progress": "36",
    "busy": "36",
    "done": "32",
    "ready": "32",
    "failed": "31",
    "offline": "31",
    "paused": "33",
    "warning": "33",
    "disabled": "33",
}

ARROW = UNICODE.arrow
"""Stands before what to do next."""

_NARROWEST = 8
"""Cells that a column has at least; more for a longer head."""
_ZERO_WIDTH = ("Mn", "Me", "Cf")
"""Unicode categories without a width: combining marks and joiners."""

_json_wanted = False


def prepare(arguments: Sequence[str]) -> None:
    """Remember whether errors must be printed as JSON too."""
    global _json_wanted
    options = list(arguments)
    if "--" in options:
        options = options[: options.index("--")]
    _json_wanted = "--json" in options


def out(text: str = "") -> None:
    """Print a line of the result."""
    print(text, flush=True)


def err(text: str) -> None:
    """Print a remark to stderr."""
    print(text, file=sys.stderr, flush=True)


def out_json(value: Any, *, indent: int | None = 2) -> None:
    """Print the result as JSON, in ASCII, which every encoding can represent."""
    print(json.dumps(value, indent=indent), flush=True)


def answer(value: Any, text: str, as_json: bool) -> int:
    """Print the result of a successful command, as JSON or as text; returns its exit code."""
    if as_json:
        out_json(value)
    else:
        out(text)
    return 0


def exit_code(code: ErrorCode | str) -> int:
    """The exit code of a command that fails with this error."""
    try:
        return _EXIT_CODES.get(ErrorCode(code), 1)
    except ValueError:
        return 1


def report(error: TqError) -> int:
    """Print an error as text and, with `--json`, as JSON; returns the exit code."""
    # A failure to write the result must not hide this error.
    with contextlib.suppress(TqError):
        sys.stdout.flush()
    err(error_lines(error.code, error.message, error.hint))
    if _json_wanted:
        view = {"code": str(error.code), "message": error.message, "hint": error.hint}
        with contextlib.suppress(TqError):
            out_json({"error": view}, indent=None)
    return exit_code(error.code)


def broken_pipe() -> int:
    """Discard remaining output after a broken pipe; returns the exit code."""
    std_streams.silence(sys.stdout)
    std_streams.silence(sys.stderr)
    return BROKEN_PIPE


def error_lines(code: str, message: str, hint: str) -> str:
    return _problem("error", code, message, hint)


def warning_lines(code: str, message: str, hint: str = "") -> str:
    return _problem("warning", code, message, hint)


def _problem(kind: str, code: str, message: str, hint: str) -> str:
    head = f"{kind}: {code}: {message}"
    return f"{head}\n  {ARROW} {hint}" if hint else head


def warning_sign(warnings: Sequence[WarningView]) -> str:
    """`▲ 2 warnings`, or an empty string."""
    return f"{UNICODE.states['warning']} {fmt.counted(len(warnings), 'warning')}" if warnings else ""


def sign(status: str) -> str:
    """The symbol of a job's status."""
    return UNICODE.states[state_of(status)]


def job_sign(row: JobRow) -> str:
    """The symbol of a job: retry and on hold have their own."""
    return UNICODE.states[job_state(row)]


def gate_reason(gate: GateView) -> str:
    """What blocks the queue, with the error code if there is one, and until when if that is known."""
    return in_one_line(gate["code"], reason_of(gate))


def colourful() -> bool:
    """Whether to use colours: on a terminal, unless NO_COLOR is set."""
    return terminal() and not os.environ.get("NO_COLOR")


def terminal(stream: Any = None) -> bool:
    stream = sys.stdout if stream is None else stream
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def painted(text: str, status: str) -> str:
    """`text` in the colour of a status, if colours are used."""
    colour = _COLOURS.get(status)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and colourful() else text


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if colourful() else text


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    elastic: Sequence[int] = (),
    statuses: Sequence[str] | None = None,
    columns: str | None = None,
) -> None:
    """Print aligned columns.

    Args:
        right: right-aligned columns.
        elastic: columns whose cells continue in a next line if the terminal is too narrow. Empty columns are
            left out first.
        statuses: one status per row, for its colour.
        columns: heads in lower case, as `id,state`: only these, in this order.
    """
    lines = [list(row) for row in rows]
    widths = [max(width(cell) for cell in column) for column in zip(heads, *lines, strict=True)]
    shown = list(range(len(widths)))
    if columns is not None:
        names = [head.lower() for head in heads]
        shown = [names.index(name.strip()) for name in columns.split(",") if name.strip()]
    if terminal():
        room = shutil.get_terminal_size().columns + 2
        if sum(widths[i] + 2 for i in shown) > room and columns is None:
            shown = [i for i in shown if any(cells[i] for cells in lines)] or shown
        least = [max(_NARROWEST, width(head)) for head in heads]
        flexible = [i for i in elastic if i in shown and widths[i] > least[i]]
        while sum(widths[i] + 2 for i in shown) > room and flexible:
            widest = max(flexible, key=widths.__getitem__)
            widths[widest] -= 1
            flexible = [i for i in flexible if widths[i] > least[i]]
    rights = frozenset(right)

    def line(cells: Sequence[str]) -> str:
        parts = zip_longest(*(_wrapped(cells[i], widths[i]) for i in shown), fillvalue="")
        fitted = [map(_fit, part, (widths[i] for i in shown), (i in rights for i in shown)) for part in parts]
        return "\n".join("  ".join(each).rstrip() for each in fitted)

    out(bold(line(heads)))
    for number, cells in enumerate(lines):
        out(painted(line(cells), statuses[number]) if statuses else line(cells))


def _wrapped(text: str, cells: int) -> list[str]:
    """The text in lines of so many cells, which end at a space or a slash where there is one."""
    lines = []
    while width(text) > cells:
        end = next(i for i in range(len(text), 0, -1) if width(text[:i]) <= cells or i == 1)
        after = max(text.rfind(" ", 1, end), text.rfind("/", 1, end)) + 1
        lines.append(text[: after or end].rstrip())
        text = text[after or end :].lstrip()
    return [*lines, text]


def width(text: str) -> int:
    """Terminal cells that a text occupies."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in _ZERO_WIDTH else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _fit(text: str, cells: int, right: bool) -> str:
    padding = " " * (cells - width(text))
    return padding + text if right else text + padding


def age(at: str | None) -> str:
    """Time since an API timestamp: `12s`, `3m`."""
    seconds = fmt.age(at, datetime.now(UTC))
    return "" if seconds is None else fmt.short_duration(seconds)


def clock(at: str | None) -> str:
    """An API timestamp in the local zone: `2026-11-20 14:03:07`."""
    return "" if at is None else datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def counts_line(counts: Mapping[str, int]) -> str:
    """`2 running   14 pending   318 done`, in the order of the queue, without zeros."""
    parts = [
        painted(f"{sign(status)} {counts[status]} {status_word(status)}", status)
        for status in QUEUE_ORDER
        if counts.get(status)
    ]
    return "   ".join(parts) or "empty"


def agreed(question: str, as_json: bool) -> bool:
    """Ask for confirmation on a terminal; raise BAD_REQUEST without one."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TqError(
            ErrorCode.BAD_REQUEST, f"this would {question}, which needs a confirmation", "confirm with --yes"
        )
    import typer

    return bool(typer.confirm(f"{question[:1].upper()}{question[1:]}?"))
