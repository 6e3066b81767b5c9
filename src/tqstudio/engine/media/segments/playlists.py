"""Writes HLS playlists. Pure text: the supervisor imports it, so neither PyAV nor ffmpeg is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

VERSION = 7
"""The lowest version for fMP4 segments with EXT-X-MAP in any playlist."""
AUDIO_GROUP = "audio"


@dataclass(frozen=True, slots=True)
class Variant:
    """A video rendition as the master playlist names it."""

    uri: str
    """Relative to the master playlist, such as `v1/1080p/index.m3u8`."""
    width: int
    height: int
    fps: Fraction
    codec: str
    """Of the video alone, such as `avc1.640028`."""
    peak_bps: int
    """Largest bit rate of the video's segments."""
    average_bps: int


@dataclass(frozen=True, slots=True)
class AudioEntry:
    """An audio rendition as the master playlist names it."""

    uri: str
    language: str
    """`und` when unknown; then no LANGUAGE is written."""
    name: str
    channels: int
    codec: str
    peak_bps: int
    average_bps: int
    default: bool = True


def media_playlist(
    durations: Sequence[float],
    target: int | None = None,
    init: str = "init.mp4",
    names: Sequence[str] | None = None,
) -> str:
    """The playlist of one finished rendition.

    Args:
        durations: seconds of each segment.
        target: EXT-X-TARGETDURATION; by default the longest segment, rounded as the specification does.
        init: address of the initialisation segment.
        names: addresses of the segments; by default `seg_00000.m4s` ….
    """
    names = [f"seg_{k:05d}.m4s" for k in range(len(durations))] if names is None else names
    longest = int(max(durations, default=1.0) + 0.5)
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{VERSION}",
        f"#EXT-X-TARGETDURATION:{max(1, longest if target is None else target)}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        f'#EXT-X-MAP:URI="{init}"',
    ]
    for duration, name in zip(durations, names, strict=True):
        lines += [f"#EXTINF:{duration:.6f},", name]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def master_playlist(variants: Sequence[Variant], audio: Sequence[AudioEntry] = ()) -> str:
    """The playlist that names every rendition, best first.

    Bandwidths are measured and include the largest audio rendition, which plays beside every variant.
    """
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{VERSION}", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for entry in audio:
        language = "" if entry.language == "und" else f',LANGUAGE="{entry.language}"'
        lines.append(
            f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{AUDIO_GROUP}",NAME="{_quotable(entry.name)}"{language},'
            f"DEFAULT={'YES' if entry.default else 'NO'},AUTOSELECT=YES,"
            f'CHANNELS="{entry.channels}",URI="{entry.uri}"'
        )
    audio_peak = max((entry.peak_bps for entry in audio), default=0)
    audio_average = max((entry.average_bps for entry in audio), default=0)
    audio_codecs = sorted({entry.codec for entry in audio})
    for variant in sorted(variants, key=lambda v: (-v.width * v.height, -v.peak_bps, v.uri)):
        codecs = ",".join([variant.codec, *audio_codecs])
        lines.append(
            f"#EXT-X-STREAM-INF:BANDWIDTH={variant.peak_bps + audio_peak},"
            f"AVERAGE-BANDWIDTH={variant.average_bps + audio_average},"
            f'CODECS="{codecs}",RESOLUTION={variant.width}x{variant.height},'
            f"FRAME-RATE={float(variant.fps):.3f},VIDEO-RANGE=SDR"
            + (f',AUDIO="{AUDIO_GROUP}"' if audio else "")
        )
        lines.append(variant.uri)
    return "\n".join([*lines, ""])


def bit_rates(sizes: Sequence[int], durations: Sequence[float]) -> tuple[int, int]:
    """Peak and average bits per second of a rendition's segments.

    The peak is that of RFC 8216: of any run of segments between 0.5 and 1.5 target durations long, so that a
    last segment of one keyframe does not count as a peak.

    Args:
        sizes: bytes of each segment.
        durations: seconds of each.
    """
    total_s = sum(durations)
    if not total_s:
        return 0, 0
    average = round(sum(sizes) * 8 / total_s)
    target = max(1, int(max(durations) + 0.5))
    peak = average
    for start in range(len(sizes)):
        size, length = 0, 0.0
        for segment_size, duration in zip(sizes[start:], durations[start:], strict=True):
            size += segment_size
            length += duration
            if length > 1.5 * target:
                break
            if length >= 0.5 * target:
                peak = max(peak, round(size * 8 / length))
    return peak, average


def _quotable(text: str) -> str:
    """Text for a quoted string: no quotes, control characters or line breaks (RFC 8216 4.1, 4.2)."""
    return "".join(" " if char == '"' or not char.isprintable() else char for char in text).strip() or "audio"
