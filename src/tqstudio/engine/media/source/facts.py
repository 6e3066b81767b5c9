"""What is known of a source once it was probed. Plain values: imports neither PyAV nor ffmpeg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """The video stream that is transcoded."""

    index: int
    """Stream index in the container, as in ffmpeg's `0:<index>`."""
    codec: str
    profile: str
    width: int
    """Display width in square pixels: after sample aspect ratio and rotation."""
    height: int
    """Display height in square pixels."""
    coded_width: int
    """Width of the decoded picture, before both."""
    coded_height: int
    rotation: int
    """Counter-clockwise degrees, 0 … 359, of the display matrix. ffmpeg applies it while decoding."""
    pix_fmt: str
    bit_depth: int
    fps: Fraction
    """The rate of the grid: nominal (never the average), at most 60."""
    vfr: bool
    """Average and nominal rate differ by more than 1 %."""
    color_primaries: int
    """Colour fields are code points of ITU-T H.273; 2 is unspecified."""
    color_transfer: int
    color_space: int
    color_range: int
    """0 unspecified, 1 limited, 2 full."""
    first_pts_s: Fraction
    """Presentation time of the first picture that decodes, in source time (seconds)."""
    duration_s: float
    """Length of this stream from its first picture; 0.0 when nothing says. See `own_duration`."""
    own_duration: bool
    """The stream itself declares its length. Otherwise it is what the container leaves for it."""
    interlaced: bool
    """Some of its pictures are."""
    bitrate: int
    """Bits per second, 0 when unknown."""
    dv_profile: int
    """Of Dolby Vision; 0 for a source that is none."""
    dv_compatibility: int
    """What its base layer is compatible with: 0 nothing, 1 and 6 HDR10, 2 SDR, 4 HLG."""
    last_s: float | None = None
    """Presentation time of its last picture in source time (seconds); None while it is not measured, or
    where the clock of the source jumps."""
    end_s: float | None = None
    """When its last picture ends."""
    varies: bool = False
    """Size or shape of the picture changes midway; `width` and `height` hold all of them."""
    aspects: tuple[tuple[float, float], ...] = ()
    """Where the sample aspect changes: (source time in seconds, width ÷ height), in order of time."""

    @property
    def short_side(self) -> int:
        """The display side after which rungs are named."""
        return min(self.width, self.height)


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """One audio stream."""

    index: int
    codec: str
    """Empty when this build cannot decode it."""
    channels: int
    sample_rate: int
    language: str
    """ISO 639 code in lower case, `und` when none is given."""
    title: str
    default: bool
    first_s: float | None = None
    """Presentation time of its first sample in source time (seconds); None while it is not measured."""
    end_s: float | None = None
    """When its last sample ends."""


@dataclass(frozen=True, slots=True)
class SubtitleTrack:
    """One subtitle stream."""

    index: int
    codec: str
    language: str
    title: str
    default: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is known to be wrong with the data of a source."""

    kind: Literal["hole", "corrupt", "cut", "pictures", "sound"]
    """Times without packets, packets with errors, an end within a packet; and what did not decode."""
    at_s: float
    """Where it begins, in seconds from the first picture; decoding errors are located to a second or so."""
    length_s: float = 0.0
    """Of a hole."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A probed source."""

    container: str
    """ffmpeg's name of the format, such as `mov,mp4,m4a,3gp,3g2,mj2`."""
    duration_s: float
    """Length of the whole file in seconds; 0.0 when it does not say."""
    start_time_s: float
    """Smallest timestamp of any stream, in seconds (exact to the µs)."""
    bitrate: int
    """Bits per second of the whole file."""
    size: int
    """Bytes."""
    video: VideoTrack
    audio: tuple[AudioTrack, ...] = ()
    subtitles: tuple[SubtitleTrack, ...] = ()
    chapters: int = 0
    captions: bool = False
    """Its pictures carry closed captions (CEA-608 or 708)."""
    linear: bool = False
    """It has to be decoded from its start: its timestamps jump, or a seek was found to miss."""
    damage: tuple[Damage, ...] = ()
    """The first of each kind."""
    measured: bool = False
    """Every packet was read: lengths, rate and sizes are what the file holds, not what it declares."""

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values. Fractions are text, such as "30000/1001"."""
        data = asdict(self)
        data["video"]["fps"] = str(self.video.fps)
        data["video"]["first_pts_s"] = str(self.video.first_pts_s)
        data["audio"] = list(data["audio"])
        data["subtitles"] = list(data["subtitles"])
        data["damage"] = list(data["damage"])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceFacts:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError or ValueError: the record was written by another version; probe again.
        """
        values = dict(data)
        video = dict(values.pop("video"))
        video["fps"] = Fraction(video["fps"])
        video["first_pts_s"] = Fraction(video["first_pts_s"])
        video["aspects"] = tuple((at, aspect) for at, aspect in video["aspects"])
        return cls(
            video=VideoTrack(**video),
            audio=tuple(AudioTrack(**track) for track in values.pop("audio")),
            subtitles=tuple(SubtitleTrack(**track) for track in values.pop("subtitles")),
            damage=tuple(Damage(**each) for each in values.pop("damage")),
            **values,
        )
