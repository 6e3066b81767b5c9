"""The video codecs of profiles: their encoders, and what applies where a profile does not choose."""

from __future__ import annotations

from dataclasses import dataclass

CPU_ENCODER = "libx264"
"""The encoder that CPU workers report; other codecs have other encoders there, see `encoder_for`."""


@dataclass(frozen=True, slots=True)
class VideoCodec:
    """One codec, and the names that ffmpeg gives its encoders."""

    encoder: str
    """On the CPU."""
    gpu_encoders: tuple[str, ...]
    crf: int
    """Default constant quality. Those of different codecs look alike (`docs/profiles.md`)."""
    most_crf: int
    cost: float
    """Seconds to encode a pixel ÷ those of H.264, both with the preset `medium`; measured on 2 cores."""
    captions: bool = True
    """Whether its encoder carries closed captions over."""


CODECS = {
    "h264": VideoCodec(CPU_ENCODER, ("h264_nvenc",), crf=22, most_crf=51, cost=1),
    "hevc": VideoCodec("libx265", (), crf=22, most_crf=51, cost=2.5),
    "av1": VideoCodec("libsvtav1", (), crf=28, most_crf=63, cost=1.5, captions=False),
}
GPU_ENCODERS = tuple(encoder for codec in CODECS.values() for encoder in codec.gpu_encoders)
"""Supported GPU encoders, as ffmpeg names them."""
DEFAULT_PRESET = "medium"
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
"""Names of x264 and x265, fastest first; other encoders use their nearest equivalents."""


def encoder_for(codec: str, worker: str) -> str:
    """The encoder of a codec on a worker: its GPU encoder if that makes this codec, else the CPU's.

    Args:
        worker: the encoder that the worker reports, such as `h264_nvenc`.
    """
    found = CODECS[codec]
    return worker if worker in found.gpu_encoders else found.encoder


def on_cpu(gpu_encoder: str) -> str:
    """The CPU encoder of the same codec."""
    return next(codec.encoder for codec in CODECS.values() if gpu_encoder in codec.gpu_encoders)
