"""Detects what GPUs can do by trial runs, because a compiled-in encoder may have no device."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import structlog

from tqstudio import __version__
from tqstudio.engine.files import durable
from tqstudio.engine.media.ffmpeg import gpu_decode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.trial_runs import compiled_encoders, decoding_error, encoding_error
from tqstudio.engine.media.plan.video_codecs import CODECS, CPU_ENCODER, GPU_ENCODERS
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of

_log = structlog.get_logger()
_NVIDIA_DEVICE = re.compile(r"nvidia\d+")
_VENDORS = {"0x8086": "Intel GPU", "0x1002": "AMD GPU"}
_VALID_S = {True: 7 * 86400, False: 600}
"""For how long a trial counts as passed, or as failed. Not every change of a driver is visible."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that passed a trial run."""

    name: str
    """Name of the worker that uses it: `gpu-0` …."""
    encoders: str
    """Those that passed, as ffmpeg names them, separated by spaces: `h264_nvenc hevc_nvenc`. Empty if it has
    none, as GPUs for computing: then it decodes for CPU workers."""
    node: str
    """What ffmpeg opens: the index of an NVIDIA GPU, or the path of a render node."""
    label: str
    """Product or vendor, such as `NVIDIA H200`."""
    decodes: str = ""
    """Codecs that it decodes and scales, separated by spaces."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A GPU to try."""

    apis: tuple[str, ...]
    node: str
    label: str
    driver: str
    """What is visible of its driver and of the GPUs that this serves."""
    visible: bool = True
    """Whether it has a device node."""


def discover(
    ffmpeg: FFmpeg,
    dev: Path = Path("/dev"),
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    *,
    decode: bool = True,
    known: TrialResults | None = None,
    stopped: Callable[[], bool] = lambda: False,
    on_failed: Callable[[str, TqError], object] = lambda _place, _error: None,
) -> list[Device]:
    """Find the GPUs that encode, or else decode and scale, and in which codecs.

    Encoders that are not compiled in are skipped. NVIDIA's driver describes its devices in `proc`, the others
    are in `sys`.

    Args:
        decode: try decoders too.
        known: results of earlier calls; a trial is repeated if driver, GPUs, ffmpeg or tqstudio changed.
        stopped: whether to skip the remaining trials.
        on_failed: called for each trial of a visible GPU that failed, with its label and node.
    """
    compiled = functools.cache(lambda: compiled_encoders(ffmpeg))
    found: list[Device] = []
    for candidate in (*_nvidia(dev, proc), *_render_nodes(dev, proc, sys)):
        trials = _Trials(ffmpeg, candidate, compiled, known, stopped, on_failed)
        encoders = next(filter(None, map(trials.encoders, candidate.apis)), [])
        decodes: list[str] = []
        if decode and gpu_decode.supported(ffmpeg) and (encoders or candidate.visible):
            decodes = trials.decodes((encoders or [CPU_ENCODER])[0])
        if encoders or decodes:
            words = " ".join(encoders), candidate.node, candidate.label, " ".join(decodes)
            found.append(Device(f"gpu-{len(found)}", *words))
    if known is not None:
        known.save()
    return found


@dataclass(frozen=True, slots=True)
class _Trials:
    """The trial runs of one GPU."""

    ffmpeg: FFmpeg
    gpu: _Candidate
    compiled: Callable[[], Set[str]]
    known: TrialResults | None
    stopped: Callable[[], bool]
    on_failed: Callable[[str, TqError], object]

    def encoders(self, api: str) -> list[str]:
        """The encoders of an interface that work; a device without H.264 has none."""
        names = [name for name in GPU_ENCODERS if name.endswith(f"_{api}")]
        if not self._encodes(names[0]):
            return []
        return names[:1] + [name for name in names[1:] if self._encodes(name)]

    def decodes(self, encoder: str) -> list[str]:
        """The codecs that it decodes and scales; a device without H.264 has none."""
        first, *others = CODECS
        if not self._decodes(first, encoder):
            return []
        return [first] + [codec for codec in others if self._decodes(codec, encoder)]

    def _encodes(self, encoder: str) -> bool:
        return self._passes(encoder, encoder, lambda: encoding_error(self.ffmpeg, encoder, self.gpu.node))

    def _decodes(self, codec: str, encoder: str) -> bool:
        return self._passes(
            f"{codec} to {encoder}",
            CODECS[codec].encoder,
            lambda: decoding_error(self.ffmpeg, codec, encoder, self.gpu.node),
        )

    def _passes(self, name: str, encoder: str, run: Callable[[], TqError | None]) -> bool:
        def compiled_run() -> TqError | None:
            if encoder in self.compiled():
                return run()
            if not self.compiled():
                return TqError(ErrorCode.STALLED, "ffmpeg did not list its encoders")
            return TqError(ErrorCode.FFMPEG_MISSING, f"this ffmpeg was built without the encoder {encoder}")

        def reported_run() -> TqError | None:
            error = compiled_run()
            if error is not None and self.gpu.visible:
                self.on_failed(f"{self.gpu.label} ({self.gpu.node})", error)
            return error

        def logged_run() -> TqError | None:
            if (error := reported_run()) is not None:
                _log.info("gpu trial failed", trial=name, code=error.code.value, error=error.message)
            return error

        if self.stopped():
            return False
        if self.known is None:
            return reported_run() is None
        made_by = f"ffmpeg {self.ffmpeg.path} {self.ffmpeg.build}, tqstudio {__version__}"
        key = f"{name}, device {self.gpu.node}, {self.gpu.driver}, {made_by}"
        return self.known.passed(key, logged_run)


