"""Rules for video (1) and trick play (6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tqstudio.engine.media.check.apple.package import Package
from tqstudio.engine.media.check.apple.rules import Findings, Note, Rule, table
from tqstudio.engine.media.plan.grid import SHORT_S
from tqstudio.engine.media.plan.video_codecs import H264_LEVELS

RULES: list[Rule] = []
_rule = table(RULES)

_H264 = ("avc1", "avc3")
_CODECS = (*_H264, "hvc1", "hev1", "av01", "dvh1", "dvhe", "dav1")
_AVC = re.compile(r"avc[13]\.([0-9A-Fa-f]{2})[0-9A-Fa-f]{2}([0-9A-Fa-f]{2})")
_HVC = re.compile(r"h[ev][vc]1\.([^.]+)\.[^.]+\.([LH])(\d+)")
_AV01 = re.compile(r"av01\.\d\.(\d\d)")
_H264_HIGH = 100
_NATURAL_FPS = (23.976, 24, 25, 29.97, 30, 50, 59.94, 60)
_DEFAULT_BPS = 2_000_000
_HD, _UHD = 720, 2160
_UHD_BPS = 15_000_000
_DEVIATION = 0.10
"""Share by which bit rates may differ from what is declared."""
ROUNDING = 0.001
"""Share by which measured bit rates may be too high, because playlists round durations."""
_KEY_FRAME_S = 2.0


def info_of(entry: Any) -> Any:
    """The attributes of an entry of the master playlist, of video or I-frames."""
    return getattr(entry, "stream_info", None) or entry.iframe_stream_info


def codecs_of(entry: Any) -> list[str]:
    """The codecs of an entry of the master playlist."""
    return [codec.strip() for codec in (info_of(entry).codecs or "").split(",") if codec.strip()]


def video_codec(entry: Any) -> str:
    """The first video codec of an entry; empty if there is none."""
    return next((codec for codec in codecs_of(entry) if codec.startswith(_CODECS)), "")


def _h264(package: Package) -> list[tuple[Any, int, int]]:
    """The variants in H.264 with profile and level."""
    parsed = [(variant, _AVC.fullmatch(video_codec(variant))) for variant in package.variants]
    return [(variant, int(found[1], 16), int(found[2], 16)) for variant, found in parsed if found]


def _hevc(package: Package) -> list[tuple[Any, str, str, int]]:
    """The variants in HEVC with profile, tier and 30 times the level."""
    parsed = [(variant, _HVC.match(video_codec(variant))) for variant in package.variants]
    return [(variant, found[1], found[2], int(found[3])) for variant, found in parsed if found]


def _each(variants: Iterable[Any]) -> list[Any]:
    """The variants, each quality once."""
    return list({variant.uri: variant for variant in variants}.values())


def _is_sdr(entry: Any) -> bool:
    return info_of(entry).video_range in (None, "SDR")


@_rule("1.1", "MUST", "video is H.264, HEVC, Dolby Vision or AV1")
def _(package: Package) -> Findings:
    for variant in package.variants:
        if not video_codec(variant):
            yield f"{variant.uri} has {variant.stream_info.codecs}"


@_rule("1.3a", "SHOULD", "some H.264 is at most High profile, level 4.1")
def _(package: Package) -> Findings:
    levels = [level for _, _, level in _h264(package)]
    if levels and min(levels) > 41:
        yield f"the lowest level is {min(levels) / 10}"


@_rule("1.3b", "MUST", "H.264 is at most High profile, level 5.2")
def _(package: Package) -> Findings:
    for variant, profile, level in _h264(package):
        if profile > _H264_HIGH or level > 52:
            yield f"{variant.uri} has {video_codec(variant)}"


@_rule("1.4", "SHOULD", "H.264 has High profile")
def _(package: Package) -> Findings:
    for variant, profile, _ in _h264(package):
        if profile != _H264_HIGH:
            yield f"{variant.uri} has {video_codec(variant)}"


@_rule("1.6a", "SHOULD", "some HEVC is at most Main 10 profile, level 4.0, Main tier")
def _(package: Package) -> Findings:
    found = _hevc(package)
    if found and not any(tier == "L" and level <= 120 for _, _, tier, level in found):
        yield "all have a higher level or tier"


@_rule("1.6b", "MUST", "HEVC is at most Main 10 profile, level 5.1, High tier")
def _(package: Package) -> Findings:
    for variant, profile, _, level in _hevc(package):
        if profile not in ("1", "2") or level > 153:
            yield f"{variant.uri} has {video_codec(variant)}"


@_rule("1.10", "SHOULD", "parameter sets are in the sample descriptions")
def _(package: Package) -> Findings:
    for variant in package.variants:
        if video_codec(variant).startswith(("avc3", "hev1", "dvhe")):
            yield f"{variant.uri} has {video_codec(variant)}"


@_rule("1.11", "SHOULD", "no level is higher than the picture requires")
def _(package: Package) -> Findings:
    for variant, _, level in _h264(package):
        info = variant.stream_info
        width, height = info.resolution or (0, 0)
        blocks = -(-width // 16) * -(-height // 16)
        peak = package.video[variant.uri].rates[0]
        for enough, (per_s, per_picture, kbps) in H264_LEVELS.items():
            if blocks <= per_picture and blocks * (info.frame_rate or 0) <= per_s and peak <= kbps * 1000:
                # Encoders plan for the permitted bit rate and buffer, which the measured rate may not reach.
                if level > enough + 10:
                    yield f"{variant.uri} has level {level / 10}, {enough / 10} suffices"
                break


@_rule("1.12", "SHOULD", "some video is H.264")
def _(package: Package) -> Findings:
    if not _h264(package):
        yield "no variant is"


@_rule("1.13", "SHOULD", "there is a key frame every two seconds")
def _(package: Package) -> Findings:
    frame_s = 1 / min((each.stream_info.frame_rate or 1 for each in package.variants), default=1)
    for playlist in package.iframes.values():
        # Of the last one a short rest may be left out.
        *others, last = playlist.durations or (0.0,)
        if (longest := max(*others, last - SHORT_S, 0.0)) > _KEY_FRAME_S + frame_s:
            yield f"{playlist.name} has {longest:.3f} s between two"


@_rule("1.18", "SHOULD", "the frame rate is 23.976, 24, 25, 29.97, 30, 50, 59.94 or 60")
def _(package: Package) -> Findings:
    for rate in sorted({each.stream_info.frame_rate or 0 for each in package.variants}):
        if min(abs(rate - usual) for usual in _NATURAL_FPS) > 0.01:
            yield Note(f"{rate} is that of the source")


@_rule("1.19", "MUST", "the frame rate is at most 60")
def _(package: Package) -> Findings:
    for variant in package.variants:
        if (variant.stream_info.frame_rate or 0) > 60:
            yield f"{variant.uri} has {variant.stream_info.frame_rate}"


@_rule("1.20", "SHOULD", "some HDR has at most 30 frames per second")
def _(package: Package) -> Findings:
    rates = [each.stream_info.frame_rate or 0 for each in package.variants if not _is_sdr(each)]
    if rates and min(rates) > 30:
        yield f"the lowest frame rate is {min(rates)}"


@_rule("1.23", "SHOULD", "every codec and range has all qualities")
def _(package: Package) -> Findings:
    sizes: dict[tuple[str, str], set[Any]] = {}
    for variant in package.variants:
        kind = video_codec(variant).partition(".")[0], variant.stream_info.video_range or "SDR"
        sizes.setdefault(kind, set()).add(variant.stream_info.resolution)
    for (codec, video_range), found in sizes.items():
        if missing := set.union(*sizes.values()) - found:
            yield f"{codec} in {video_range} lacks {len(missing)}"


@_rule("1.24", "MUST", "there is video in SDR")
def _(package: Package) -> Findings:
    if not any(map(_is_sdr, package.variants)):
        yield "no variant is"


@_rule("1.26", "MUST", "average bit rates are within 10 % of AVERAGE-BANDWIDTH")
def _(package: Package) -> Findings:
    for variant in package.variants:
        declared, (_, average) = variant.stream_info.average_bandwidth, package.rates_of(variant)
        if declared and abs(average - declared) > _DEVIATION * declared:
            yield f"{variant.uri} declares {declared} and has {average} bit/s"


@_rule("1.27", "MUST", "peak bit rates are within 10 % of BANDWIDTH")
def _(package: Package) -> Findings:
    for variant in package.variants:
        declared, (peak, _) = variant.stream_info.bandwidth, package.rates_of(variant)
        if abs(peak - declared) > _DEVIATION * declared:
            yield f"{variant.uri} declares {declared} and has {peak} bit/s"


@_rule("1.30", "SHOULD", "peak bit rates are at most twice the average")
def _(package: Package) -> Findings:
    for variant in _each(package.variants):
        peak, average = package.rates_of(variant)
        if peak > 2 * average:
            yield f"{variant.uri} has {peak} and {average} bit/s"


@_rule("1.32", "SHOULD", "the first variant is that of 2000 kbit/s")
def _(package: Package) -> Findings:
    def distance(variant: Any) -> int:
        return abs(package.video[variant.uri].rates[1] - _DEFAULT_BPS)

    variants = _each(package.variants)
    alike = [each for each in variants if video_codec(each)[:4] == video_codec(variants[0])[:4]]
    if variants and variants[0] is not (nearest := min(alike, key=distance)):
        yield f"{variants[0].uri} is first, {nearest.uri} is nearest"


@_rule("1.33", "SHOULD", "all video has one aspect ratio")
def _(package: Package) -> Findings:
    sizes = [each.stream_info.resolution for each in package.variants if each.stream_info.resolution]
    for width, height in sorted(set(sizes)):
        # Sides are rounded to even numbers.
        first, other = sizes[0]
        if abs(width - first * height / other) > 2 and abs(height - other * width / first) > 2:
            yield f"{width}x{height} beside {first}x{other}"


@_rule("1.34", "SHOULD", "some UHD has at most 15 Mbit/s")
def _(package: Package) -> Findings:
    infos = [each.stream_info for each in package.variants]
    rates = [info.bandwidth for info in infos if min(info.resolution or (0,)) >= _UHD]
    if rates and min(rates) > _UHD_BPS:
        yield f"the lowest has {min(rates)} bit/s"


@_rule("1.37", "MUST", "AV1 is at most level 6.2")
def _(package: Package) -> Findings:
    for variant in package.variants:
        # Levels are counted in quarters from 2.0.
        if (parsed := _AV01.match(video_codec(variant))) and int(parsed[1]) > 18:
            yield f"{variant.uri} has {video_codec(variant)}"


@_rule("6.1", "MUST", "there are playlists of I-frames")
def _(package: Package) -> Findings:
    if not package.iframes:
        yield "there is none"


@_rule("6.2", "SHOULD", "I-frames come every second, in streams of their own")
def _(package: Package) -> Findings:
    if package.iframes:
        yield Note("they are those of the video, which 6.3 allows")


@_rule("6.6", "SHOULD", "I-frames have several bit rates")
def _(package: Package) -> Findings:
    if len(package.iframes) == 1:
        yield Note("there is one quality") if len(package.video) == 1 else "there is one playlist of I-frames"


@_rule("6.8", "MUST", "playlists of I-frames have EXT-X-I-FRAMES-ONLY")
def _(package: Package) -> Findings:
    for playlist in package.iframes.values():
        if not playlist.head.is_i_frames_only:
            yield playlist.name


@_rule("6.9", "MUST", "peak bit rates of I-frames are computed as in the HLS specification")
def _(package: Package) -> Findings:
    for entry in package.iframe_variants:
        declared, (peak, _) = entry.iframe_stream_info.bandwidth, package.iframes[entry.uri].rates
        if not (1 - ROUNDING) * peak <= declared <= (1 + _DEVIATION) * peak:
            yield f"{entry.uri} declares {declared} and has {peak} bit/s"


@_rule("6.10", "MUST", "segments of I-frames include their moof")
def _(package: Package) -> Findings:
    for playlist in package.iframes.values():
        # `verify` compares all of them with the boxes.
        for number in {0, len(playlist.uris) - 1}:
            with (playlist.folder / playlist.uris[number]).open("rb") as file:
                file.seek(playlist.offsets[number] + 4)
                if file.read(4) != b"moof":
                    yield f"{playlist.name}, entry {number}"


@_rule("6.14", "SHOULD", "some I-frames are H.264")
def _(package: Package) -> Findings:
    if package.iframes and not any(video_codec(each).startswith(_H264) for each in package.iframe_variants):
        yield "none are"


@_rule("6.15", "SHOULD", "I-frames in HDR have all sizes of the video in HDR")
def _(package: Package) -> Findings:
    sizes = {each.iframe_stream_info.resolution for each in package.iframe_variants if not _is_sdr(each)}
    wanted = {each.stream_info.resolution for each in package.variants if not _is_sdr(each)}
    if sizes and wanted - sizes:
        yield f"{len(wanted - sizes)} are missing"


@_rule("6.16", "MUST", "there are I-frames in SDR")
def _(package: Package) -> Findings:
    if package.iframes and not any(map(_is_sdr, package.iframe_variants)):
        yield "none are"


@_rule("9.10", "SHOULD", "HD has two bit rates of the highest resolution")
def _(package: Package) -> Findings:
    sizes = [each.stream_info.resolution or (0, 0) for each in _each(package.variants)]
    if sizes and min(best := max(sizes)) >= _HD and sizes.count(best) < 2:
        yield f"{best[0]}x{best[1]} has one"
