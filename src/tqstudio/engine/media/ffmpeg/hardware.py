"""Detects usable GPU encoders with a test encode, because a compiled-in encoder may have no device."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media.ffmpeg.binary import FFmpeg, environment
from tqstudio.engine.media.ffmpeg.errors import classify_exit
from tqstudio.engine.media.ffmpeg.process import start
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER, GPU_ENCODERS

PROBE_TIMEOUT_S = 10.0
_NVIDIA_DEVICE = re.compile(r"nvidia\d+")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that passed the test encode."""

    name: str
    """Name of the worker that uses it: `gpu-0` …."""
    encoder: str
    """As ffmpeg names it, such as `h264_nvenc`."""
    index: str
    """Value of the encoder's `-gpu` option."""
    label: str
    """Product name, such as `NVIDIA H200`."""


def discover(ffmpeg: FFmpeg, dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> list[Device]:
    """Find the GPUs that encode 0.1 s of 256×256 pixels within 10 s.

    NVENC refuses much smaller frames. Encoders that are not compiled in are skipped.

    Args:
        dev: the folder of device nodes.
        proc: the proc file system, in which the driver describes the devices.
    """
    found: list[Device] = []
    for encoder in sorted(compiled_encoders(ffmpeg) & set(GPU_ENCODERS)):
        for index in _nvidia_devices(dev):
            if encodes(ffmpeg, encoder, index):
                name = f"gpu-{len(found)}"
                found.append(Device(name, encoder, index, _label(proc, index)))
    return found


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


def encodes(ffmpeg: FFmpeg, encoder: str, index: str | None = None) -> bool:
    """Whether a test encode with this encoder succeeds."""
    return not encoding_problem(ffmpeg, encoder, index)


def encoding_problem(ffmpeg: FFmpeg, encoder: str, index: str | None = None) -> str:
    """Run a test encode of 0.1 s; returns the reason if it fails, else an empty string.

    Raises:
        TqError: ffmpeg could not be started.
    """
    device: Sequence[str] = () if index is None else ("-gpu", index)
    argv = [
        ffmpeg.path,
        *("-hide_banner", "-nostdin", "-nostats", "-progress", "pipe:1"),
        *("-f", "lavfi", "-i", "color=size=256x256:rate=30:duration=0.1"),
        *("-pix_fmt", "yuv420p", "-c:v", encoder, *device, "-f", "null", "-"),
    ]
    with tempfile.TemporaryDirectory(prefix="tqstudio-probe-") as scratch:
        run = start(argv, Path(scratch), Path(scratch, "log"), progress=True, nice=0)
        try:
            status = run.wait(PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"the test encode with {encoder} took longer than {PROBE_TIMEOUT_S:g} s"
        finally:
            run.kill()
        if status != 0:
            return classify_exit(status, run.log_tail()).message
        return "" if run.progress.frame else f"{encoder} encoded no frame"


def cpu_capabilities() -> dict[str, object]:
    """The capabilities that a CPU worker reports: encoder, usable cores, processor model if known."""
    return {"encoder": CPU_ENCODER, "cores": _usable_cores(), "model": _cpu_model()}


def _nvidia_devices(dev: Path) -> list[str]:
    """List the index of each GPU; without a visible device node (WSL, some containers) one to try."""
    nodes = sum(_NVIDIA_DEVICE.fullmatch(node.name) is not None for node in dev.glob("nvidia*"))
    # NVENC numbers the visible devices from 0, independent of the node names.
    return [str(position) for position in range(nodes or 1)]


def _label(proc: Path, index: str) -> str:
    descriptions = sorted(proc.glob("driver/nvidia/gpus/*/information"))
    if int(index) < len(descriptions):
        match = re.search(
            r"^Model:\s*(.+)$", descriptions[int(index)].read_text(errors="replace"), re.MULTILINE
        )
        if match:
            return match[1].strip()
    return "NVIDIA GPU"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else ""
