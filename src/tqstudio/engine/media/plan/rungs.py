"""Chooses the video renditions of a source."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.source.facts import SourceFacts

ABOVE_SOURCE = "above source"
NOT_REQUESTED = "not requested"
DROPPED = "dropped"

# A source of at least this percentage of a rung gets that rung at its own size: 1918×1078 counts as 1080p,
# because 720p would discard half of its pixels.
_STANDS_FOR_PERCENT = 95
# Up to this percentage it keeps its own size: 1920×1088 is not resampled for eight lines.
_KEEPS_SIZE_PERCENT = 101
# The bit rate grows more slowly than the pixel count; 0.75 is the usual exponent.
_RATE_EXPONENT = 0.75
_LEAST_MAXRATE_KBPS = 64


@dataclass(frozen=True, slots=True)
class Rung:
    """One rendition of a ladder."""

    name: str
    """The short side of the rung, such as `1080p`, in landscape and portrait."""
    width: int
    """Even; 0 for a rung above the source."""
    height: int
    maxrate_kbps: int
    required: bool = True
    skipped_reason: str | None = None
    """Why it is not encoded, or None."""

    @property
    def skipped(self) -> bool:
        """Whether it is not encoded."""
        return self.skipped_reason is not None

    @property
    def pixels(self) -> int:
        """Width × height, used as its weight in the progress of a job."""
        return self.width * self.height


def build_ladder(
    facts_or_size: SourceFacts | tuple[int, int],
    profile: Profile,
    requested: Set[str] | None = None,
) -> tuple[Rung, ...]:
    """Choose the rungs of a source, largest first.

    Pictures are never enlarged. A source below the lowest rung gets one rung at its own size, named after it.
    The result contains every rung of the profile; skipped ones have a `skipped_reason`.

    Args:
        facts_or_size: a probed source, or its display (width, height).
        requested: names of the rungs to encode; None means all.
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
    """Round down to an even number, because 4:2:0 pictures cannot have odd sides."""
    return max(2, pixels - pixels % 2)


def _scaled(long: int, short_side: int, short: int) -> int:
    """The long side of a rung: the even number that best keeps the aspect ratio."""
    return max(2, (2 * long * short_side + 2 * short) // (4 * short) * 2)
