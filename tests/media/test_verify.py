"""What is published is what was planned; everything else is named."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.media.check.rendition import check_end, verify_rendition, verify_same_length
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.grid import Grid, make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.segments.join import join
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import ErrorCode, TqError

from .conftest import MakeClip, run_ffmpeg

GRID = Grid(Fraction(25), 25, 25, 0, 60, Fraction(0))


def make_stream(ffmpeg: FFmpeg, directory: Path, *options: str, seconds: float = 2.4) -> Path:
    directory.mkdir(parents=True)
    run_ffmpeg(
        ffmpeg,
        *("-f", "lavfi", "-i", f"testsrc2=s=64x64:r=25:d={seconds}", "-c:v", "libx264", "-g", "25"),
        *(
            "-pix_fmt",
            "yuv420p",
            "-sc_threshold",
            "0",
            "-flags",
            "+cgop",
            "-output_ts_offset",
            "10",
            *options,
        ),
        *("-f", "hls", "-hls_time", GRID.hls_time, "-hls_segment_type", "fmp4"),
        *("-hls_segment_options", "movflags=+frag_discont", "-hls_playlist_type", "event"),
        *("-hls_segment_filename", str(directory / "seg_%05d.m4s"), str(directory / "index.m3u8")),
    )
    return directory


@pytest.fixture(scope="module")
def stream(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stream(ffmpeg, tmp_path_factory.mktemp("stream") / "144p")


@pytest.fixture
def copy(stream: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stream, tmp_path / "144p"))


def refused(directory: Path, grid: Grid | None = GRID) -> TqError:
    with pytest.raises(TqError) as caught:
        verify_rendition(directory, grid)
    return caught.value


def test_a_whole_rendition(stream: Path) -> None:
    check = verify_rendition(stream, GRID)
    assert (check.frames, check.duration_s, check.width, check.height) == (60, 2.4, 64, 64)
    assert [(segment.frames, segment.duration_s) for segment in check.segments] == [
        (25, 1.0),
        (25, 1.0),
        (10, 0.4),
    ]
    assert check.peak_bps >= check.avg_bps > 0
    assert verify_rendition(stream, video=True) == check, "its grid need not be known"


def test_the_key_frame_of_every_fragment_is_found(stream: Path) -> None:
    for segment, frames in zip(verify_rendition(stream, GRID).segments, (25, 25, 10), strict=True):
        [iframe] = segment.iframes
        content = (stream / segment.name).read_bytes()
        assert content[iframe.offset + 4 : iframe.offset + 8] == b"moof"
        assert iframe.offset + iframe.size < segment.size == len(content)
        assert iframe.duration_s == frames / 25


def test_a_fragment_without_a_key_frame(copy: Path) -> None:
    joined = copy / "joined"
    join([copy / "seg_00000.m4s", copy / "seg_00001.m4s"], joined)
    content = bytearray(joined.read_bytes())
    # The flags of the first sample of the second fragment, behind flags, count and data offset.
    flags = content.rindex(b"trun") + 16
    assert content[flags : flags + 4] == b"\x02\0\0\0"
    content[flags : flags + 4] = b"\x01\x01\0\0"
    joined.rename(copy / "seg_00000.m4s").write_bytes(content)
    for name in ("seg_00001.m4s", "seg_00002.m4s"):
        (copy / name).unlink()
    error = refused(copy, replace(GRID, seg_frames=50))
    assert "a fragment of segment 0 does not begin with a key frame" in error.message


def test_nothing_is_empty(tmp_path: Path) -> None:
    assert refused(tmp_path).code == ErrorCode.OUTPUT_EMPTY


@pytest.mark.parametrize("k", [0, 1])
def test_a_missing_segment(copy: Path, k: int) -> None:
    (copy / f"seg_0000{k}.m4s").unlink()
    assert refused(copy).code == ErrorCode.OUTPUT_INVALID


def test_a_torn_segment_is_named(copy: Path) -> None:
    os.truncate(copy / "seg_00001.m4s", 1000)
    assert "144p seg_00001.m4s is damaged" in refused(copy).message


def test_a_short_segment_in_the_middle(copy: Path) -> None:
    # What SIGTERM leaves behind: whole boxes, the right place, too few frames.
    shutil.copy(copy / "seg_00002.m4s", copy / "seg_00003.m4s")
    assert "segment 2 has 10 frames instead of 25" in refused(copy).message


def test_segments_of_another_grid(stream: Path) -> None:
    assert "at its time on the grid" in refused(stream, replace(GRID, g0=1)).message
    longer = refused(stream, replace(GRID, gop=24, seg_frames=24))
    assert "at its time on the grid" in longer.message or "frames instead of 24" in longer.message


def test_a_damaged_init(copy: Path) -> None:
    (copy / "init.mp4").write_bytes(b"x" * 100)
    assert "init.mp4" in refused(copy).message
    (copy / "init.mp4").unlink()
    assert "init.mp4" in refused(copy).message


def test_renditions_of_one_ladder_are_equally_long(stream: Path, ffmpeg: FFmpeg, tmp_path: Path) -> None:
    long = verify_rendition(stream, GRID)
    short = verify_rendition(make_stream(ffmpeg, tmp_path / "90p", seconds=2.2), GRID)
    verify_same_length({"144p": long, "90p": long})
    with pytest.raises(TqError, match="90p 55"):
        verify_same_length({"144p": long, "90p": short})


def test_the_end_is_where_the_source_declares_it(clip: MakeClip, small: Profile) -> None:
    source = os.fsencode(clip("plain25.mp4"))
    facts = probe(source)
    grid = make_grid(facts, small)
    check_end(source, facts, grid, 100)
    for frames in (50, 99, 101, 150):
        with pytest.raises(TqError) as caught:
            check_end(source, facts, grid, frames)
        assert caught.value.code == ErrorCode.OUTPUT_INVALID


def test_sound_may_be_longer_than_the_picture(
    clip: MakeClip, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    # Matroska declares one length for all: that of the sound, 8 s.
    path = tmp_path / "long-sound.mkv"
    run_ffmpeg(
        ffmpeg,
        *("-i", str(clip("plain25.mp4")), "-f", "lavfi", "-i", "sine=d=8"),
        *("-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac", str(path)),
    )
    facts = probe(os.fsencode(path))
    assert facts.video.duration_s == pytest.approx(4, abs=0.01)
    # The last picture is held until the sound ends.
    check_end(os.fsencode(path), facts, make_grid(facts, small), 200)
