"""Which renditions a source gets. Pure: sizes and a profile in, rungs out."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts

ABOVE_SOURCE = "above source"
NOT_REQUESTED = "not requested"
DROPPED = "dropped"

# A source this much smaller than a rung still stands for it, at its own size: 1918×1078 is what a person
# calls 1080p, and falling to 720p would throw half of its pixels away.
_STANDS_FOR_PERCENT = 95
# A source at most this much larger keeps its own size too: 1920×1088 is not resampled for eight lines.
_KEEPS_SIZE_PERCENT = 101
# Bits needed grow slower than pixels; the exponent is the customary one.
_RATE_EXPONENT = 0.75
_LEAST_MAXRATE_KBPS = 64
DOWNMIX_PEAK = 0.84
"""Limit of the sum of several channels: of full scale, -1.5 dB. The encoder adds a little to it."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One rendition of a ladder."""

    name: str
    """After the short side of the rung, such as `1080p`, whichever way the picture stands."""
    width: int
    """Even; 0 for a rung above the source."""
    height: int
    maxrate_kbps: int
    required: bool = True
    skipped_reason: str | None = None
    """Why it is not made, or None."""

    @property
    def skipped(self) -> bool:
        """It is not made."""
        return self.skipped_reason is not None

    @property
    def pixels(self) -> int:
        """Width × height: its weight in a job's progress."""
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class AudioRendition:
    """An audio stream as it is published."""

    name: str
    """The folder and group member, such as `audio-en` or `audio-und`."""
    track: AudioTrack
    channels: int
    """Channels that are published: as many as the track has, at most those of the profile."""

    @property
    def downmixed(self) -> bool:
        """It has fewer channels than its track."""
        return self.channels < self.track.channels


def build_ladder(
    facts_or_size: SourceFacts | tuple[int, int],
    profile: Profile,
    requested: Set[str] | None = None,
) -> tuple[Rung, ...]:
    """Choose the rungs of a source, largest first.

    Nothing is enlarged. A source below the lowest rung gets one rung at its own size, named after it. Every
    rung of the profile is in the result, those that are not made with their reason.

    Args:
        facts_or_size: a probed source, or its display (width, height).
        requested: names of the rungs that are wanted; None means all.
    """
    if isinstance(facts_or_size, SourceFacts):
        width, height = facts_or_size.video.width, facts_or_size.video.height
    else:
        width, height = facts_or_size
    short = min(width, height)
    rungs = [_rung(width, height, spec, requested) for spec in profile.rungs]
    if all(rung.skipped_reason == ABOVE_SOURCE for rung in rungs):
        lowest = profile.rungs[-1]
        scale = (short / lowest.short_side) ** (2 * _RATE_EXPONENT)
        own_width, own_height = _even(width), _even(height)
        name = f"{min(own_width, own_height)}p"
        rungs.append(
            Rung(
                name,
                own_width,
                own_height,
                max(_LEAST_MAXRATE_KBPS, round(lowest.maxrate_kbps * scale)),
                lowest.required,
                _unless_requested(name, requested),
            )
        )
    return tuple(rungs)


def audio_renditions(facts: SourceFacts, profile: Profile) -> tuple[AudioRendition, ...]:
    """The audio that is published: the default track that can be decoded, else the first such; none for
    none."""
    usable = [track for track in facts.audio if track.codec and track.channels > 0]
    if facts.measured:
        # A track may be declared and have nothing in it.
        usable = [track for track in usable if track.first_s is not None]
    if not usable:
        return ()
    track = next((t for t in usable if t.default), usable[0])
    return (AudioRendition(f"audio-{track.language}", track, min(track.channels, profile.audio_channels)),)


def _rung(width: int, height: int, spec: RungSpec, requested: Set[str] | None) -> Rung:
    name = f"{spec.short_side}p"
    short = min(width, height)
    if short * 100 < spec.short_side * _STANDS_FOR_PERCENT:
        return Rung(name, 0, 0, spec.maxrate_kbps, spec.required, ABOVE_SOURCE)
    if short * 100 <= spec.short_side * _KEEPS_SIZE_PERCENT:
        size = _even(width), _even(height)
    elif width >= height:
        size = _scaled(width, spec.short_side, short), spec.short_side
    else:
        size = spec.short_side, _scaled(height, spec.short_side, short)
    return Rung(name, *size, spec.maxrate_kbps, spec.required, _unless_requested(name, requested))


def _unless_requested(name: str, requested: Set[str] | None) -> str | None:
    return None if requested is None or name in requested else NOT_REQUESTED


def _even(pixels: int) -> int:
    """The even number at or below: 4:2:0 pictures have no odd sides, and nothing is enlarged."""
    return max(2, pixels - pixels % 2)


def _scaled(long: int, short_side: int, short: int) -> int:
    """The long side of a rung: the nearest even number that keeps the aspect."""
    return max(2, (2 * long * short_side + 2 * short) // (4 * short) * 2)
