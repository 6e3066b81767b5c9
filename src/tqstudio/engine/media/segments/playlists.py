"""Writes HLS playlists. The supervisor imports it, so it must need neither PyAV nor ffmpeg."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.segments.checked import IFrame

VERSION = 7
"""The lowest version for fMP4 segments with EXT-X-MAP in any playlist."""
CHAPTERS_ID = "com.apple.hls.chapters"
AUDIO_GROUP, SURROUND_GROUP, LOW_GROUP, SUBTITLE_GROUP = "audio", "surround", "audio-low", "subs"
_CAPTIONS = '#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="Closed captions",INSTREAM-ID="CC1"'
_AUTOSELECTED = ("description", "captions", "forced")
"""Roles that Apple wants to be chosen by players (2.13, 4.6, 5.11), also beside an equal one."""
_DEFAULT_BPS = 2_000_000
_CHARACTERISTICS = {
    "description": "public.accessibility.describes-video",
    "captions": "public.accessibility.transcribes-spoken-dialog,"
    "public.accessibility.describes-music-and-sound",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A quality in the master playlist: a video rendition, or one of sound alone."""

    uri: str
    """Relative to the master playlist, such as `v1/1080p/index.m3u8`."""
    width: int
    """0 for sound alone, which has neither size, frame rate nor range."""
    height: int
    fps: Fraction
    codec: str
    """Its codec without that of tracks, such as `avc1.640028`."""
    peak_bps: int
    """Its peak bit rate, see `bit_rates`."""
    average_bps: int
    iframes: IFrameEntry | None = None
    video_range: str = "SDR"
    """`SDR`, `PQ` or `HLG`."""
    group: str = ""
    """The only group of audio that is played with it; empty: each that no other variant has alone."""


@dataclass(frozen=True, slots=True)
class IFrameEntry:
    """The playlist of the I-frames of a video rendition in the master playlist."""

    uri: str
    peak_bps: int
    average_bps: int


@dataclass(frozen=True, slots=True)
class AudioEntry:
    """An audio rendition in the master playlist."""

    uri: str
    language: str
    """`und` if unknown; then no LANGUAGE is written."""
    name: str
    channels: int
    codec: str
    peak_bps: int
    average_bps: int
    default: bool = True
    role: str = ""
    """`commentary`, `description` or empty."""
    group: str = AUDIO_GROUP


@dataclass(frozen=True, slots=True)
class SubtitleEntry:
    """A subtitle rendition in the master playlist."""

    uri: str
    language: str
    name: str
    peak_bps: int
    average_bps: int
    role: str = ""
    """`forced`, `captions` or empty."""


def target_duration(durations: Iterable[float]) -> int:
    """The longest of these durations, rounded as in RFC 8216."""
    return max(1, int(max(durations, default=1.0) + 0.5))


def media_playlist(
    durations: Sequence[float], names: Sequence[str], *, target: int | None = None, has_init: bool = True
) -> str:
    """Write the media playlist of a complete rendition.

    Args:
        durations: of each segment in seconds.
        names: URIs of the segments.
        target: target duration; by default that of these segments.
        has_init: whether they need an initialisation segment.
    """
    lines = _head(target or target_duration(durations), has_init)
    for duration, name in zip(durations, names, strict=True):
        lines += [f"#EXTINF:{duration:.6f},", name]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def iframe_playlist(iframes: Sequence[tuple[str, IFrame]]) -> str:
    """Write the playlist of the I-frames of a video rendition, each given with the URI of its segment."""
    lines = _head(target_duration(iframe.duration_s for _, iframe in iframes), True)
    lines.append("#EXT-X-I-FRAMES-ONLY")
    for name, iframe in iframes:
        lines += [
            f"#EXTINF:{iframe.duration_s:.6f},",
            f"#EXT-X-BYTERANGE:{iframe.size}@{iframe.offset}",
            name,
        ]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def _head(target: int, has_init: bool) -> list[str]:
    return [
        "#EXTM3U",
        f"#EXT-X-VERSION:{VERSION}",
        f"#EXT-X-TARGETDURATION:{target}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        *([f'#EXT-X-MAP:URI="{INIT_NAME}"'] if has_init else []),
    ]


def master_playlist(
    variants: Sequence[Variant],
    audio: Sequence[AudioEntry] = (),
    subtitles: Sequence[SubtitleEntry] = (),
    *,
    captions: bool = False,
    chapters: str = "",
    captions_language: str = "und",
) -> str:
    """Write the master playlist: the rendition with which players begin, then the others, best first.

    Every variant is listed once for each group of audio that is played with it. Its bandwidths include those
    of the largest audio of the group and of the largest subtitles, which may be played with it. A variant of
    sound alone is itself an entry of its group.

    Args:
        captions: whether the pictures carry closed captions.
        chapters: URI of the chapters, if there are any.
        captions_language: their language; `und` if unknown.
    """
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{VERSION}", "#EXT-X-INDEPENDENT-SEGMENTS"]
    if chapters:
        lines.append(f'#EXT-X-SESSION-DATA:DATA-ID="{CHAPTERS_ID}",URI="{chapters}"')
    groups = {group: [entry for entry in audio if entry.group == group] for group in _groups(audio)}
    for entries in groups.values():
        lines += _media(entries)
    lines += _media(subtitles)
    if captions:
        lines.append(_CAPTIONS + (f',LANGUAGE="{captions_language}"' if captions_language != "und" else ""))
    variants = _default_first(sorted(variants, key=lambda v: (-v.width * v.height, -v.peak_bps, v.uri)))
    alone = {variant.group for variant in variants}
    shared = [group for group in groups if group not in alone]
    for variant in variants:
        for group in [variant.group] if variant.group else shared or [""]:
            entries = groups.get(group, [])
            codecs = ",".join(dict.fromkeys([variant.codec, *sorted({entry.codec for entry in entries})]))
            peak, average = variant.peak_bps, variant.average_bps
            if any(entry.uri == variant.uri for entry in entries):
                peak = average = 0
            for played in (entries, subtitles):
                peak += max((entry.peak_bps for entry in played), default=0)
                average += max((entry.average_bps for entry in played), default=0)
            lines.append(
                f"#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average},"
                f'CODECS="{codecs}"'
                + (_of_video(variant, captions) if variant.width else "")
                + (f',AUDIO="{group}"' if group else "")
                + (f',SUBTITLES="{SUBTITLE_GROUP}"' if subtitles else "")
            )
            lines.append(variant.uri)
    lines += [_iframes(variant, variant.iframes) for variant in variants if variant.iframes]
    return "\n".join([*lines, ""])


