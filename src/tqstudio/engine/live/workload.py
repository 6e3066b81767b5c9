"""Computes how much a job has to encode, and the key of its rate, without planning its ladder."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile, RungSpec, names
from tqstudio.engine.media.plan.video_codecs import encoder_for
from tqstudio.engine.media.source.colour import HLG, PQ
from tqstudio.engine.media.source.facts import SourceFacts

_SIZE_CLASSES = (360, 480, 720, 1080, 1440, 2160, 4320)
_DECODE_SHARE = 0.15
"""Cost of decoding a pixel ÷ encoding one; 0.1 – 0.2 for x264 veryfast on 2 cores."""
_MIN_MEGAPIXELS = 50.0
"""About 1 s of 720p. Below it, a run mostly measures the start of ffmpeg."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of a run. Those with the same key take the same time per megapixel on one machine."""

    key: str
    """Encoder, codec, preset, source and heights: `libx264 h264 veryfast 1080p-hevc-360-480-720`."""
    megapixels: float
    """10⁶ pixels of all pictures of all qualities, decoding included; of sound, 10⁶ samples."""

    @property
    def is_measurable(self) -> bool:
        """Whether there is enough work that its time measures speed rather than the start of ffmpeg."""
        return self.megapixels >= _MIN_MEGAPIXELS


def work_of(
    facts: Mapping[str, Any] | None,
    profile_json: str,
    encoder: str,
    *,
    wanted: Collection[str] | None = None,
    left: float = 1.0,
) -> Workload | None:
    """Computes the remaining work of a job; None if its source is not probed, or by another version.

    Args:
        facts: those of the source, as stored.
        encoder: of the worker, see `video_codecs.encoder_for`.
        wanted: names of the qualities to encode; None for all.
        left: share of them that is not encoded yet, 0 … 1.
    """
    if not facts:
        return None
    try:
        return _work(facts, _profile(profile_json), encoder, wanted, left)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _work(
    facts: Mapping[str, Any], profile: Profile, encoder: str, wanted: Collection[str] | None, left: float
) -> Workload:
    video = facts["video"]
    seconds = max(0.0, video["duration_s"] or facts["duration_s"]) * left
    if video["still"]:
        # Up to three qualities, and decoding.
        samples = 4 * seconds * profile.audio_sample_rate * len(facts["audio"])
        return Workload(f"sound {profile.audio_codec}", samples / 1e6)
    short, long = sorted((video["width"], video["height"]))
    # As `build_ladder` chooses: 1920×800 is of 1080p; what is smaller than all rungs has one of its own size.
    most, is_hdr = max(short, long * 9 / 16) / 0.95, video["color_transfer"] in (PQ, HLG)
    rungs = {
        name: rung
        for rung, name in names(profile).items()
        if rung.short_side <= most and (is_hdr or not rung.hdr)
    } or {f"{short - short % 2}p": profile.rungs[-1]}
    copied = _copied(facts, profile)
    made = [rung for name, rung in rungs.items() if (wanted is None or name in wanted) and rung != copied]
    shares = [min(1.0, rung.short_side / short) ** 2 for rung in made]
    pixels = short * long * (sum(shares) + _DECODE_SHARE) if made else 0.0
    codecs = sorted({profile.codec_of(rung) for rung in made})
    encoders = [encoder_for(codec, encoder, hdr=False) for codec in codecs]
    source = video["codec"] + ("-vulkan" if video["dv_profile"] and not video["dv_compatibility"] else "")
    heights = [size_class(short), source, *sorted({str(rung.short_side) for rung in made})]
    key = f"{'+'.join(encoders)} {'+'.join(codecs)} {profile.preset} {'-'.join(heights)}"
    return Workload(key, pixels * float(Fraction(video["fps"])) * seconds / 1e6)


def _copied(facts: Mapping[str, Any], profile: Profile) -> RungSpec | None:
    """The quality that costs nothing, because it is a copy."""
    if profile.copy == "never" or not facts["video"].get("key_gaps"):
        return None
    return make_grid(SourceFacts.from_json(facts), profile).copied


@lru_cache(maxsize=64)
def _profile(text: str) -> Profile:
    return Profile.from_json(json.loads(text))


def size_class(short_side: int) -> str:
    """Returns the class of pictures with this short side, such as `1080p`."""
    return f"{next((side for side in _SIZE_CLASSES if short_side <= side), _SIZE_CLASSES[-1])}p"
