"""Storyboards: the pictures that players show while seeking are those of the source at that time."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import av
import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.segments import storyboard, webvtt
from tqstudio.engine.media.segments.checked import CheckedSegment, IFrame, RenditionCheck
from tqstudio.errors import WarningCode

from .conftest import MakeClip, MakeEncode, run_ffmpeg, run_to_end

BITS = 12
# Columns, each black or white: the bits of the frame number.
BARS = f"geq=lum='if(mod(floor(N/pow(2,floor(X*{BITS}/W))),2),235,16)':cb=128:cr=128"


def numbered(size: str) -> str:
    """Return filters that number the pictures of a clip, drawn as large as the bars need."""
    return f"scale={BITS}:2,{BARS},scale={size.replace('x', ':')}:flags=neighbor,setsar=1"


PLACE = re.compile(r"(.+)#xywh=(\d+),(\d+),(\d+),(\d+)")


class Shown(NamedTuple):
    """One picture of a storyboard."""

    begin_s: float
    end_s: float
    frame: int
    size: tuple[int, int]


def shown(folder: Path) -> list[Shown]:
    """The pictures that a player shows, with the frame numbers that are visible in them."""
    found = []
    for cue in webvtt.parse((folder / "storyboard.vtt").read_text()):
        place = PLACE.fullmatch(cue.text)
        assert place is not None
        with av.open(str(folder / place[1])) as sprite:
            [picture] = sprite.decode(video=0)
        x, y, width, height = map(int, place.groups()[1:])
        assert (x + width <= picture.width, y + height <= picture.height) == (True, True)
        luma = picture.planes[0]
        row = bytes(luma)[(y + height // 2) * luma.line_size :]
        bits = [row[x + int((bit + 0.5) * width / BITS)] > 128 for bit in range(BITS)]
        number = sum(1 << bit for bit, is_set in enumerate(bits) if is_set)
        found.append(Shown(cue.begin / 1000, cue.end / 1000, number, (width, height)))
    return found


def made_of(encode: LadderEncode) -> Path:
    run_to_end(encode)
    assert (encode.state, encode.error, encode.warnings) == ("done", None, [])
    assert encode.side.storyboard is not None
    return encode.side.storyboard.folder


def edges(pictures: list[Shown]) -> list[float]:
    """The times at which the picture changes, after checking that there is always one."""
    times = [0.0, *(picture.end_s for picture in pictures)]
    assert [picture.begin_s for picture in pictures] == times[:-1]
    return times


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ("320x180", (160, 90)),
        pytest.param("192x320", (90, 150), marks=pytest.mark.slow),
        pytest.param("100x100", (90, 90), marks=pytest.mark.slow),
    ],
)
def test_each_picture_is_that_of_the_source_at_its_time(
    clip: MakeClip, encode: MakeEncode, size: str, tile: tuple[int, int]
) -> None:
    source = clip(f"numbered-{size}.mp4", size=size, filters=numbered(size), seconds=4.48)
    found = shown(made_of(encode(source, storyboard=True)))
    # The key frame at 4 s would be shown too shortly.
    assert edges(found) == [0, 1, 2, 3, 4.48]
    assert [picture.frame for picture in found] == [0, 25, 50, 75]
    assert {picture.size for picture in found} == {tile}


def test_times_count_from_the_start_of_the_published_video(
    ffmpeg: FFmpeg, clip: MakeClip, encode: MakeEncode, tmp_path: Path
) -> None:
    first = str(clip("numbered-320x180.mp4", size="320x180", filters=numbered("320x180"), seconds=4.48))
    late = tmp_path / "late.mkv"
    # The sound begins two seconds earlier, with the first picture.
    run_ffmpeg(
        ffmpeg,
        *("-itsoffset", "2", "-i", first, "-f", "lavfi", "-i", "sine=d=6", "-map", "0:v", "-map", "1"),
        *("-output_ts_offset", "78", "-c:v", "copy", "-c:a", "aac", str(late)),
    )
    found = shown(made_of(encode(late, storyboard=True)))
    assert [picture.frame for picture in found] == [0, 0, 0, 25, 50, 75]
    assert edges(found)[-1] == pytest.approx(6.48, abs=0.001)


@pytest.mark.parametrize("codec", ["hevc", pytest.param("av1", marks=pytest.mark.more)])
def test_pictures_of_other_codecs(clip: MakeClip, encode: MakeEncode, small: Profile, codec: str) -> None:
    source = clip("numbered-320x180.mp4", size="320x180", filters=numbered("320x180"), seconds=4.48)
    ten_bits = replace(
        small, codec=codec, pixel_format="yuv420p10le", preset="ultrafast", rungs=(RungSpec(144, 300),)
    )
    found = shown(made_of(encode(source, ten_bits, storyboard=True)))
    assert [picture.frame for picture in found] == [0, 25, 50, 75]


@pytest.mark.parametrize(
    ("length_s", "gop_s", "pictures", "interval_s"),
    [
        (30, 2, 15, 2),
        (360, 2, 90, 4),
        (600, 2, 100, 6),
        (7200, 2, 720, 10),
        (86400, 2, 982, 88),
        (60, 30, 2, 30),
    ],
)
def test_the_number_of_pictures_follows_from_the_length(
    tmp_path: Path, length_s: int, gop_s: int, pictures: int, interval_s: int
) -> None:
    segments = tuple(
        CheckedSegment(f"{k}", 10, gop_s, 1, (IFrame(0, 5, gop_s),)) for k in range(length_s // gop_s)
    )
    board = storyboard.lay_out(
        tmp_path, RenditionCheck(1, 10.0, length_s, 640, 360, "avc1.64001e", segments, 1, 1), tmp_path
    )
    assert len(board.key_frames) == pictures
    assert {b.at_s - a.at_s for a, b in pairwise(board.key_frames)} == {interval_s}


@pytest.mark.parametrize(("count", "sprite_ms"), [(7, 14_000), (6, 12_040)])
def test_no_time_is_left_after_the_last_tile(tmp_path: Path, count: int, sprite_ms: int) -> None:
    """Players of DASH would ask for another sprite."""
    edges = [*range(0, 2000 * count, 2000), 12_040]
    cues = "".join(
        f"\n{webvtt.clock(at)} --> {webvtt.clock(end)}\nstoryboard-000.jpg#xywh={160 * number},0,160,90\n"
        for number, (at, end) in enumerate(pairwise(edges))
    )
    (tmp_path / "storyboard.vtt").write_text("WEBVTT\n" + cues)
    (tmp_path / "storyboard-000.jpg").write_bytes(b"\xff\xd8\xff\xd9")
    assert storyboard.tiles(tmp_path) == storyboard.Tiles(count, 1, 160, 90, sprite_ms, 4)


@pytest.mark.parametrize(("late_ms", "even"), [(0, True), (2, True), (40, False)])
def test_tiles_need_one_interval(tmp_path: Path, late_ms: int, even: bool) -> None:
    begins = [10_010 * number + late_ms * (number == 50) for number in range(105)]
    cues = "".join(
        f"\n{webvtt.clock(at)} --> {webvtt.clock(end)}\n"
        f"storyboard-{number // 100:03}.jpg#xywh={number % 10 * 160},{number % 100 // 10 * 90},160,90\n"
        for number, (at, end) in enumerate(pairwise([*begins, begins[-1] + 500]))
    )
    (tmp_path / "storyboard.vtt").write_text("WEBVTT\n" + cues)
    for number in range(2):
        (tmp_path / f"storyboard-{number:03}.jpg").write_bytes(b"\xff\xd8" + bytes(number) + b"\xff\xd9")
    expected = storyboard.Tiles(10, 10, 160, 90, 1_001_000, 5) if even else None
    assert storyboard.tiles(tmp_path) == expected
    (tmp_path / "storyboard-001.jpg").unlink()
    assert storyboard.tiles(tmp_path) is None


@pytest.mark.more
def test_long_videos_have_several_sprites(clip: MakeClip, encode: MakeEncode, small: Profile) -> None:
    source = clip(
        "numbered-long.mp4", fps="1", size="96x54", filters=numbered("96x54"), seconds=1041, audio=0
    )
    folder = made_of(encode(source, replace(small, segment_s=6, gop_s=2), storyboard=True))
    found = shown(folder)
    assert [picture.begin_s for picture in found] == [10 * k for k in range(105)]
    assert [picture.frame for picture in found] == [10 * k for k in range(105)]
    assert edges(found)[-1] == 1041
    assert len(list(folder.glob("*.jpg"))) == 2


@pytest.mark.more
def test_a_later_attempt_keeps_it_or_makes_it_again(clip: MakeClip, encode: MakeEncode) -> None:
    source = clip("numbered-320x180.mp4", size="320x180", filters=numbered("320x180"), seconds=4.48)
    first = made_of(encode(source, storyboard=True))
    sprite = first / "storyboard-000.jpg"
    content = sprite.read_bytes()
    again = encode(source, storyboard=True)
    assert made_of(again) == first
    assert "storyboard" not in [run.label for run in again.runs]
    sprite.write_bytes(content[:-2])
    assert storyboard.files(first) == []
    assert made_of(encode(source, storyboard=True)) == first
    assert sprite.read_bytes() == content


def test_the_ladder_is_whole_without_one(clip: MakeClip, encode: MakeEncode) -> None:
    source = clip("plain25.mp4")
    off = encode(source)
    run_to_end(off)
    assert (off.state, off.side.storyboard) == ("done", None)
    [smallest] = [state for state in off.renditions if state.name == "90p"]
    init = smallest.directory / "init.mp4"
    init.write_bytes(bytes(init.stat().st_size))
    failing = encode(source, storyboard=True)
    run_to_end(failing)
    assert (failing.state, [warning.code for warning in failing.warnings]) == (
        "done",
        [WarningCode.STORYBOARD_MISSING],
    )
    assert failing.side.storyboard is not None
    assert not failing.side.storyboard.is_stored
