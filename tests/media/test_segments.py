"""Whole and torn segments, distinguished by their boxes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments.boxes import Init, Segment
from tqstudio.engine.media.segments.inspect import (
    Prefix,
    Torn,
    inspect_init,
    inspect_segment,
    outline_segment,
    verified_prefix,
)

from .conftest import run_ffmpeg

# 25 fps, one second a segment, 2.4 s of source that starts at zero.
GRID = Grid(Fraction(25), 25, 25, 0, 60, Fraction(0))


@pytest.fixture(scope="module")
def stream(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """init.mp4 and three segments of 25, 25 and 10 frames."""
    directory = tmp_path_factory.mktemp("stream")
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "testsrc2=s=64x64:r=25:d=2.4", "-c:v", "libx264", "-g", "25"),
        *("-pix_fmt", "yuv420p", "-sc_threshold", "0", "-flags", "+cgop", "-output_ts_offset", "10"),
        *("-f", "hls", "-hls_time", GRID.hls_time, "-hls_segment_type", "fmp4"),
        *("-hls_segment_options", "movflags=+frag_discont", "-hls_playlist_type", "event"),
        *("-hls_segment_filename", str(directory / "seg_%05d.m4s"), str(directory / "index.m3u8")),
    )
    return directory


@pytest.fixture
def copy(stream: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stream, tmp_path / "copy"))


def test_a_whole_stream(stream: Path) -> None:
    init = inspect_init(stream / "init.mp4")
    assert isinstance(init, Init)
    assert (init.width, init.height) == (64, 64)
    assert init.codec.startswith("avc1.64")
    found = [inspect_segment(stream / f"seg_0000{k}.m4s") for k in range(3)]
    assert all(isinstance(segment, Segment) for segment in found)
    segments = [segment for segment in found if isinstance(segment, Segment)]
    assert [segment.frames for segment in segments] == [25, 25, 10]
    assert all(segment.keyframe for segment in segments)
    assert [segment.tfdt for segment in segments] == [GRID.tfdt(25 * k, init.timescale) for k in range(3)]
    assert segments[0].tfdt + segments[0].duration == segments[1].tfdt
    assert segments[1].follows(segments[0])
    assert segments[2].follows(segments[1])
    assert not segments[2].follows(segments[0])
    assert segments[0].size == (stream / "seg_00000.m4s").stat().st_size
    for k, segment in enumerate(segments):
        assert outline_segment(stream / f"seg_0000{k}.m4s") == (segment.tfdt,)


def test_the_outline_names_the_begin_of_each_fragment(stream: Path, tmp_path: Path) -> None:
    paths = [stream / f"seg_0000{k}.m4s" for k in range(3)]
    joined = tmp_path / "joined.m4s"
    joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    found = outline_segment(joined)
    assert not isinstance(found, Torn)
    whole = inspect_segment(joined)
    assert isinstance(whole, Segment)
    assert whole.size == joined.stat().st_size
    assert (len(found), found[0]) == (3, whole.tfdt)
    assert list(found) == sorted(set(found))


def test_audio_is_read_too(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", "sine=d=1", "-c:a", "aac", "-f", "hls", "-hls_segment_type", "fmp4"),
        *("-hls_segment_filename", str(tmp_path / "seg_%05d.m4s"), str(tmp_path / "index.m3u8")),
    )
    init = inspect_init(tmp_path / "init.mp4")
    assert isinstance(init, Init)
    assert (init.timescale, init.codec, init.width) == (44100, "mp4a.40.2", 0)
    segment = inspect_segment(tmp_path / "seg_00000.m4s")
    assert isinstance(segment, Segment)
    assert segment.duration == pytest.approx(44100, abs=2048)


@pytest.mark.fault(
    "A stored segment was cut short", "It is detected by its boxes and encoded again", area="resume"
)
def test_a_segment_cut_anywhere_is_torn(stream: Path, tmp_path: Path) -> None:
    content = (stream / "seg_00001.m4s").read_bytes()
    path = tmp_path / "seg.m4s"
    for length in {0, 1, 7, 8, 30, 100, 500, len(content) // 2, len(content) - 1}:
        path.write_bytes(content[:length])
        assert isinstance(inspect_segment(path), Torn), length
        assert isinstance(outline_segment(path), Torn), length


@pytest.mark.fault(
    "A disk that lies about its syncs damaged stored segments",
    "Detected by boxes and length; encoded again",
    area="power cuts",
)
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content + b"x",
        lambda content: content + content,
        lambda content: content.replace(b"moof", b"foom"),
        lambda content: content.replace(b"trun", b"nurt"),
        lambda content: content.replace(b"tfdt", b"tdft"),
        lambda content: bytes(len(content)),
        lambda content: b"\xff" * len(content),
    ],
)
def test_damage_is_torn(stream: Path, tmp_path: Path, damage: object) -> None:
    path = tmp_path / "seg.m4s"
    path.write_bytes(damage((stream / "seg_00001.m4s").read_bytes()))  # type: ignore[operator]
    assert isinstance(inspect_segment(path), Torn)
    assert isinstance(inspect_init(path), Torn)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content + b"x",
        lambda content: content.replace(b"moof", b"foom"),
        lambda content: content.replace(b"tfdt", b"tdft"),
        lambda content: bytes(len(content)),
        lambda content: bytes(4096) + content[4096:],
        lambda content: b"\xff" * len(content),
    ],
)
def test_damaged_heads_have_no_outline(stream: Path, tmp_path: Path, damage: object) -> None:
    path = tmp_path / "seg.m4s"
    path.write_bytes(damage((stream / "seg_00001.m4s").read_bytes()))  # type: ignore[operator]
    assert isinstance(outline_segment(path), Torn)


def test_the_prefix_counts_full_segments(copy: Path) -> None:
    # The short one at its end is stored only after ffmpeg ended with 0.
    assert verified_prefix(copy, GRID) == Prefix(2, 2, ended=True)
    (copy / "seg_00002.m4s").unlink()
    assert verified_prefix(copy, GRID) == Prefix(2, 2)


def test_the_prefix_ends_at_the_first_that_is_wrong(copy: Path) -> None:
    last = (copy / "seg_00001.m4s").read_bytes()
    (copy / "seg_00001.m4s").write_bytes(last[:-1])
    assert verified_prefix(copy, GRID) == Prefix(1, 1)
    # Whole and full, but of another place.
    (copy / "seg_00001.m4s").write_bytes((copy / "seg_00000.m4s").read_bytes())
    assert verified_prefix(copy, GRID) == Prefix(1, 1)
    # Whole and short, as SIGTERM leaves one; more behind it shows that it is no end.
    (copy / "seg_00001.m4s").write_bytes((copy / "seg_00002.m4s").read_bytes())
    assert verified_prefix(copy, GRID) == Prefix(1, 1)
    (copy / "seg_00000.m4s").unlink()
    assert verified_prefix(copy, GRID) == Prefix()


def test_segments_of_another_grid_are_no_prefix(copy: Path) -> None:
    assert verified_prefix(copy, replace(GRID, g0=1)) == Prefix()
    assert verified_prefix(copy, replace(GRID, gop=50, seg_frames=50)) == Prefix()
    assert verified_prefix(copy, replace(GRID, gop=20, seg_frames=20)) == Prefix()


def test_without_its_init_nothing_counts(copy: Path) -> None:
    (copy / "init.mp4").write_bytes((copy / "init.mp4").read_bytes()[:-20])
    assert verified_prefix(copy, GRID) == Prefix()
    (copy / "init.mp4").unlink()
    assert verified_prefix(copy, GRID) == Prefix()
    assert verified_prefix(copy / "missing", GRID) == Prefix()
