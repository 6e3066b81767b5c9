"""Values that describe a verified rendition, for manifests and playlists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tqstudio.engine.media.plan.grid import SHORT_S

SUBTITLE_CODEC = "wvtt"


class IFrame(NamedTuple):
    """A key frame of a segment, as a byte range for playlists of I-frames."""

    offset: int
    """Offset of the header of its fragment in the segment."""
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
    """Key frames of a video segment; empty for others, and in records of earlier versions."""


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

    @property
    def ends_short(self) -> bool:
        """Whether its last segment should have joined the one before, as in ladders of earlier versions."""
        return len(self.segments) > 1 and self.segments[-1].duration_s < SHORT_S

    @property
    def listed(self) -> tuple[CheckedSegment, ...]:
        """Its segments for playlists: a last key frame that is shown shortly joins the one before."""
        *others, last = self.segments
        if len(last.iframes) < 2 or last.iframes[-1].duration_s >= SHORT_S:
            return self.segments
        *iframes, before, short = last.iframes
        joined = before._replace(duration_s=before.duration_s + short.duration_s)
        return (*others, replace(last, iframes=(*iframes, joined)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RenditionCheck:
        """Convert back; KeyError or TypeError means that another version wrote the record."""
        values = dict(data)
        segments = tuple(
            CheckedSegment(**segment | {"iframes": tuple(map(IFrame._make, segment.get("iframes", ())))})
            for segment in values.pop("segments")
        )
        return cls(**values, segments=segments)