def cpu_capabilities() -> dict[str, object]:
    """The capabilities that a CPU worker reports: encoder, usable cores, processor model if known."""
    model = _value(Path("/proc/cpuinfo"), "model name")
    return {"encoder": CPU_ENCODER, "cores": _usable_cores(), "model": model}


def _nvidia(dev: Path, proc: Path) -> Iterator[_Candidate]:
    """Each NVIDIA GPU; without a visible device node (WSL, some containers) one to try."""
    nodes = sum(_NVIDIA_DEVICE.fullmatch(node.name) is not None for node in dev.glob("nvidia*"))
    described = sorted(proc.glob("driver/nvidia/gpus/*/information"))
    models = [_value(path, "Model") for path in described]
    version = _line(proc / "driver/nvidia/version") or _line(proc / "sys/kernel/osrelease")
    buses = (path.parent.name for path in described)
    driver = ", ".join((version, *(f"{model} at {bus}" for model, bus in zip(models, buses, strict=True))))
    # NVENC numbers the visible devices from 0, independent of the node names.
    for index in range(nodes or 1):
        label = models[index] if index < len(models) else ""
        yield _Candidate(("nvenc",), str(index), label or "NVIDIA GPU", driver, bool(nodes))


def _render_nodes(dev: Path, proc: Path, sys: Path) -> Iterator[_Candidate]:
    for node in sorted(dev.glob("dri/renderD*")):
        folder = sys / "class/drm" / node.name / "device"
        vendor, product = _line(folder / "vendor"), _line(folder / "device")
        # What the libraries of Mesa and Intel are is not visible.
        kernel = _line(proc / "sys/kernel/osrelease")
        driver = f"{vendor} {product}, {(folder / 'driver').resolve().name} of Linux {kernel}"
        yield _Candidate(("qsv", "vaapi"), str(node), _VENDORS.get(vendor, "GPU"), driver)


def _line(path: Path) -> str:
    """The first line of a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _value(path: Path, name: str) -> str:
    """What follows `name:` in a file of the proc file system; empty without."""
    try:
        found = re.search(rf"^{name}\s*:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class TrialResults:
    """Results of trial runs in a file, for later starts, by the name of each trial with all it depends on."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            clock: seconds since 1970.
        """
        self._path, self._clock = path, clock
        self._known: dict[str, tuple[bool, float]] = {}
        self._used: dict[str, tuple[bool, float]] = {}
        # A missing or damaged file costs a trial run each.
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            stored = json.loads(durable.read(path))
            self._known = {key: (passed is True, float(at)) for key, (passed, at) in stored.items()}

    def passed(self, key: str, run: Callable[[], TqError | None]) -> bool:
        """Whether a trial passes: as it did before, else as `run` returns its error or None."""
        now = self._clock()
        if key in self._known:
            passed, at = self._known[key]
            if 0 <= now - at < _VALID_S[passed]:
                self._used[key] = passed, at
                return passed
        error = run()
        if error is None or not _is_passing(error):
            self._used[key] = error is None, now
        return error is None

    def save(self) -> None:
        """Write the results that were used or obtained; a failure to write costs trial runs later."""
        if self._used == self._known:
            return
        temporary = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            durable.write(temporary, json.dumps(self._used, indent=1).encode())
            temporary.replace(self._path)


def _is_passing(error: TqError) -> bool:
    """Whether an error may be about this moment: a timeout, or no free session, memory, process or space."""
    passing = (ErrorCode.STALLED, ErrorCode.OUT_OF_MEMORY)
    return class_of(error.code) is ErrorClass.RESOURCE or error.code in passing
