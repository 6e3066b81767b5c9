"""Computes the work of a job from facts and profile, in pieces whose speed can be measured."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.grid import picture_rate
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.plan.video_codecs import encoder_for
from tqstudio.engine.media.source.colour import needs_vulkan
from tqstudio.engine.media.source.facts import SourceFacts

_SIZE_CLASSES = (360, 480, 720, 1080, 1440, 2160, 4320)
"""Short sides of pictures; the cost of decoding and scaling a source depends on its class."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the work. Pieces with the same `key` take the same time per megapixel on one machine."""

    key: str
    megapixels: float
    """10⁶ pixels of all pictures together, or 10⁶ samples of sound."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of one run: decode the source once, and encode each quality."""

    decode: Piece
    encode: tuple[Piece, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (self.decode, *self.encode) if self.encode else ()


def workload(
    facts: SourceFacts,
    profile: Profile,
    encoder: str,
    *,
    requested: Set[str] | None = None,
    kept: Set[str] = frozenset(),
    done: Mapping[str, float] | None = None,
) -> Workload:
    """Computes the remaining work of a source's ladder.

    Args:
        encoder: of the worker, see `video_codecs.encoder_for`.
        requested: requested qualities; None for all.
        kept: qualities kept from an earlier ladder.
        done: finished share of each quality (0 … 1).
    """
    sound = facts.video.still
    tracks = len({each.track for each in audio_renditions(facts, profile)})
    rate = profile.audio_sample_rate if sound else float(picture_rate(facts.video, profile))
    count = max(0.0, facts.video.duration_s or facts.duration_s) * rate
    done = done or {}
    source = source_class(facts)
    encode: list[Piece] = []
    for rung in build_ladder(facts, profile, requested):
        left = 1 - min(1.0, done.get(rung.name, 0.0))
        if not rung.skipped and rung.name not in kept and left > 0:
            if sound:
                encode.append(Piece(f"sound {rung.name}", tracks * count * left / 1e6))
                continue
            used = encoder_for(rung.codec, encoder, hdr=rung.hdr)
            key = f"{used} {rung.codec} {rung.preset} {source} {rung.name}"
            encode.append(Piece(key, rung.pixels * count * left / 1e6))
    # All qualities share one decode, which starts where the first of them resumes.
    left = max((1 - min(1.0, done.get(piece.key.rpartition(" ")[2], 0.0)) for piece in encode), default=0.0)
    coded = 1 if sound else facts.video.coded_width * facts.video.coded_height
    codec = "sound" if sound else facts.video.codec
    if needs_vulkan(facts.video):
        codec += "-vulkan"
    decode = Piece(f"decode {codec} {source}", coded * count * left / 1e6)
    return Workload(decode, tuple(encode))


def source_class(facts: SourceFacts) -> str:
    """Returns the class of a source by its short side, such as `1080p`."""
    return size_class(facts.video.short_side)


def size_class(short_side: int) -> str:
    """Returns the class of pictures with this short side, such as `1080p`."""
    return f"{next((side for side in _SIZE_CLASSES if short_side <= side), _SIZE_CLASSES[-1])}p"
