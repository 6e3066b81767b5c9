"""GPUs are found by encoding with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg import hardware
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate


def wrapper(path: Path, ffmpeg: FFmpeg, on_nvenc: str) -> FFmpeg:
    """An ffmpeg that does `on_nvenc` with an argument `h264_nvenc`."""
    path.write_text(
        f"""#!/bin/sh
for word in "$@"; do
  shift
  if [ "$word" = h264_nvenc ]; then {on_nvenc}; fi
  set -- "$@" "$word"
done
exec "{ffmpeg.path}" "$@"
"""
    )
    path.chmod(0o755)
    return locate(str(path))


def test_a_gpu_that_encodes_is_found(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    if "h264_nvenc" not in hardware.compiled_encoders(ffmpeg):
        pytest.skip("this ffmpeg has no NVENC compiled in")
    answering = wrapper(tmp_path / "ffmpeg", ffmpeg, "word=libx264")
    (device,) = hardware.discover(answering, dev=tmp_path)
    assert (device.name, device.encoder, device.index) == ("gpu-0", "h264_nvenc", "0")


def test_every_visible_device_is_asked(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    if "h264_nvenc" not in hardware.compiled_encoders(ffmpeg):
        pytest.skip("this ffmpeg has no NVENC compiled in")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    answering = wrapper(tmp_path / "ffmpeg", ffmpeg, "word=libx264")
    devices = hardware.discover(answering, dev=tmp_path)
    assert [(device.name, device.index) for device in devices] == [("gpu-0", "0"), ("gpu-1", "1")]


@pytest.mark.parametrize("failing", ["exit 1", "exit 0"], ids=["fails", "does nothing"])
def test_a_gpu_that_does_not_encode_is_none(ffmpeg: FFmpeg, tmp_path: Path, failing: str) -> None:
    assert hardware.discover(wrapper(tmp_path / "ffmpeg", ffmpeg, failing), dev=tmp_path) == []


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
