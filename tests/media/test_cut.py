"""Sources that were cut off: those that declare their length are refused, of the others it is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.warnings import of_damage
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError, WarningCode

from .conftest import run_ffmpeg

LENGTH_S = 8


def whole_and_half(ffmpeg: FFmpeg, folder: Path, name: str, codecs: tuple[str, str]) -> tuple[bytes, bytes]:
    whole, half = folder / name, folder / f"half-{name}"
    inputs = [f"testsrc2=s=352x288:r=25:d={LENGTH_S}", f"sine=r=48000:d={LENGTH_S}"]
    arguments = [word for each in inputs for word in ("-f", "lavfi", "-i", each)]
    run_ffmpeg(ffmpeg, *arguments, "-c:v", codecs[0], "-c:a", codecs[1], str(whole))
    # Not where a packet of a transport stream ends.
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 188 // 2 * 188 + 100])
    return os.fsencode(whole), os.fsencode(half)


@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("clip.avi", ("mjpeg", "pcm_s16le")),
        ("clip.wmv", ("wmv2", "wmav2")),
        ("clip.ts", ("libx264", "aac")),
    ],
)
def test_half_a_file_without_a_length_of_its_own_is_known(
    ffmpeg: FFmpeg, tmp_path: Path, name: str, codecs: tuple[str, str]
) -> None:
    whole, half = whole_and_half(ffmpeg, tmp_path, name, codecs)
    assert probe(whole).damage == ()
    found = probe(half)
    assert found.duration_s < 0.8 * LENGTH_S
    [cut] = [each for each in found.damage if each.kind == "cut"]
    assert abs(cut.at_s - found.duration_s) < 0.5
    assert of_damage(cut).code is WarningCode.SOURCE_INCOMPLETE


@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("clip.avi", ("mpeg4", "mp3")),
        ("clip.mkv", ("libx264", "aac")),
        ("clip.flv", ("libx264", "aac")),
        ("clip.mxf", ("mpeg2video", "pcm_s16le")),
    ],
)
def test_half_a_file_that_declares_its_length_is_refused(
    ffmpeg: FFmpeg, tmp_path: Path, name: str, codecs: tuple[str, str]
) -> None:
    whole, half = whole_and_half(ffmpeg, tmp_path, name, codecs)
    assert probe(whole).damage == ()
    with pytest.raises(TqError) as caught:
        probe(half)
    assert caught.value.code is ErrorCode.SOURCE_TRUNCATED
