"""GPUs are found by encoding with them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import hardware
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.plan.profiles import Profile, RungSpec

from .conftest import MakeClip, MakeEncode, run_to_end


def in_place_of_gpus(path: Path, ffmpeg: FFmpeg, *encoders: str) -> FFmpeg:
    """An ffmpeg whose GPU encoders fail, but for these, in place of which the CPU encodes."""
    path.write_text(
        f"""#!{sys.executable}
import os, re, sys
words = sys.argv[1:]
cpu = {{"h264": "libx264", "hevc": "libx265", "av1": "libsvtav1"}}
for at, word in enumerate(words):
    if re.fullmatch("(h264|hevc|av1)_(nvenc|qsv|vaapi)", word):
        if word not in {encoders!r}:
            sys.exit("cannot load the driver")
        words[at] = cpu[word.partition("_")[0]]
of_gpus = "-gpu -rc -cq -b:v -forced-idr -no-scenecut -strict_gop -forced_idr -adaptive_i -rc_mode".split()
of_gpus += ["-init_hw_device", "-filter_hw_device"]
if words != sys.argv[1:]:
    words = [word.replace("hwupload", "null") for at, word in enumerate(words)
        if word not in of_gpus and (at == 0 or words[at - 1] not in of_gpus)]
    for at in reversed([at for at, word in enumerate(words) if word == "libx264"]):
        words[at + 1 : at + 1] = ["-sc_threshold", "0"]
os.execv({ffmpeg.path!r}, [{ffmpeg.path!r}, *words])
"""
    )
    path.chmod(0o755)
    return locate(str(path))


def require_compiled(ffmpeg: FFmpeg, *encoders: str) -> None:
    if not set(encoders) <= hardware.compiled_encoders(ffmpeg):
        pytest.skip(f"this ffmpeg was built without {' and '.join(encoders)}")


def test_every_nvidia_gpu_is_tried(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    require_compiled(ffmpeg, "h264_nvenc")
    answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, "h264_nvenc")
    # Containers may hide the device nodes.
    assert hardware.discover(answering, dev=tmp_path) == [
        hardware.Device("gpu-0", "h264_nvenc", "0", "NVIDIA GPU")
    ]
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    devices = hardware.discover(answering, dev=tmp_path)
    assert [(device.name, device.node) for device in devices] == [("gpu-0", "0"), ("gpu-1", "1")]


def test_render_nodes_are_tried_with_each_interface_and_codec(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    working = ("h264_qsv", "hevc_qsv", "h264_vaapi", "hevc_vaapi", "av1_vaapi")
    require_compiled(ffmpeg, *working)
    node = tmp_path / "dri/renderD128"
    node.parent.mkdir()
    node.touch()
    (tmp_path / "dri/card0").touch()
    vendor = tmp_path / "class/drm/renderD128/device/vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("0x8086\n")

    def found(*encoders: str) -> list[hardware.Device]:
        answering = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, *encoders)
        return hardware.discover(answering, dev=tmp_path, sys=tmp_path)

    [device] = found(*working)
    assert device == hardware.Device("gpu-0", "h264_qsv hevc_qsv", str(node), "Intel GPU")
    [device] = found(*working[2:])
    assert device.encoders == "h264_vaapi hevc_vaapi av1_vaapi"
    assert found("hevc_vaapi") == []


@pytest.mark.parametrize("status", [1, 0], ids=["fails", "does nothing"])
def test_a_gpu_that_does_not_encode_is_none(ffmpeg: FFmpeg, tmp_path: Path, status: int) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *_nvenc*) exit {status};; esac
exec "{ffmpeg.path}" "$@"
"""
    )
    path.chmod(0o755)
    assert hardware.discover(locate(str(path)), dev=tmp_path) == []


def test_encoders_that_are_not_compiled_in_are_not_tried(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in
  *-version*) exec "{ffmpeg.path}" -version;;
  *-encoders*) echo " V....D libx264   H.264";;
  *) touch "{tmp_path}/tried";;
esac
"""
    )
    path.chmod(0o755)
    assert hardware.discover(locate(str(path)), dev=tmp_path) == []
    assert not (tmp_path / "tried").exists()


def test_the_cpu_describes_itself() -> None:
    capabilities = hardware.cpu_capabilities()
    assert capabilities["encoder"] == "libx264"
    assert isinstance(capabilities["cores"], int)
    assert capabilities["cores"] >= 1


def test_a_ladder_of_two_codecs_on_one_gpu(
    clip: MakeClip, encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    rungs = (RungSpec(90, 500), RungSpec(54, 300, codec="hevc"), RungSpec(44, 200, codec="av1"))
    gpu = in_place_of_gpus(tmp_path / "ffmpeg", ffmpeg, "h264_vaapi", "hevc_vaapi")
    made = encode(
        clip("24.mp4", fps="24", seconds=5),
        replace(small, rungs=rungs),
        ffmpeg=gpu,
        encoder="h264_vaapi hevc_vaapi",
        device="/dev/dri/renderD128",
        poster=False,
    )
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    video = [state for state in made.renditions if state.kind == "video"]
    used = {state.name: (state.encoder, state.check.frames) for state in video if state.check}
    assert used == {
        "90p": ("h264_vaapi", 120),
        "54p-hevc": ("hevc_vaapi", 120),
        "44p-av1": ("libsvtav1", 120),
    }


def test_a_ladder_of_more_qualities_than_sessions(
    clip: MakeClip, encode: MakeEncode, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    gpu = in_place_of_gpus(tmp_path / "gpu-ffmpeg", ffmpeg, "h264_nvenc")
    path = tmp_path / "ffmpeg"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *h264_nvenc*h264_nvenc*)
  echo "[h264_nvenc @ 0x1] OpenEncodeSessionEx failed: out of memory (10)" >&2; exit 187;;
esac
exec "{gpu.path}" "$@"
"""
    )
    path.chmod(0o755)
    source = clip("24.mp4", fps="24", seconds=5)
    made = encode(source, ffmpeg=locate(str(path)), encoder="h264_nvenc", device="0", poster=False)
    run_to_end(made)
    assert (made.state, made.error, made.warnings) == ("done", None, [])
    assert {state.encoder for state in made.renditions if state.kind == "video"} == {"h264_nvenc"}
    assert [run.label for run in made.runs if run.label.startswith("video")] == [
        "video",
        "video-144p",
        "video-90p",
    ]
