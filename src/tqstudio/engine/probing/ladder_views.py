"""What the supervisor asks a probe process about a ladder, and its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from blake3 import blake3


class StreamPlace(TypedDict):
    """Where a stream of a ladder is."""

    name: str
    kind: str
    """`video`, `audio` or `subtitles`."""
    folder: str
    """Relative to the work folder."""


class LadderRequest(TypedDict):
    """A ladder to compare with its source."""

    source_b64: str | None
    """None if the source is gone: then its streams are compared with each other."""
    profile: dict[str, Any]
    work_dir_b64: str
    unseekable: bool
    """Whether its source is decoded from the start, because its timestamps jump."""
    streams: list[StreamPlace]


class StreamView(TypedDict):
    """A stream as it was found."""

    listing: str
    """As `listing_digest`."""
    width: int
    height: int
    codecs: str


def listing_digest(segments: Iterable[tuple[str, int, float]]) -> str:
    """Hash the names, sizes in bytes and durations in seconds of segments: 32 hex digits."""
    text = "".join(f"{name} {size} {duration_s:.3f}\n" for name, size, duration_s in segments)
    return blake3(text.encode()).hexdigest()[:32]
