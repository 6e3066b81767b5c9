"""Reads the playlists of a ladder as far as the rules concern them, and the sizes of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import m3u8

from tqstudio.engine.media.segments.playlists import bit_rates

# The library takes 0.1 s for the I-frames of two hours: it gets only what precedes the first segment.
_SEGMENT = re.compile(r"^#EXTINF:([\d.]+),.*\n(?:#EXT-X-BYTERANGE:(\d+)@(\d+)\n)?([^#\n]+)$", re.MULTILINE)
_SOUND = ("mp4a.", "ac-3", "ec-3")


@dataclass(frozen=True)
class Playlist:
    """A media playlist."""

    name: str
    """For messages, such as `1080p/index.m3u8`."""
    folder: Path
    head: Any
    """Its tags up to the first segment, as the library reads them."""
    uris: tuple[str, ...]
    durations: tuple[float, ...]
    """Lengths of its segments in seconds."""
    sizes: tuple[int, ...]
    """Sizes of its segments in bytes."""
    offsets: tuple[int, ...]
    """Offsets of its segments in their files, in bytes."""
    discontinuities: int

    @cached_property
    def length_s(self) -> float:
        """Seconds of all segments."""
        return sum(self.durations)

    @cached_property
    def rates(self) -> tuple[int, int]:
        """Measured peak and average bits per second."""
        return bit_rates(self.sizes, self.durations)


@dataclass(frozen=True)
class Package:
    """A ladder: its master playlist and all that it names, by URI."""

    text: str
    """The master playlist."""
    master: Any
    """The same as the library reads it."""
    video: dict[str, Playlist]
    """Those of the qualities, which may be sound alone."""
    audio: dict[str, Playlist]
    subtitles: dict[str, Playlist]
    iframes: dict[str, Playlist]

    @property
    def variants(self) -> Sequence[Any]:
        """The entries of the qualities, one for each group of audio."""
        return list(self.master.playlists)

    @property
    def is_audio_only(self) -> bool:
        """Whether no variant has pictures."""
        return all(map(is_audio_only, self.variants))

    @property
    def iframe_variants(self) -> Sequence[Any]:
        return list(self.master.iframe_playlists)

    def media(self, kind: str) -> Sequence[Any]:
        """The EXT-X-MEDIA tags of a type."""
        return [medium for medium in self.master.media if medium.type == kind]

    def rates_of(self, variant: Any) -> tuple[int, int]:
        """Measured peak and average of the largest combination that a variant allows."""
        info, (peak, average) = variant.stream_info, self.video[variant.uri].rates
        for kind, group, playlists in (
            ("AUDIO", info.audio, self.audio),
            ("SUBTITLES", info.subtitles, self.subtitles),
        ):
            uris = [each.uri for each in self.media(kind) if group and each.group_id == group]
            played = [playlists[uri].rates for uri in uris if uri]
            if variant.uri in uris:
                # Sound alone, which is the entry of its group.
                peak = average = 0
            peak += max((rates[0] for rates in played), default=0)
            average += max((rates[1] for rates in played), default=0)
        return peak, average


def is_audio_only(variant: Any) -> bool:
    """Whether an entry of the master playlist names codecs, and all of them are of sound."""
    return all(codec.strip().startswith(_SOUND) for codec in (variant.stream_info.codecs or "").split(","))


def read(master: Path) -> Package:
    """Read a ladder whose playlists are known to be sound."""
    text = master.read_text(encoding="utf-8", errors="replace")
    parsed = m3u8.loads(text)
    sizes: dict[Path, dict[str, int]] = {}

    def playlists(entries: Iterable[Any], kind: str = "") -> dict[str, Playlist]:
        uris = dict.fromkeys(each.uri for each in entries if each.uri and (not kind or each.type == kind))
        return {uri: _playlist(master.parent / unquote(uri), sizes) for uri in uris}

    return Package(
        text,
        parsed,
        video=playlists(parsed.playlists),
        audio=playlists(parsed.media, "AUDIO"),
        subtitles=playlists(parsed.media, "SUBTITLES"),
        iframes=playlists(parsed.iframe_playlists),
    )


def _playlist(path: Path, sizes: dict[Path, dict[str, int]]) -> Playlist:
    folder = path.parent
    if folder not in sizes:
        sizes[folder] = {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
    text = path.read_text(encoding="utf-8", errors="replace")
    segments = _SEGMENT.findall(text)
    return Playlist(
        name=f"{folder.name}/{path.name}",
        folder=folder,
        head=m3u8.loads(text.partition("#EXTINF")[0]),
        uris=tuple(unquote(uri) for *_, uri in segments),
        durations=tuple(float(duration) for duration, *_ in segments),
        sizes=tuple(int(size) if size else sizes[folder][unquote(uri)] for _, size, _, uri in segments),
        offsets=tuple(int(offset or 0) for _, _, offset, _ in segments),
        discontinuities=text.count("#EXT-X-DISCONTINUITY\n"),
    )
