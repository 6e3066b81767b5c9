"""Values that describe a verified rendition, for manifests and playlists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

SUBTITLE_CODEC = "wvtt"


class IFrame(NamedTuple):
    """A key frame of a segment, as a byte range for playlists of I-frames."""

    offset: int
    """Of the header of its fragment."""
    size: int
    """Bytes from there to the end of the picture."""
    duration_s: float
    """Until the next one."""


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """One segment of a verified rendition."""

    name: str
    size: int
    """Bytes."""
    duration_s: float
    frames: int
    """Pictures, audio frames, or cues of subtitles."""
    iframes: tuple[IFrame, ...] = ()
    """Of video; empty in records of earlier versions."""


@dataclass(frozen=True, slots=True)
class RenditionCheck:
    """The result of verifying a rendition."""

    frames: int
    start_s: float
    """Decode time of its first frame in seconds."""
    duration_s: float
    width: int
    """Pixels; 0 for audio."""
    height: int
    codecs: str
    """Its entry in CODECS, such as `avc1.640028`."""
    segments: tuple[CheckedSegment, ...]
    peak_bps: int
    """Bits per second, see `playlists.bit_rates`."""
    avg_bps: int

    @property
    def has_init(self) -> bool:
        """Whether its segments need an initialisation segment: all but those of subtitles."""
        return self.codecs != SUBTITLE_CODEC

    def to_json(self) -> dict[str, Any]:
        """Convert to what JSON can express."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RenditionCheck:
        """Convert back; KeyError or TypeError means that another version wrote the record."""
        values = dict(data)
        segments = tuple(
            CheckedSegment(**segment | {"iframes": tuple(map(IFrame._make, segment.get("iframes", ())))})
            for segment in values.pop("segments")
        )
        return cls(**values, segments=segments)
