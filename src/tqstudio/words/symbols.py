"""Glyphs, and the glyph and word of every state. Colour never carries information alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.words.format import short_duration
from tqstudio.words.sentences import status_word

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow, RenditionView


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of symbols, each one cell wide; ticks in ASCII take three."""

    states: Mapping[str, str]
    up: str
    lost: str
    cursor: str
    marked: str
    rule: str
    bar: str
    """Fractions of a cell, growing; the last one is the full cell."""
    full: str
    """A finished segment."""
    track: str
    heights: str
    """Blocks of growing height, the first one empty."""
    fills: str
    """Growing parts of a cell in a column of several cells, the first one empty."""
    kept: str
    thumb: str
    bullet: str
    ellipsis: str
    arrow: str
    checked: str
    unchecked: str


_STATES = {
    "pending": ("·", "."),
    "running": ("▸", ">"),
    "paused": ("‖", "="),
    "done": ("✓", "+"),
    "failed": ("✗", "!"),
    "cancelled": ("⊘", "x"),
    "retry": ("↻", "~"),
    "held": ("◷", "o"),
    "changing": ("…", "*"),
    "skipped": ("–", "-"),
    "stale": ("○", "?"),
    "warning": ("▲", "^"),
    "viewable": ("◔", "@"),
}
_SIGNS = {
    "up": ("●", "*"),
    "lost": ("○", "o"),
    "cursor": ("▌", ">"),
    "marked": ("◆", "#"),
    "rule": ("─", "-"),
    "bar": ("╸━", "#"),
    "full": ("█", "#"),
    "track": ("─", "-"),
    "heights": (" ▁▂▃▄▅▆▇█", "_123456789"),
    "fills": (" ▁▂▃▄▅▆▇█", " .:#"),
    "kept": ("▒", "%"),
    "thumb": ("▐", "|"),
    "bullet": ("·", "-"),
    "ellipsis": ("…", "~"),
    "arrow": ("→", ">"),
    "checked": ("■", "[x]"),
    "unchecked": ("□", "[ ]"),
}
UNICODE, ASCII = (
    Glyphs(
        {state: both[at] for state, both in _STATES.items()},
        **{name: both[at] for name, both in _SIGNS.items()},
    )
    for at in (0, 1)
)


_IN_ASCII = {"×": "x", UNICODE.arrow: ASCII.arrow, UNICODE.ellipsis: ASCII.ellipsis}
_IN_ASCII |= {sign: ASCII.states[state] for state, sign in UNICODE.states.items() if state != "changing"}


def replace_glyphs(error: UnicodeError) -> tuple[str, int]:
    """Replaces glyphs that an encoding lacks by ASCII, other characters by escapes: a codec error handler."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(
        _IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking
    ), error.end


def choose_glyphs(environ: Mapping[str, str] = os.environ, encoding: str | None = None) -> Glyphs:
    """Chooses ASCII if requested (TQSTUDIO_ASCII=1), on the Linux console, or if the locale is not UTF-8.

    Python writes UTF-8 in the C locale too, so the locale is checked besides the stream's encoding. Where no
    locale is set, as in many containers, the encoding decides.
    """
    requested = environ.get("TQSTUDIO_ASCII", "")
    if requested:
        return UNICODE if requested in ("0", "no", "false") else ASCII
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "ascii"
    if environ.get("TERM") in ("linux", "dumb") or "utf" not in encoding.lower():
        return ASCII
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    codeset = "ascii" if locale in ("C", "POSIX") else locale.partition(".")[2].lower()
    return ASCII if codeset and "utf" not in codeset else UNICODE


_STATE_OF_STATUS = {
    "pending": "pending",
    "in_progress": "running",
    "paused": "paused",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "completed": "done",
    "skipped": "skipped",
    "busy": "running",
    "idle": "pending",
    "starting": "changing",
    "draining": "changing",
    "offline": "failed",
    "disabled": "cancelled",
}


def state_of(status: str) -> str:
    """The display state of a job's, quality's or worker's status."""
    return _STATE_OF_STATUS.get(status, "pending")


def job_state(row: JobRow, *, stale: bool = False) -> str:
    """The display state of a job: its status, or a requested change that is not in effect yet.

    While the supervisor does not answer (`stale`), it is unknown whether a running job still runs.
    """
    if stale and row["status"] == "in_progress":
        return "stale"
    word = row["word"]
    if word.endswith("…"):
        return "changing"
    if word in ("retry", "held"):
        return word
    return state_of(row["status"])


def job_word(row: JobRow, age_s: float = 0.0, *, stale: bool = False) -> str:
    """The word for a job's state; a retry that is not `stale` includes its countdown, `age_s` less."""
    if stale and row["status"] == "in_progress":
        return "running?"
    wait = row["retry_in_s"]
    if row["word"] == "retry" and wait is not None and not stale:
        return f"retry {short_duration(max(0.0, wait - age_s))}"
    if row["word"] in ("running", "in_progress"):
        idle = row.get("idle_s")
        return "running" if idle is None else f"idle {short_duration(idle)}"
    return row["word"]


def quality_look(rendition: RenditionView, job: str, *, stale: bool = False) -> tuple[str, str]:
    """State and word of a quality; one that is pending shows the status of its job."""
    status = rendition["status"]
    if status == "in_progress" and stale:
        return "stale", "running?"
    if status == "pending" and job in ("paused", "cancelled"):
        return job, job
    if status == "pending" and job == "failed":
        return "skipped", "not encoded"
    return state_of(status), status_word(status)
