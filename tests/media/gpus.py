"""A program in place of ffmpeg on a machine with a GPU."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import trial_runs
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets trial runs take their time while other tests use the processors."""
    monkeypatch.setattr(trial_runs, "TIMEOUT_S", 120.0)


@functools.cache
def has_device_frames(ffmpeg: FFmpeg) -> bool:
    """Whether frames can be held by a device: a real one, or Mesa's Vulkan on the CPU."""
    argv = [ffmpeg.path, "-v", "error", "-init_hw_device", "vulkan=test", "-filter_hw_device", "test"]
    argv += ["-f", "lavfi", "-i", "color=s=64x64:d=0.1", "-vf", "format=nv12,hwupload", "-f", "null", "-"]
    return not subprocess.call(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def in_place_of_gpus(path: Path, ffmpeg: FFmpeg, *encoders: str, decodes: tuple[str, ...] = ()) -> FFmpeg:
    """An ffmpeg whose GPU encoders and decoders fail, but for these, in place of which the CPU works.

    Where a device can hold frames, the filters before `split` get such ones.
    """
    path.write_text(
        f"""#!{sys.executable}
import os, re, sys
words = sys.argv[1:]
cpu = {{"h264": "libx264", "hevc": "libx265", "av1": "libsvtav1"}}
of_gpus = "-gpu -rc -cq -b:v -forced-idr -no-scenecut -strict_gop -forced_idr -adaptive_i -rc_mode".split()
of_gpus += ["-hwaccel", "-hwaccel_device", "-hwaccel_output_format", "-extra_hw_frames"]
of_gpus += ["-init_hw_device", "-filter_hw_device"]
new = list(words)
for at, word in enumerate(words):
    if re.fullmatch("(h264|hevc|av1)_(nvenc|qsv|vaapi)", word):
        if word not in {encoders!r}:
            sys.exit("cannot load the driver")
        new[at] = cpu[word.partition("_")[0]]
before = []
if "-hwaccel" in words:
    with open(words[words.index("-i") + 1].removeprefix("file:"), "rb") as source:
        content = source.read()
    names = {{b"avc1": "h264", b"hev1": "hevc", b"hvc1": "hevc", b"av01": "av1"}}
    found = [codec for kind, codec in names.items() if kind in content]
    if not {decodes!r} or found and found[0] not in {decodes!r}:
        sys.exit("cannot load the driver")
    at = words.index("-filter_complex") + 1
    graph = words[at].replace("hwdownload", "null")
    graph = re.sub(r"scale_\\w+=h=(\\d+)(?::interp_algo=\\w+)?:w=(\\d+)", r"scale=\\2:\\1", graph)
    if {has_device_frames(ffmpeg)!r}:
        before = ["-init_hw_device", "vulkan=test", "-filter_hw_device", "test"]
        graph = re.sub(r"^(\\[0:\\d+\\])", r"\\1format=nv12,hwupload,", graph)
        graph = graph.replace("split=", "hwdownload,format=nv12,split=", 1)
    new[at] = graph
elif new != words:
    new = [word.replace("hwupload", "null") for word in new]
if new != words:
    new = before + [word for at, word in enumerate(new)
        if word not in of_gpus and (at == 0 or new[at - 1] not in of_gpus)]
    if "libx264" not in words:
        for at in reversed([at for at, word in enumerate(new) if word == "libx264"]):
            new[at + 1 : at + 1] = ["-sc_threshold", "0"]
os.execv({ffmpeg.path!r}, [{ffmpeg.path!r}, *new])
"""
    )
    path.chmod(0o755)
    return locate(str(path))
