"""How work on a job ends. The pipeline returns one of these; only the session tells the supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tqstudio.errors import ErrorCode

StopReason = Literal["pause", "cancel", "restart", "shutdown"]


@dataclass(frozen=True, slots=True)
class Done:
    """Everything is made and verified; the supervisor may publish it."""

    manifest: dict[str, Any]
    """In the shape of `requests.Manifest`."""
    full_hash: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot be made, now or ever: the code tells."""

    code: ErrorCode
    text: str
    """One sentence that names the file, at most `MAX_ERROR_TEXT` characters."""
    hint: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A person or a shutdown asked for it. ffmpeg is dead; finished segments stay."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone, and with it the right to say anything about the job."""

    why: str


Outcome = Done | Failed | Stopped | Lost