def _of_video(variant: Variant, captions: bool) -> str:
    return (
        f",RESOLUTION={variant.width}x{variant.height},FRAME-RATE={float(variant.fps):.3f},"
        f"VIDEO-RANGE={variant.video_range},"
        + ('CLOSED-CAPTIONS="cc"' if captions else "CLOSED-CAPTIONS=NONE")
    )


def _default_first(variants: list[Variant]) -> list[Variant]:
    """Move the variant nearest to 2000 kbit/s, of the first codec, to the front, as Apple advises (1.32).

    Earlier versions, which wrote no I-frames, did not.
    """
    if not any(variant.iframes for variant in variants):
        return variants
    alike = [each for each in variants if each.codec[:4] == variants[0].codec[:4]]
    default = min(alike, key=lambda each: abs(each.average_bps - _DEFAULT_BPS))
    return [default, *(each for each in variants if each is not default)]


def _iframes(variant: Variant, iframes: IFrameEntry) -> str:
    return (
        f"#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH={iframes.peak_bps},AVERAGE-BANDWIDTH={iframes.average_bps},"
        f'CODECS="{variant.codec}",RESOLUTION={variant.width}x{variant.height},VIDEO-RANGE={variant.video_range},'
        f'URI="{iframes.uri}"'
    )


def _groups(audio: Sequence[AudioEntry]) -> list[str]:
    return list(dict.fromkeys(entry.group for entry in audio))


def _media(entries: Sequence[AudioEntry | SubtitleEntry]) -> list[str]:
    """The tags of one group of audio or subtitles.

    Names are unique, and players choose by language and role: of two equal ones, only the first has
    AUTOSELECT, unless its role requires it.
    """
    lines: list[str] = []
    names: set[str] = set()
    offered: set[tuple[str, str]] = set()
    for entry in entries:
        name = given = _quotable(entry.name)
        number = 1
        while name in names:
            number += 1
            name = f"{given} {number}"
        names.add(name)
        is_offered = entry.role in _AUTOSELECTED or (
            entry.role != "commentary" and (entry.language, entry.role) not in offered
        )
        offered.add((entry.language, entry.role))
        audio = entry if isinstance(entry, AudioEntry) else None
        is_default = audio is not None and audio.default
        kind, group = ("SUBTITLES", SUBTITLE_GROUP) if audio is None else ("AUDIO", audio.group)
        attributes = [f'TYPE={kind},GROUP-ID="{group}",NAME="{name}"']
        if entry.language != "und":
            attributes.append(f'LANGUAGE="{entry.language}"')
        attributes.append(f"DEFAULT={'YES' if is_default else 'NO'}")
        attributes.append(f"AUTOSELECT={'YES' if is_default or is_offered else 'NO'}")
        if entry.role == "forced":
            attributes.append("FORCED=YES")
        if entry.role in _CHARACTERISTICS:
            attributes.append(f'CHARACTERISTICS="{_CHARACTERISTICS[entry.role]}"')
        if audio is not None:
            attributes.append(f'CHANNELS="{audio.channels}"')
        lines.append(f'#EXT-X-MEDIA:{",".join(attributes)},URI="{entry.uri}"')
    return lines


def bit_rates(sizes: Sequence[int], durations: Sequence[float]) -> tuple[int, int]:
    """Compute peak and average bits per second of a rendition, from bytes and seconds of each segment.

    The peak is defined as in RFC 8216: the maximum over all runs of segments between 0.5 and 1.5 target
    durations long, so that a last segment of a single key frame is not a peak.
    """
    total_s = sum(durations)
    if not total_s:
        return 0, 0
    average = round(sum(sizes) * 8 / total_s)
    target = target_duration(durations)
    peak = average
    for start in range(len(sizes)):
        size, length = 0, 0.0
        for number in range(start, len(sizes)):
            size += sizes[number]
            length += durations[number]
            if length > 1.5 * target:
                break
            if length >= 0.5 * target:
                peak = max(peak, round(size * 8 / length))
    return peak, average


def iframe_rates(iframes: Sequence[tuple[str, IFrame]]) -> tuple[int, int]:
    """Compute peak and average bits per second of a playlist of I-frames."""
    return bit_rates([iframe.size for _, iframe in iframes], [iframe.duration_s for _, iframe in iframes])


def _quotable(text: str) -> str:
    """Replace what a quoted string may not contain: quotes, control characters, line breaks (RFC 8216
    4.2)."""
    return "".join(" " if char == '"' or not char.isprintable() else char for char in text).strip() or "audio"
