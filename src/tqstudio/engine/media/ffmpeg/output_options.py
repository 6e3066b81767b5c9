"""Options of the encoders, of their GPUs, of Vulkan and of the HLS muxer."""

from __future__ import annotations

from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.video_codecs import GPU_ENCODERS, PRESETS
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import VideoTrack

# NVENC's legacy preset names, which are names of x264 presets too.
_NVENC_PRESETS = {
    "ultrafast": "fast",
    "superfast": "fast",
    "veryfast": "fast",
    "slow": "slow",
    "slower": "slow",
    "veryslow": "slow",
}
_QSV_PRESETS = {"ultrafast": "veryfast", "superfast": "veryfast"}
# Peak ÷ average bit rate, where an encoder has to be given an average.
_VBR_PEAK = 1.5
# Apple's players accept HEVC under this name only.
_HEVC_TAG = "hvc1"
# SVT-AV1 numbers its presets; `medium` is its own default for films.
_SVT_PRESETS = dict(zip(PRESETS, (12, 11, 10, 9, 8, 6, 5, 4, 3), strict=True))
# Reference frames of x264's presets, and what H.264 level 5.2 keeps of pictures: Apple's rule 1.3b.
_X264_REFERENCES = {"slow": 5, "slower": 8, "veryslow": 16}
_LEVEL_52_MACROBLOCKS = 184_320

# ffmpeg's name of a GPU that commands open themselves.
_GPU = "gpu"


def encoder_options(
    profile: Profile, rung: Rung, gop: int, encoder: str, device: str | None
) -> dict[str, Any]:
    """The options of a video encoder for one rung.

    Key frames are at the first frame of each GOP only, and every GOP is closed.

    Args:
        gop: frames.
        device: of a GPU encoder, see `hardware.Device`.

    Raises:
        ValueError: the encoder is not supported.
    """
    common = {
        "c:v": encoder,
        "maxrate": f"{rung.maxrate_kbps}k",
        "bufsize": f"{round(rung.maxrate_kbps * profile.bufsize_factor)}k",
        "g": gop,
        "flags": "+cgop",
    }
    if encoder == "libx264":
        return common | {
            "profile:v": profile.video_profile,
            "preset": rung.preset,
            "crf": rung.crf,
            "keyint_min": gop,
            "sc_threshold": 0,
            **_fewer_references(rung),
        }
    if encoder == "libx265":
        return common | {
            "preset": rung.preset,
            "crf": rung.crf,
            # `info` would name the processors in init.mp4, so that no machine could continue for another.
            "x265-params": f"keyint={gop}:min-keyint={gop}:scenecut=0:open-gop=0:info=0:log-level=warning",
            # Closed captions; x264 carries them by default.
            "a53cc": 1,
            "tag:v": _HEVC_TAG,
        }
    if encoder == "libsvtav1":
        return common | {
            "preset": _SVT_PRESETS[rung.preset],
            "crf": rung.crf,
            "svtav1-params": "scd=0:mbr-overshoot-pct=0",
        }
    codec, _, api = encoder.partition("_")
    if codec == "h264":
        common["profile:v"] = profile.video_profile
    elif codec == "hevc":
        common["tag:v"] = _HEVC_TAG
    if api == "nvenc":
        return common | {
            "preset": _NVENC_PRESETS.get(rung.preset, "medium"),
            "rc": "vbr",
            "cq": rung.crf,
            "b:v": 0,
            "forced-idr": 1,
            "no-scenecut": 1,
            "strict_gop": 1,
            **({"gpu": device} if device is not None else {}),
        }
    # The quality modes of other drivers ignore `maxrate`, or are missing.
    common |= {"b:v": f"{round(rung.maxrate_kbps / _VBR_PEAK)}k"}
    if api == "qsv":
        return common | {
            "preset": _QSV_PRESETS.get(rung.preset, rung.preset),
            "forced_idr": 1,
            "adaptive_i": 0,
        }
    if api == "vaapi":
        return common | {"rc_mode": "VBR"}
    raise ValueError(f"unsupported encoder {encoder!r}")


def open_gpu(encoder: str, device: str | None) -> list[str]:
    """The global options with which a command opens the GPU of an encoder; none for the CPU and NVENC."""
    if encoder.endswith("_vaapi"):
        return ["-init_hw_device", f"vaapi={_GPU}:{device or ''}", "-filter_hw_device", _GPU]
    if encoder.endswith("_qsv"):
        return ["-init_hw_device", f"qsv={_GPU}:hw_any" + (f",child_device={device}" if device else "")]
    return []


def open_vulkan(video: VideoTrack) -> list[str]:
    """The global options with which a command opens Vulkan, on the CPU too, for a source that needs it."""
    return ["-init_hw_device", "vulkan"] if colour.needs_vulkan(video) else []


def input_filters(encoder: str, pixel_format: str) -> list[tuple[str, ...]]:
    """The filters that convert pictures to what an encoder accepts: name and arguments of each."""
    if encoder not in GPU_ENCODERS:
        return [("format", pixel_format)]
    format_ = ("format", "nv12" if pixel_format == "yuv420p" else "p010le")
    return [format_, ("hwupload",)] if encoder.endswith("_vaapi") else [format_]


def hls_options(directory: str, pattern: str, hls_time: str, offset: Fraction, start: int) -> dict[str, Any]:
    """The options of the HLS muxer for one output.

    Args:
        directory: relative path of the output directory.
        pattern: of segment names, such as `seg_%05d.m4s`.
        hls_time: target duration of a segment in seconds.
        offset: added to all timestamps, in seconds.
        start: number of the first segment.
    """
    return {
        "f": "hls",
        "output_ts_offset": f"{float(offset):.6f}",
        "hls_time": hls_time,
        # ffmpeg's own playlist is not used, and it is rewritten for every fragment: keep it short.
        "hls_list_size": 2,
        "hls_segment_type": "fmp4",
        # Makes decode times absolute; without it they start at zero in each run.
        "hls_segment_options": "movflags=+frag_discont",
        # Segments get their final name only when they are complete.
        "hls_flags": "temp_file+independent_segments",
        "hls_fmp4_init_filename": INIT_NAME,
        "hls_segment_filename": str(PurePosixPath(directory, pattern)),
        "start_number": start,
        # Do not publish metadata of the source.
        "map_metadata": -1,
        "map_chapters": -1,
    }


def _fewer_references(rung: Rung) -> dict[str, int]:
    """Reference frames of x264, where its preset has more than H.264 level 5.2 allows at this size."""
    macroblocks = -(-rung.width // 16) * -(-rung.height // 16)
    most = _LEVEL_52_MACROBLOCKS // macroblocks
    return {"refs": most} if most < _X264_REFERENCES.get(rung.preset, 0) else {}
