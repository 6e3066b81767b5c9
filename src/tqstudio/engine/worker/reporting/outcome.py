"""The possible outcomes of work on a job. The pipeline returns one; the session reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tqstudio.errors import ErrorCode

StopReason = Literal["pause", "cancel", "restart", "shutdown", "hours"]


@dataclass(frozen=True, slots=True)
class Done:
    """All renditions are encoded and verified; the supervisor may publish them."""

    manifest: dict[str, Any]
    """In the shape of `requests.Manifest`."""
    full_hash: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The job failed; the code determines whether it is retried."""

    code: ErrorCode
    text: str
    """One sentence with the name of the file, at most `MAX_ERROR_TEXT` characters."""
    hint: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was stopped by a request or a shutdown. ffmpeg is dead; stored segments are kept."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease was lost; nothing may be reported about the job any more."""

    why: str


@dataclass(frozen=True, slots=True)
class RangeMade:
    """The segments of a range are stored, of a job that another worker has."""


Outcome = Done | Failed | Stopped | Lost | RangeMade


def problem_of(outcome: Outcome) -> str:
    """Why the work is not whole; empty if it is."""
    match outcome:
        case Failed():
            return f"{outcome.code}: {outcome.text}"
        case Stopped():
            return outcome.reason
        case Lost():
            return outcome.why
        case _:
            return ""
