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
    crf: int
    """Default constant quality. Those of different codecs look alike (`docs/profiles.md`)."""
    most_crf: int
    cost: float
    """Seconds to encode a pixel ÷ those of H.264, both with the preset `medium`; measured on 2 cores."""
    captions: bool = True
    """Whether its encoder carries closed captions over."""


CODECS = {
    "h264": VideoCodec(CPU_ENCODER, crf=22, most_crf=51, cost=1),
    "hevc": VideoCodec("libx265", crf=22, most_crf=51, cost=2.5),
    "av1": VideoCodec("libsvtav1", crf=28, most_crf=63, cost=1.5, captions=False),
}
PLAYERS = {"hevc": 0, "hvc1": 0, "av1": 1, "av01": 1, "h264": 2, "avc1": 2}
"""How many players know a codec, to choose one of several qualities of one size."""
GPU_APIS = ("nvenc", "qsv", "vaapi")
"""Interfaces to GPU encoders: of NVIDIA, of Intel, of Mesa and Intel. The first one that works is used."""
GPU_ENCODERS = tuple(f"{codec}_{api}" for api in GPU_APIS for codec in CODECS)
"""Supported GPU encoders, as ffmpeg names them."""
H264_LEVELS = {
    10: (1485, 99, 80),
    11: (3000, 396, 240),
    12: (6000, 396, 480),
    13: (11880, 396, 960),
    20: (11880, 396, 2500),
    21: (19800, 792, 5000),
    22: (20250, 1620, 5000),
    30: (40500, 1620, 12500),
    31: (108000, 3600, 17500),
    32: (216000, 5120, 25000),
    40: (245760, 8192, 25000),
    41: (245760, 8192, 62500),
    42: (522240, 8704, 62500),
    50: (589824, 22080, 168750),
    51: (983040, 36864, 300000),
    52: (2073600, 36864, 300000),
}
"""Level → macroblocks per second and per picture, kbit/s of High profile (ITU-T H.264, table A-1)."""
HEVC_MAX_LEVEL = 153
"""Thirty times the highest level of HEVC that players need to know: 5.1."""
MAX_BLOCKS, MAX_SIDE = 34_560, 8192
"""What level 5.2 of H.264 and 5.1 of HEVC and AV1 allow at 60 frames per second, in blocks of 16×16 pixels;
players need no higher one."""
DEFAULT_PRESET = "medium"
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
"""Names of x264 and x265, fastest first; other encoders use their nearest equivalents."""


def encoder_for(codec: str, worker: str, *, hdr: bool) -> str:
    """The encoder of a codec on a worker: the worker's GPU encoder of this codec, else the CPU's.

    Args:
        worker: the encoders that the worker reports, such as `h264_nvenc hevc_nvenc`.
        hdr: only CPU encoders write the metadata of HDR10 reliably.
    """
    on_gpu = (encoder for encoder in worker.split() if encoder.startswith(f"{codec}_") and not hdr)
    return next(on_gpu, CODECS[codec].encoder)


def uses_gpu(worker: str) -> bool:
    """Whether any of the encoders that a worker reports runs on a GPU."""
    return not set(GPU_ENCODERS).isdisjoint(worker.split())


def has_crf(encoder: str) -> bool:
    """Whether an encoder encodes with a CRF, or what NVENC calls so, instead of an average bit rate."""
    return encoder not in GPU_ENCODERS or encoder.endswith("_nvenc")


def on_cpu(gpu_encoder: str) -> str:
    """The CPU encoder of the same codec."""
    return CODECS[gpu_encoder.partition("_")[0]].encoder
