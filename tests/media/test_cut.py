"""Sources that were cut off: it is known, and what is there can be published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.warnings import of_damage
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeEncode, run_ffmpeg, run_to_end
from .corpus import CORPUS, Corpus, pictures
from .test_resume import RUNGS, streams

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
        pytest.param("clip.flv", ("libx264", "aac"), marks=pytest.mark.slow),
        pytest.param("clip.mxf", ("mpeg2video", "pcm_s16le"), marks=pytest.mark.slow),
    ],
)
def test_half_a_file_that_declares_its_length_lacks_the_rest(
    ffmpeg: FFmpeg, tmp_path: Path, name: str, codecs: tuple[str, str]
) -> None:
    whole, half = whole_and_half(ffmpeg, tmp_path, name, codecs)
    assert probe(whole).damage == ()
    [cut] = [each for each in probe(half).damage if each.kind == "cut"]
    assert cut.at_s < 0.7 * LENGTH_S
    # ffmpeg estimates the length of half an AVI by its bit rate.
    assert cut.length_s > 0.5 if name.endswith("avi") else abs(cut.at_s + cut.length_s - LENGTH_S) < 0.2


@pytest.mark.parametrize("name", ["open-gop.mkv", "edit-list.mp4"])
def test_every_picture_that_is_there_is_published(
    ffmpeg: FFmpeg, encode: MakeEncode, tmp_path: Path, name: str
) -> None:
    """A file of which a third was not copied, its index in front."""
    whole = Corpus(ffmpeg, tmp_path).source(next(one for one in CORPUS if one.name == name))
    cut = tmp_path / f"cut-{name}"
    run_ffmpeg(ffmpeg, "-i", str(whole), "-c", "copy", "-movflags", "+faststart", str(cut))
    expected = [number for _, number in pictures(cut.read_bytes())]
    os.truncate(cut, cut.stat().st_size * 2 // 3)
    made = encode(cut, rungs=RUNGS, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    published = [number for _, number in pictures(streams(made)["90p"])]
    # Of the last ones some may be held for others that the decoder lost with the end.
    assert published[:-12] == expected[: len(published) - 12]
    assert set(published) <= set(expected)
    assert len(expected) // 2 < len(published) < len(expected)
