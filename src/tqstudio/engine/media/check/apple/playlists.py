"""Rules for segments (7), media playlists (8) and the master playlist (9)."""

from __future__ import annotations

import re
from itertools import accumulate

from tqstudio.engine.media.check.apple.package import Package, Playlist
from tqstudio.engine.media.check.apple.rules import Findings, Note, Rule, table
from tqstudio.engine.media.check.apple.video import ROUNDING, codecs_of, info_of, video_codec

RULES: list[Rule] = []
_rule = table(RULES)

_NOMINAL_S, _AROUND_S = 6.0, 0.5
_OVER_S = 0.5
_SOUND_S = 0.1
"""Sound is cut at its own frames, with one before the first, and may outlast the last picture by 0.05 s."""
_EXACT_S, _ROUNDED_S = 0.001, 1e-6
_STREAM = re.compile(r"^#EXT-X-STREAM-INF:(.*)$", re.MULTILINE)
_SCORE = re.compile(r"(?:^|,)SCORE=")


def _sounds_and_pictures(package: Package) -> list[Playlist]:
    return [*package.video.values(), *package.audio.values()]


def _all(package: Package) -> list[Playlist]:
    return [*_sounds_and_pictures(package), *package.subtitles.values(), *package.iframes.values()]


def _as_long(package: Package, playlists: list[Playlist]) -> Findings:
    """Compare lengths with that of the first video."""
    tracks = [*package.audio.values(), *package.subtitles.values()]
    for video in list(package.video.values())[:1]:
        for playlist in playlists:
            off_s = abs(playlist.length_s - video.length_s)
            what = f"{playlist.name} has {playlist.length_s:.3f} s, {video.name} {video.length_s:.3f} s"
            if playlist in tracks and off_s > _SOUND_S:
                # So it is where timestamps of the source jump. `media.check` refuses what is more than that.
                yield Note(what)
            elif playlist not in tracks and off_s > _EXACT_S + len(playlist.uris) * _ROUNDED_S:
                yield what


def _contained(number: str, text: str, codecs: tuple[str, ...], endings: tuple[str, ...]) -> None:
    """Enter the rule that video in some codecs is in files with these endings."""

    @_rule(number, "MUST", text)
    def _(package: Package) -> Findings:
        for variant in package.variants:
            uris = package.video[variant.uri].uris
            if video_codec(variant).startswith(codecs) and not all(uri.endswith(endings) for uri in uris):
                yield str(variant.uri)


_contained("1.2", "H.264 is in fMP4 or MPEG-TS", ("avc1", "avc3"), (".m4s", ".mp4", ".ts"))
_contained("1.5", "HEVC is in fMP4", ("hvc1", "hev1"), (".m4s", ".mp4"))
_contained("1.39", "AV1 is in fMP4", ("av01",), (".m4s", ".mp4"))


@_rule("7.5", "SHOULD", "target durations are 6 s")
def _(package: Package) -> Findings:
    for playlist in _sounds_and_pictures(package):
        if playlist.head.target_duration != _NOMINAL_S:
            what = f"{playlist.name} has {playlist.head.target_duration} s"
            yield Note(what) if playlist.length_s < _NOMINAL_S else what


@_rule("7.6", "SHOULD", "segments have 6 s")
def _(package: Package) -> Findings:
    for playlist in _sounds_and_pictures(package):
        off = [each for each in playlist.durations[:-1] if abs(each - _NOMINAL_S) > _AROUND_S]
        if off:
            yield f"{playlist.name} has one of {off[0]:.3f} s"


@_rule("7.7", "MUST", "no segment exceeds the target duration by more than 0.5 s")
def _(package: Package) -> Findings:
    for playlist in _all(package):
        if max(playlist.durations, default=0) > (playlist.head.target_duration or 0) + _OVER_S:
            yield playlist.name


@_rule("8.2", "MUST", "audio and video have the same target duration")
def _(package: Package) -> Findings:
    found = {playlist.head.target_duration: playlist.name for playlist in _sounds_and_pictures(package)}
    if len(found) > 1:
        yield ", ".join(f"{name} has {target} s" for target, name in found.items())


@_rule("8.3", "MUST", "audio and video have the same duration")
def _(package: Package) -> Findings:
    yield from _as_long(package, _sounds_and_pictures(package))


@_rule("8.6", "MUST", "EXT-X-PLAYLIST-TYPE is VOD")
def _(package: Package) -> Findings:
    for playlist in _all(package):
        if playlist.head.playlist_type != "vod":
            yield playlist.name


@_rule("8.7", "MUST", "all playlists cover the same time")
def _(package: Package) -> Findings:
    yield from _as_long(package, _all(package))


