"""Chooses the qualities of a source: its video renditions, or those of sound alone; and its whole files."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.copying import keeps_size, stands_for
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile, RungSpec, names
from tqstudio.engine.media.plan.source_rates import RATE_EXPONENT, picture_cap_kbps
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.plan.track_names import LOW
from tqstudio.engine.media.plan.video_codecs import CODECS, DEFAULT_PRESET, MAX_BLOCKS, MAX_SIDE, PLAYERS
from tqstudio.engine.media.source.colour import colour_of
from tqstudio.engine.media.source.facts import SourceFacts

ABOVE_SOURCE = "above source"
NOT_HDR = "source is not HDR"
NOT_REQUESTED = "not requested"
DROPPED = "dropped"
SAME_SIZE = "same size as a lower quality"
SAME_RATE = "bit rate of a higher quality"
NO_SOUND, NO_PICTURES, NO_QUALITY = "no sound", "no pictures", "its quality is not made"

# Of fragmented MP4, with the pictures beside the ladder.
_CONTAINER_FACTOR = 1.05
# Of the bit rate of the next higher quality.
_APART = 0.85
_MIN_MAXRATE_KBPS = 64
_COPY_COST = 0.01
"""Of a copy, as `VideoCodec.cost`; measured."""
MIN_SOUGHT_S = 60.0
"""Shorter videos are encoded with the CRF of their profile, even if it has a quality."""
_MIN_FIRST_S = 120.0
"""The ladder of a shorter video is there soon."""
_LARGEST_FIRST = 480
"""Short side of the largest that is encoded first: some 10 % of the work of a ladder up to 1080p."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One rendition of a ladder."""

    name: str
    """See `profiles.names`."""
    width: int
    """Even; 0 for a rung above the source, and for sound."""
    height: int
    maxrate_kbps: int
    required: bool = True
    skipped_reason: str | None = None
    """Why it is not encoded, or None."""
    codec: str = "h264"
    preset: str = DEFAULT_PRESET
    crf: int = CODECS["h264"].crf
    hdr: bool = False
    """It keeps the colours of the source, which is HDR; others are SDR."""
    limited: bool = False
    """Its bit rate is lower than that of the profile, because that of the source is low."""
    copied: bool = False
    """It is the stream of the source, with its bit rate."""
    not_copied: str = ""
    """Why the largest quality is no copy, although the profile asks for one; empty for others."""
    quality: float = 0.0
    """VMAF for which the CRF of its codec is sought, in place of `crf`; 0: none."""

    @property
    def is_audio_only(self) -> bool:
        """Whether it is a quality of sound alone: the audio rendition of its name."""
        return self.codec not in CODECS

    @property
    def skipped(self) -> bool:
        """Whether it is not encoded."""
        return self.skipped_reason is not None

    @property
    def pixels(self) -> int:
        """Width × height."""
        return self.width * self.height

    @property
    def weight(self) -> float:
        """Its weight in the progress of a job: pixels, times the cost of its codec, or of a copy."""
        return self.pixels * (_COPY_COST if self.copied else CODECS[self.codec].cost)


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file that a profile asks for."""

    key: str
    """`mp4`, `m4a`, or of a quality `mp4:720p`."""
    quality: str = ""
    """Whose pictures it has."""
    max_kbps: int = 0
    skipped_reason: str | None = None
    """Why a source gets none, or None."""


def build_ladder(facts: SourceFacts, profile: Profile, requested: Set[str] | None = None) -> tuple[Rung, ...]:
    """Choose the rungs of a source, largest first; of those requested, None means all.

    Pictures are never enlarged. A source below the lowest rung gets one rung at its own size, named after it.
    The result contains every rung of the profile; skipped ones have a `skipped_reason`.
    """
    if facts.video.still:
        sounds = [each for each in audio_renditions(facts, profile) if each.default]
        reasons = {sound.name: _unless_requested(sound.name, requested) for sound in sounds}
        return tuple(
            Rung(each.name, 0, 0, each.bitrate_kbps, True, reasons[each.name], each.codec) for each in sounds
        )
    width, height, hdr = facts.video.width, facts.video.height, colour_of(facts.video).hdr
    short = min(width, height)
    rungs = [_rung(width, height, spec, name, profile, requested) for spec, name in names(profile).items()]
    rungs = [replace(rung, skipped_reason=NOT_HDR) if rung.hdr and not hdr else rung for rung in rungs]
    rungs = _without_equals(rungs, list(names(profile)))
    if all(rung.skipped_reason == ABOVE_SOURCE for rung in rungs if not rung.hdr):
        sdr = [spec for spec in profile.rungs if not spec.hdr]
        lowest = ([spec for spec in sdr if profile.codec_of(spec) == profile.codec] or sdr)[-1]
        scale = (short / lowest.short_side) ** (2 * RATE_EXPONENT)
        own_width, own_height = _allowed(_even(width), _even(height))
        name = f"{min(own_width, own_height)}p"
        rungs.append(
            Rung(
                name,
                own_width,
                own_height,
                max(_MIN_MAXRATE_KBPS, round(lowest.maxrate_kbps * scale)),
                lowest.required,
                _unless_requested(name, requested),
                *profile.encoding_of(lowest),
            )
        )
    return tuple(
        replace(rung, quality=profile.quality)
        if not rung.copied and seeks_quality(facts, profile, hdr=rung.hdr)
        else rung
        for rung in _within_source(_with_copy(rungs, facts, profile), facts, profile)
    )


def first_quality(
    rungs: Sequence[Rung], facts: SourceFacts, profile: Profile, *, on_gpu: bool = False
) -> str | None:
    """Choose which of the rungs that are encoded is published first; None for none of them.

    By default the copy of the source, which costs nothing, else the largest up to 480p. That takes another
    decoding of the source, so there is none where decoding and filters are a large part of the work.

    Args:
        on_gpu: whether a GPU encodes, so that most of the work is decoding.
    """
    rungs = [rung for rung in rungs if not rung.skipped and not rung.is_audio_only]
    if profile.first == "off" or len(rungs) < 2:
        return None
    if profile.first != "auto":
        return profile.first if profile.first in {rung.name for rung in rungs} else None
    if (facts.video.duration_s or facts.duration_s) < _MIN_FIRST_S:
        return None
    played = max(PLAYERS[rung.codec] for rung in rungs)
    rungs = [rung for rung in rungs if PLAYERS[rung.codec] == played and not rung.hdr]
    # Whether the pictures are damaged shows when they are decoded.
    copied = [rung for rung in rungs if rung.copied and profile.on_damage != "refuse"]
    if copied:
        return copied[0].name
    if on_gpu or _is_costly(facts, profile):
        return None
    encoded = [rung for rung in rungs if not rung.copied]
    small = [rung for rung in encoded if min(rung.width, rung.height) <= _LARGEST_FIRST] or encoded[-1:]
    return max(small, key=lambda rung: rung.pixels).name if small else None


def _is_costly(facts: SourceFacts, profile: Profile) -> bool:
    """Whether filters before the scaling are a large part of the work."""
    return colour_of(facts.video).hdr or facts.video.interlaced or bool(burnt_subtitles(facts, profile))


def seeks_quality(facts: SourceFacts, profile: Profile, *, hdr: bool) -> bool:
    """Whether the rungs of one dynamic range seek the quality of the profile.

    The model of VMAF knows no HDR, and of a short video the samples would be the most part.
    """
    length_s = facts.video.duration_s or facts.duration_s
    return profile.quality > 0 and not hdr and length_s >= MIN_SOUGHT_S


def followed(rung: Rung, shift: int) -> int:
    """The CRF of a rung whose codec's largest one differs by `shift` from the profile's."""
    return min(CODECS[rung.codec].most_crf, max(1, rung.crf + shift))


def why_not_sought(facts: SourceFacts, profile: Profile, rung: Rung) -> str:
    """Why a rung of a profile with a quality is encoded with its CRF; empty if it is not."""
    if not profile.quality or seeks_quality(facts, profile, hdr=rung.hdr):
        return ""
    return "VMAF is not known of HDR" if rung.hdr else f"the video is shorter than {MIN_SOUGHT_S:.0f} s"


def max_bytes(facts: SourceFacts, max_kbps: float) -> int:
    """Bytes of a rendition that has its highest bit rate all the time; 0 if the length is unknown."""
    return round(max_kbps * 125 * _CONTAINER_FACTOR * facts.duration_s)


def max_ladder_bytes(facts: SourceFacts, profile: Profile) -> int:
    """Bytes of a ladder whose renditions all have their highest bit rates."""
    rungs = [rung for rung in build_ladder(facts, profile) if not rung.skipped and not rung.is_audio_only]
    sounds = audio_renditions(facts, profile)
    kbps = sum(rung.maxrate_kbps for rung in rungs) + sum(sound.bitrate_kbps for sound in sounds)
    return max_bytes(facts, kbps)


def whole_files(facts: SourceFacts, profile: Profile) -> tuple[WholeFile, ...]:
    """The files that a source gets, and those that it does not get."""
    if not profile.files:
        return ()
    rungs = {rung.name: rung for rung in build_ladder(facts, profile) if not rung.skipped}
    pictures = {name: rung for name, rung in rungs.items() if not rung.is_audio_only}
    sounds = [each for each in audio_renditions(facts, profile) if not each.name.endswith(LOW)]
    if facts.video.still and sounds:
        sounds = [each for each in sounds if each.bitrate_kbps == sounds[0].bitrate_kbps]
    found = []
    for key in profile.files:
        kind, _, quality = key.partition(":")
        if kind == "m4a":
            kbps = sum(each.bitrate_kbps for each in sounds if each.codec == "aac")
            found.append(WholeFile(key, "", kbps, None if sounds else NO_SOUND))
        elif not pictures or (quality and quality not in pictures):
            found.append(WholeFile(key, skipped_reason=NO_QUALITY if pictures else NO_PICTURES))
        else:
            best = max(pictures.values(), key=_worth)
            rung = pictures.get(quality, best)
            kbps = rung.maxrate_kbps + sum(each.bitrate_kbps for each in sounds)
            found.append(WholeFile(key, rung.name, kbps))
    return tuple(found)


def _worth(rung: Rung) -> tuple[bool, int, int, int]:
    return not rung.hdr, rung.pixels, PLAYERS[rung.codec], rung.maxrate_kbps


def max_files_bytes(facts: SourceFacts, profile: Profile) -> int:
    """Bytes of these files if all that is in them has its highest bit rate; 0 if the length is unknown."""
    return max_bytes(facts, sum(each.max_kbps for each in whole_files(facts, profile)))


def _rung(
    width: int, height: int, spec: RungSpec, name: str, profile: Profile, requested: Set[str] | None
) -> Rung:
    encoding = profile.encoding_of(spec)
    short = min(width, height)
    if not stands_for(width, height, spec.short_side):
        return Rung(name, 0, 0, spec.maxrate_kbps, spec.required, ABOVE_SOURCE, *encoding, spec.hdr)
    own = _allowed(_even(width), _even(height))
    if keeps_size(width, height, spec.short_side) or spec.short_side >= min(own):
        size = own
    elif width >= height:
        size = _scaled(width, spec.short_side, short), spec.short_side
    else:
        size = spec.short_side, _scaled(height, spec.short_side, short)
    reason = _unless_requested(name, requested)
    return Rung(name, size[0], size[1], spec.maxrate_kbps, spec.required, reason, *encoding, spec.hdr)


def _without_equals(rungs: list[Rung], specs: list[RungSpec]) -> list[Rung]:
    """Skip what becomes as large as a lower rung: very wide sources, or rungs that hardly differ."""
    sides: dict[tuple[object, ...], int] = {}
    found = []
    for rung, spec in zip(reversed(rungs), reversed(specs), strict=True):
        size = rung.width, rung.height, rung.codec, rung.hdr
        is_equal = rung.width > 0 and sides.setdefault(size, spec.short_side) != spec.short_side
        found.append(replace(rung, skipped_reason=SAME_SIZE) if is_equal else rung)
    return found[::-1]


def _with_copy(rungs: list[Rung], facts: SourceFacts, profile: Profile) -> list[Rung]:
    """Mark the rung that is a copy of the source, or the reason why there is none."""
    grid = make_grid(facts, profile)
    if grid.copied is not None:
        name, kbps = names(profile)[grid.copied], -(-facts.video.measured_bitrate // 1000)
        return [
            replace(rung, copied=True, maxrate_kbps=kbps) if rung.name == name else rung for rung in rungs
        ]
    first = next((rung.name for rung in rungs if _is_wanted(rung) and not rung.hdr), "")
    return [replace(rung, not_copied=grid.not_copied) if rung.name == first else rung for rung in rungs]


def _within_source(rungs: list[Rung], facts: SourceFacts, profile: Profile) -> tuple[Rung, ...]:
    """Lower bit rates to what that of the source is worth, and skip what becomes alike, but the smallest."""
    found: list[Rung] = []
    above: dict[tuple[str, bool], tuple[int, bool]] = {}
    smallest = {(rung.codec, rung.hdr): rung.name for rung in rungs if _is_wanted(rung)}
    for rung in rungs:
        kind = rung.codec, rung.hdr
        cap = rung.maxrate_kbps if rung.copied else picture_cap_kbps(facts, profile, rung.codec, rung.pixels)
        if not _is_wanted(rung) or cap is None:
            found.append(rung)
            continue
        least = 0 if rung.copied else _MIN_MAXRATE_KBPS
        kbps = min(rung.maxrate_kbps, max(least, round(cap)))
        lowered = rung.copied or kbps < rung.maxrate_kbps
        next_kbps, next_lowered = above.get(kind, (0, False))
        is_alike = (lowered or next_lowered) and kbps > _APART * next_kbps > 0
        if is_alike and rung.name != smallest[kind]:
            found.append(replace(rung, skipped_reason=SAME_RATE))
            continue
        above[kind] = kbps, lowered
        found.append(replace(rung, maxrate_kbps=kbps, limited=lowered and not rung.copied))
    return tuple(found)


def _is_wanted(rung: Rung) -> bool:
    """Whether the source has such pictures; others than the requested ones are compared too."""
    return rung.skipped_reason in (None, NOT_REQUESTED)


def _unless_requested(name: str, requested: Set[str] | None) -> str | None:
    return None if requested is None or name in requested else NOT_REQUESTED


def _allowed(width: int, height: int) -> tuple[int, int]:
    """Scale an even size down to what the levels of the codecs allow: 5120×2160 becomes 4560×1924."""
    short, long = sorted((width, height))
    for side in range(short, 0, -2):
        size = side, long if side == short else _scaled(long, side, short)
        if size[1] <= MAX_SIDE and math.prod(math.ceil(each / 16) for each in size) <= MAX_BLOCKS:
            break
    return size if width < height else (size[1], size[0])


def _even(pixels: int) -> int:
    """Round down to an even number, because 4:2:0 pictures cannot have odd sides."""
    return max(2, pixels - pixels % 2)


def _scaled(long: int, short_side: int, short: int) -> int:
    """The long side of a rung: the even number that best keeps the aspect ratio."""
    return max(2, (2 * long * short_side + 2 * short) // (4 * short) * 2)
