"""The two keys of a rendition: what it should be, and what its segments may be joined with.

`settings_hash` covers the content of the source and the settings that change the result. It decides cached,
changed and dirty. `stream_key` adds the encoder, the ffmpeg build and the source's modification time. It
decides only whether segments may be joined: neither an ffmpeg upgrade, nor a move from CPU to GPU, nor a
`touch` encodes a library again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from blake3 import blake3

from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import DOWNMIX_PEAK, AudioRendition, Rung
from tqstudio.engine.media.source.colour import to_bt709
from tqstudio.engine.media.source.facts import SourceFacts

RECIPE = 2
"""Raised when the command changes so that its results must be made again."""

_DIGITS = 32


def settings_hash(content_id: str, profile: Profile, rung: Rung, facts: SourceFacts) -> str:
    """The key of a video rendition: 32 hex digits.

    Args:
        content_id: identifies the bytes of the source (its quick or full hash).
    """
    grid = make_grid(facts, profile)
    return _digest(
        {
            "recipe": RECIPE,
            "kind": "video",
            "content": content_id,
            "stream": facts.video.index,
            "codec": profile.codec,
            "preset": profile.preset,
            "crf": profile.crf,
            "profile": profile.video_profile,
            "pixel_format": profile.pixel_format,
            "bufsize_factor": profile.bufsize_factor,
            "size": [rung.width, rung.height],
            "maxrate_kbps": rung.maxrate_kbps,
            "fps": str(grid.fps),
            "gop": grid.gop,
            "seg_frames": grid.seg_frames,
            "g0": grid.g0,
            "start_time": str(grid.start_time),
            "frames": grid.total_frames,
            "head": grid.head,
            "deinterlace": facts.video.interlaced,
            "colour": to_bt709(facts.video),
            "varies": facts.video.varies,
        }
    )


def audio_settings_hash(
    content_id: str, profile: Profile, rendition: AudioRendition, facts: SourceFacts
) -> str:
    """The key of an audio rendition: 32 hex digits."""
    grid = make_grid(facts, profile)
    return _digest(
        {
            "recipe": RECIPE,
            "kind": "audio",
            "content": content_id,
            "stream": rendition.track.index,
            "codec": profile.audio_codec,
            "bitrate_kbps": profile.audio_bitrate_kbps,
            "channels": rendition.channels,
            **({"limit": DOWNMIX_PEAK} if rendition.downmixed else {}),
            "sample_rate": profile.audio_sample_rate,
            "segment_s": profile.segment_s,
            "range": [str(grid.zero), str(grid.total_frames / grid.fps)],
        }
    )


def stream_key(settings_hash: str, encoder: str, ffmpeg_build: str, mtime_ns: int) -> str:
    """The key of segments that may be joined: 32 hex digits; a folder of the segment store.

    Args:
        encoder: as ffmpeg names it, such as `libx264` or `aac`.
        ffmpeg_build: `FFmpeg.build`.
        mtime_ns: of the source. A quick hash reads samples; what was changed between them must not be joined
            with what was made before.
    """
    return _digest(
        {"settings": settings_hash, "encoder": encoder, "build": ffmpeg_build, "mtime_ns": mtime_ns}
    )


def _digest(values: Mapping[str, object]) -> str:
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake3(canonical.encode()).hexdigest()[:_DIGITS]