@_rule("8.9", "MUST", "audio of its own is declared by EXT-X-MEDIA")
def _(package: Package) -> Findings:
    for kind, attribute in (("AUDIO", "audio"), ("SUBTITLES", "subtitles")):
        declared = {medium.group_id for medium in package.media(kind)}
        for variant in package.variants:
            named = getattr(variant.stream_info, attribute)
            if named and named not in declared:
                yield f"{variant.uri} names {named}, which is not declared"


@_rule("8.15", "MUST", "discontinuities are in all playlists")
def _(package: Package) -> Findings:
    if len({playlist.discontinuities for playlist in _all(package)}) > 1:
        yield "their numbers differ"


@_rule("8.20", "MUST", "fMP4 has an EXT-X-MAP")
def _(package: Package) -> Findings:
    for playlist in _all(package):
        if playlist.uris[0].endswith((".m4s", ".mp4")) and not playlist.head.segment_map:
            yield playlist.name


@_rule("8.22", "SHOULD", "segments of audio and video begin at the same times")
def _(package: Package) -> Findings:
    for video in list(package.video.values())[:1]:
        edges = _edges(video)
        for playlist in _sounds_and_pictures(package):
            found = _edges(playlist)
            if len(found) != len(edges):
                yield f"{playlist.name} has {len(found)} segments, {video.name} {len(edges)}"
            elif any(abs(a - b) > _SOUND_S for a, b in zip(found, edges, strict=True)):
                yield playlist.name


def _edges(playlist: Playlist) -> list[float]:
    """Where segments begin, in seconds; without a last one of a few audio frames."""
    edges = [0.0, *accumulate(playlist.durations)]
    return [edge for edge in edges[:-1] if edge < edges[-1] - _SOUND_S]


def _with(number: str, tag: str, attribute: str) -> None:
    """Enter the rule that all entries of a tag have an attribute."""

    @_rule(number, "MUST", f"{tag} has {attribute}")
    def _(package: Package) -> Findings:
        for entry in package.variants if tag == _VARIANT else package.iframe_variants:
            if not getattr(info_of(entry), attribute.lower().replace("-", "_")):
                yield str(entry.uri)


_VARIANT, _IFRAMES = "EXT-X-STREAM-INF", "EXT-X-I-FRAME-STREAM-INF"
_with("9.1", _VARIANT, "CODECS")
_with("9.2", _VARIANT, "RESOLUTION")
_with("9.3", _IFRAMES, "CODECS")
_with("9.4", _IFRAMES, "RESOLUTION")
_with("9.14", _VARIANT, "AVERAGE-BANDWIDTH")
_with("9.15", _VARIANT, "FRAME-RATE")


@_rule("9.5", "SHOULD", "audio and video are separate streams")
def _(package: Package) -> Findings:
    for variant in package.variants:
        if len(codecs_of(variant)) > 1 and not variant.stream_info.audio:
            yield str(variant.uri)


@_rule("9.9", "MUST", "there are several bit rates of video")
def _(package: Package) -> Findings:
    if len(package.video) == 1:
        yield Note("source and profile allow one quality")


@_rule("9.11", "SHOULD", "the master playlist has EXT-X-INDEPENDENT-SEGMENTS")
def _(package: Package) -> Findings:
    if not package.master.is_independent_segments:
        yield "it has not"


@_rule("9.12", "MUST", "the master playlist or all of video have EXT-X-INDEPENDENT-SEGMENTS")
def _(package: Package) -> Findings:
    if not package.master.is_independent_segments:
        yield from (each.name for each in package.video.values() if not each.head.is_independent_segments)


@_rule("9.13", "MUST", "BANDWIDTH is the largest sum of peak bit rates that can be played")
def _(package: Package) -> Findings:
    for variant in package.variants:
        declared, (peak, _) = variant.stream_info.bandwidth, package.rates_of(variant)
        if declared < (1 - ROUNDING) * peak:
            yield f"{variant.uri} declares {declared} and has {peak} bit/s"


@_rule("9.16", "MUST", "VIDEO-RANGE is given unless all is SDR")
def _(package: Package) -> Findings:
    infos = [(each.uri, info_of(each)) for each in (*package.variants, *package.iframe_variants)]
    if any(info.video_range not in (None, "SDR") for _, info in infos):
        yield from (str(uri) for uri, info in infos if not info.video_range)


@_rule("9.19", "MUST", "SCORE is on all variants, or on none")
def _(package: Package) -> Findings:
    scored = [bool(_SCORE.search(attributes)) for attributes in _STREAM.findall(package.text)]
    if any(scored) and not all(scored):
        yield f"it is on {sum(scored)} of {len(scored)}"
