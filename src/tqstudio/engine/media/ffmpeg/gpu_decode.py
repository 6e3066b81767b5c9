"""Decodes and scales on a GPU, where nothing but the size changes.

The filters that place pictures on the grid (`fps`, `tpad`, `setpts`, `trim`) only count frames and pass those
in GPU memory on: each has the same place and time as with the CPU. Scaled pixels differ slightly, so that
`stream_key` includes the interface.
"""

from __future__ import annotations

from typing import Any

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.output_options import input_filters
from tqstudio.engine.media.plan.keys import conversion, pixel_format
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.source.colour import Filters
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

# Says in its log when it rebuilds the filters, which would lose their count of frames.
_OLDEST_FFMPEG = (8,)
# ffmpeg's name of the GPU that decodes.
_DECODER = "decoder"
# VAAPI decoders have a fixed number of frames; filters and encoder hold this many at most.
_FRAMES_HELD = 16
# A GPU's bilinear filter ignores pixels beyond this factor. In a simulation of 1080p to 180p, pictures halved
# first have 43 dB (PSNR) to those of the CPU; in one step 34 dB, as with scale_cuda's default, bicubic.
_MAX_SHRINKING = 2


def supported(ffmpeg: FFmpeg) -> bool:
    """Whether this ffmpeg reports what a run on a GPU has to notice."""
    return ffmpeg.is_at_least(*_OLDEST_FFMPEG)


def permits(codecs: str, facts: SourceFacts, profile: Profile, rung: Rung) -> bool:
    """Whether a rung may be made from a source on a GPU that decodes these codecs.

    Damaged sources, and those whose damage matters, are decoded by the CPU: a GPU does not report it. So are
    those that begin within the coded picture: in CUDA's frames it begins with what is cut off.
    """
    video = facts.video
    return (
        video.codec in codecs.split()
        and facts.measured
        and not (facts.unseekable or facts.damage or facts.captions or profile.on_damage == "refuse")
        and not (video.interlaced or video.rotation or video.varies or video.inset or video.still)
        and not (video.coded_width % 2 or video.coded_height % 2)
        and profile.fields != "film"
        and (video.pix_fmt, pixel_format(profile, rung)) == ("yuv420p", "yuv420p")
        and burnt_subtitles(facts, profile) is None
        and [name for name, _ in conversion(video, profile, rung)] == ["setparams"]
    )


def interface(device: str) -> str:
    """The interface to a GPU's decoder, as ffmpeg names it; for `device` see `hardware.Device`.

    An Intel GPU is used through VAAPI with QSV encoders too: QSV's decoders round times.
    """
    return "cuda" if device.isdigit() else "vaapi"


def feeds(encoder: str, device: str) -> bool:
    """Whether an encoder takes frames in the memory of this GPU."""
    return encoder.endswith("_nvenc" if interface(device) == "cuda" else "_vaapi")


def open_decoder(device: str) -> list[str]:
    """The global options that open the GPU."""
    return ["-init_hw_device", f"{interface(device)}={_DECODER}:{device}"]


def decoder_options(device: str) -> dict[str, Any]:
    """The options of the input."""
    api = interface(device)
    held = {"extra_hw_frames": _FRAMES_HELD} if api == "vaapi" else {}
    return {"hwaccel": api, "hwaccel_device": _DECODER, "hwaccel_output_format": api, **held}


def scaling(video: VideoTrack, rung: Rung, device: str) -> Filters:
    """The filters that scale to the size of a rung, in several steps if it is much smaller."""
    api = interface(device)
    kernel = {"interp_algo": "bilinear"} if api == "cuda" else {}
    sizes, size = [(rung.width, rung.height)], (video.coded_width, video.coded_height)
    while size[0] > _MAX_SHRINKING * rung.width or size[1] > _MAX_SHRINKING * rung.height:
        size = max(rung.width, size[0] // 4 * 2), max(rung.height, size[1] // 4 * 2)
        sizes.insert(-1, size)
    return tuple((f"scale_{api}", {"w": width, "h": height, **kernel}) for width, height in sizes)


def output_filters(encoder: str, pixel_format: str, device: str) -> list[tuple[str, ...]]:
    """The filters that bring scaled frames to an encoder: name and arguments of each."""
    if feeds(encoder, device):
        return []
    return list(dict.fromkeys((("hwdownload",), ("format", "nv12"), *input_filters(encoder, pixel_format))))
