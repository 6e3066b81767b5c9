"""Detects usable GPU encoders and Vulkan with a test run, because what is compiled in may have no device."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, environment
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.ffmpeg.output_options import (
    encoder_options,
    input_filters,
    open_gpu,
    open_vulkan,
)
from tqstudio.engine.media.ffmpeg.process import can_be_confined, start
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER, GPU_ENCODERS
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import VideoTrack
from tqstudio.errors import ErrorCode, TqError

PROBE_TIMEOUT_S = 10.0
_NVIDIA_DEVICE = re.compile(r"nvidia\d+")
_WITHOUT_VULKAN = (ErrorCode.ENCODER_EXIT, ErrorCode.ENCODER_SIGNAL)
_VENDORS = {"0x8086": "Intel GPU", "0x1002": "AMD GPU"}


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that passed a test encode."""

    name: str
    """Name of the worker that uses it: `gpu-0` …."""
    encoders: str
    """Those that passed, as ffmpeg names them, separated by spaces: `h264_nvenc hevc_nvenc`."""
    node: str
    """What ffmpeg opens: the index of an NVIDIA GPU, or the path of a render node."""
    label: str
    """Product or vendor, such as `NVIDIA H200`."""


def discover(
    ffmpeg: FFmpeg, dev: Path = Path("/dev"), proc: Path = Path("/proc"), sys: Path = Path("/sys")
) -> list[Device]:
    """Find the GPUs that encode 0.1 s of 256×256 pixels within 10 s, and in which codecs.

    NVENC refuses much smaller frames. Encoders that are not compiled in are skipped. NVIDIA's driver
    describes its devices in `proc`, the vendors of others are in `sys`.
    """
    compiled = compiled_encoders(ffmpeg)
    candidates: list[tuple[tuple[str, ...], str, str]] = [
        *((("nvenc",), index, _nvidia_label(proc, index)) for index in _nvidia_devices(dev)),
        *(
            (("qsv", "vaapi"), str(node), _vendor(sys, node.name))
            for node in sorted(dev.glob("dri/renderD*"))
        ),
    ]
    found: list[Device] = []
    for apis, node, label in candidates:
        working = (_working(ffmpeg, compiled, api, node) for api in apis)
        if encoders := next(filter(None, working), []):
            found.append(Device(f"gpu-{len(found)}", " ".join(encoders), node, label))
    return found


def _working(ffmpeg: FFmpeg, compiled: Set[str], api: str, node: str) -> list[str]:
    """The encoders of an interface that work; a device without H.264 has none."""
    candidates = [name for name in GPU_ENCODERS if name.endswith(f"_{api}") and name in compiled]
    if not candidates or not encodes(ffmpeg, candidates[0], node):
        return []
    return candidates[:1] + [encoder for encoder in candidates[1:] if encodes(ffmpeg, encoder, node)]


def compiled_encoders(ffmpeg: FFmpeg) -> frozenset[str]:
    """Names of the video encoders that ffmpeg lists; empty if it fails."""
    try:
        output = subprocess.run(
            [ffmpeg.path, "-hide_banner", "-encoders"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=True,
            env=environment(),
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(re.findall(r"^ V\S+ (\S+)", output.decode(errors="replace"), re.MULTILINE))


def encodes(ffmpeg: FFmpeg, encoder: str, node: str | None = None) -> bool:
    """Whether a test encode with this encoder succeeds."""
    return not encoding_problem(ffmpeg, encoder, node)


def encoding_problem(ffmpeg: FFmpeg, encoder: str, node: str | None = None) -> str:
    """Run a test encode of 0.1 s with the options of jobs; return why it failed, else an empty string.

    Raises TqError if ffmpeg could not be started.
    """
    options = encoder_options(profiles.load("web"), Rung("test", 256, 256, 1000), 30, encoder, node)
    filters = ",".join("=".join(each) for each in input_filters(encoder, "yuv420p"))
    encoding = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    failed = _test(ffmpeg, open_gpu(encoder, node), filters, encoding, f"the test encode with {encoder}")
    return failed.message if failed is not None else ""


def require_vulkan(ffmpeg: FFmpeg, video: VideoTrack, name: str) -> None:
    """Refuse a source that needs Vulkan, as UNSUPPORTED, if a confined test run shows that it does not work.

    Raises TqError also if the test run lacked something else, such as memory or the filter.
    """
    if not colour.needs_vulkan(video):
        return
    filter_name, options = colour.RENDER
    filters = f"{filter_name}={':'.join(f'{key}={value}' for key, value in options.items())}"
    confined = can_be_confined(ffmpeg.path)
    failed = _test(ffmpeg, open_vulkan(video), filters, [], "a test of Vulkan", confined=confined)
    if failed is None:
        return
    if failed.code not in _WITHOUT_VULKAN:
        raise failed
    raise TqError(
        ErrorCode.UNSUPPORTED,
        f"{name} is Dolby Vision profile {video.dv_profile}: its colours need Vulkan, which fails here",
        "install a Vulkan driver for the CPU (Debian, Ubuntu: apt install mesa-vulkan-drivers), then retry;"
        " or add a copy with a base layer (profile 8)",
    )


def _test(
    ffmpeg: FFmpeg,
    before: Sequence[str],
    filters: str,
    output: Sequence[str],
    what: str,
    *,
    confined: bool = False,
) -> TqError | None:
    """Run 0.1 s of pictures through filters and encoder; return why it failed, None if it did not."""
    argv = [
        ffmpeg.path,
        *("-hide_banner", "-nostdin", "-nostats", "-progress", "pipe:1"),
        *before,
        *("-f", "lavfi", "-i", "color=size=256x256:rate=30:duration=0.1", "-vf", filters),
        *output,
        *("-f", "null", "-"),
    ]
    with tempfile.TemporaryDirectory(prefix="tqstudio-probe-") as scratch:
        run = start(argv, Path(scratch), Path(scratch, "log"), progress=True, nice=0, confined=confined)
        try:
            status = run.wait(PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return TqError(ErrorCode.STALLED, f"{what} took longer than {PROBE_TIMEOUT_S:g} s")
        finally:
            run.kill()
        if status != 0:
            return classify_exit(status, run.log_tail())
        return None if run.progress.frame else TqError(ErrorCode.ENCODER_EXIT, f"{what} gave no picture")


def cpu_capabilities() -> dict[str, object]:
    """The capabilities that a CPU worker reports: encoder, usable cores, processor model if known."""
    model = _value(Path("/proc/cpuinfo"), "model name")
    return {"encoder": CPU_ENCODER, "cores": _usable_cores(), "model": model}


def _nvidia_devices(dev: Path) -> list[str]:
    """List the index of each GPU; without a visible device node (WSL, some containers) one to try."""
    nodes = sum(_NVIDIA_DEVICE.fullmatch(node.name) is not None for node in dev.glob("nvidia*"))
    # NVENC numbers the visible devices from 0, independent of the node names.
    return [str(position) for position in range(nodes or 1)]


def _nvidia_label(proc: Path, index: str) -> str:
    descriptions = sorted(proc.glob("driver/nvidia/gpus/*/information"))
    model = _value(descriptions[int(index)], "Model") if int(index) < len(descriptions) else ""
    return model or "NVIDIA GPU"


def _value(path: Path, name: str) -> str:
    """What follows `name:` in a file of the proc file system; empty without."""
    try:
        found = re.search(rf"^{name}\s*:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _vendor(sys: Path, node: str) -> str:
    try:
        vendor = (sys / "class/drm" / node / "device/vendor").read_text().strip()
    except OSError:
        vendor = ""
    return _VENDORS.get(vendor, "GPU")


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
