"""Fields that become pictures: one of each, or those of the film from which they were made.

A bar moves with every field or picture of film; where it stands says which one a picture shows.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command import video_command
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.keys import settings_hash
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.probe import probe

from .conftest import MakeEncode, leave, run_ffmpeg, run_to_end
from .test_measure import apart, rows
from .test_resume import streams, video_of

WIDTH, BAR, STEP = 320, 32, 4
REACH = WIDTH - BAR
MOVING = (
    "color=s=320x180:r={}:d={},format=yuv420p,"
    f"geq=lum='if(between(X-abs(mod({STEP}*N,{2 * REACH})-{REACH}),0,{BAR - 1}),235,16)':cb=128:cr=128"
)
INTERLACED = ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "8", "-g", "25", "-flags", "+ilme+ildct")
RUNG = (Rung("180p", 320, 180, 4000, crf=10),)
NTSC_FIELDS, FILM = "60000/1001", "24000/1001"
TOP = "tinterlace=interleave_top,setfield=tff"
BOTTOM = "tinterlace=interleave_bottom,setfield=bff"
TELECINE = "telecine=first_field=top:pattern=23,setfield=tff"


def moving(ffmpeg: FFmpeg, path: Path, rate: str, seconds: float, filters: str, *options: str) -> Path:
    source = ("-f", "lavfi", "-i", MOVING.format(rate, seconds))
    run_ffmpeg(ffmpeg, *source, "-vf", filters, *INTERLACED, *options, str(path))
    return path


def bar_of(number: int) -> float:
    """The middle of the bar in a picture of the source."""
    return abs((STEP * number) % (2 * REACH) - REACH) + (BAR - 1) / 2


def bars_in(stream: bytes) -> list[float]:
    """The middle of the bar in each published picture."""
    found = []
    for picture in rows(stream):
        row = [max(0, value - 30) for value in picture[len(picture) // 2]]
        found.append(sum(x * value for x, value in enumerate(row)) / sum(row))
    return found


def combing(stream: bytes) -> float:
    """How much rows differ more from the next one than from the one after that, at most."""
    pictures = rows(stream)
    return max(
        apart(lines, 1) - apart(lines, 2) for lines in ([*picture[10:-10]] for picture in pictures[::7])
    )


def times_of(path: Path) -> list[Fraction]:
    with av.open(str(path)) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]  # type: ignore[operator]


def published(
    encode: MakeEncode, source: Path, profile: Profile, tmp_path: Path
) -> tuple[bytes, list[Fraction]]:
    made = encode(source, profile, rungs=RUNG, poster=False)
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    stream = streams(made)["180p"]
    (tmp_path / "published.mp4").write_bytes(stream)
    return stream, times_of(tmp_path / "published.mp4")


def graph_hashes(argv: list[str]) -> list[str]:
    """The hash of each picture that a command gives its encoder."""
    outputs = argv.index("-map")
    written = [
        *argv[:outputs],
        *argv[outputs : outputs + 2],
        "-fps_mode",
        "passthrough",
        "-f",
        "framemd5",
        "-",
    ]
    written = [word for word in written if word not in ("-progress", "pipe:1")]
    done = subprocess.run(written, check=True, capture_output=True, timeout=60)
    return [line.split(",")[-1].strip() for line in done.stdout.decode().splitlines() if line[0] != "#"]


@pytest.fixture
def double(small: Profile) -> Profile:
    return replace(small, fields="double")


@pytest.fixture
def film(small: Profile) -> Profile:
    return replace(small, fields="film")


@pytest.mark.parametrize(
    ("name", "rate", "filters"),
    [
        ("50i-top.mp4", "50", TOP),
        pytest.param("50i-bottom.ts", "50", BOTTOM, marks=pytest.mark.slow),
        pytest.param("60i-top.ts", NTSC_FIELDS, TOP, marks=pytest.mark.slow),
        ("60i-bottom.mp4", NTSC_FIELDS, BOTTOM),
    ],
)
def test_every_field_becomes_a_picture(
    encode: MakeEncode, double: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str, rate: str, filters: str
) -> None:
    source = moving(ffmpeg, tmp_path / name, rate, 2, filters)
    count = len(times_of(source))
    stream, times = published(encode, source, double, tmp_path)
    assert len(times) == 2 * count
    assert times == pytest.approx([10 + n / Fraction(rate) for n in range(2 * count)], abs=1e-4)
    assert bars_in(stream) == pytest.approx([bar_of(n) for n in range(2 * count)], abs=0.8)
    assert combing(stream) < 1


@pytest.mark.parametrize(
    ("name", "codec", "filters"),
    [
        ("tape.mkv", ("magicyuv",), TOP),
        pytest.param("tape.mkv", ("huffyuv", "-pix_fmt", "yuv422p"), BOTTOM, marks=pytest.mark.more),
        ("master.mov", ("cfhd", "-pix_fmt", "yuv422p10le"), TOP),
        pytest.param("master.mov", ("cfhd", "-pix_fmt", "yuv422p10le"), BOTTOM, marks=pytest.mark.more),
        pytest.param("master.mov", ("mjpeg", "-q:v", "2"), TOP, marks=pytest.mark.more),
        pytest.param("master.mov", ("mjpeg", "-q:v", "2"), BOTTOM, marks=pytest.mark.more),
        pytest.param("master.mov", ("png",), TOP, marks=pytest.mark.more),
    ],
)
def test_fields_are_those_that_the_container_declares(
    encode: MakeEncode,
    double: Profile,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    name: str,
    codec: tuple[str, ...],
    filters: str,
) -> None:
    """Where the codec marks no picture as interlaced."""
    order = ("-field_order", "tt" if filters is TOP else "bb")
    source = moving(ffmpeg, tmp_path / name, "50", 2, filters, "-flags", "0", *order, "-c:v", *codec)
    stream, _ = published(encode, source, double, tmp_path)
    assert bars_in(stream) == pytest.approx([bar_of(n) for n in range(100)], abs=0.8)
    assert combing(stream) < 1


def test_fields_are_joined_to_pictures_by_default(
    encode: MakeEncode, small: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    source = moving(ffmpeg, tmp_path / "50i.mp4", "50", 2, TOP)
    stream, times = published(encode, source, small, tmp_path)
    assert len(times) == 50
    assert bars_in(stream) == pytest.approx([bar_of(2 * n) for n in range(50)], abs=0.8)
    assert combing(stream) < 1
    poster = encode(source, small, rungs=RUNG)
    run_to_end(poster)
    assert poster.side.poster is not None
    assert combing(poster.side.poster.read_bytes()) < 1


@pytest.mark.parametrize("name", ["hard.mp4", pytest.param("hard.ts", marks=pytest.mark.slow)])
def test_telecined_film_gets_its_pictures_back(
    encode: MakeEncode, film: Profile, ffmpeg: FFmpeg, tmp_path: Path, name: str
) -> None:
    source = moving(ffmpeg, tmp_path / name, FILM, 3, TELECINE)
    assert len(times_of(source)) == 90
    stream, times = published(encode, source, film, tmp_path)
    assert times == pytest.approx([10 + n / Fraction(FILM) for n in range(72)], abs=1e-4)
    assert bars_in(stream) == pytest.approx([bar_of(n) for n in range(72)], abs=0.8)
    assert combing(stream) < 1


def test_pictures_shown_for_two_and_three_fields_are_those_of_the_film(
    encode: MakeEncode, film: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """As on a DVD that repeats fields by flags: its times are uneven, no picture is interlaced."""
    uneven = ("-enc_time_base", "1/90000", "-fps_mode", "passthrough", "-flags", "-ilme-ildct")
    pulled = "settb=1/90000,setpts='floor(N*5/2)*3003/2'"
    source = moving(ffmpeg, tmp_path / "soft.ts", FILM, 2, pulled, *uneven)
    assert not probe(os.fsencode(source)).video.interlaced
    stream, times = published(encode, source, film, tmp_path)
    assert times == pytest.approx([10 + n / Fraction(FILM) for n in range(48)], abs=1e-4)
    assert bars_in(stream) == pytest.approx([bar_of(n) for n in range(48)], abs=0.8)


def test_video_between_film_is_whole_and_on_time(
    encode: MakeEncode, film: Profile, ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """Film, then video of 59.94 fields, then film whose pattern begins at another picture."""
    parts = [
        moving(ffmpeg, tmp_path / "0.ts", FILM, 2, TELECINE),
        moving(ffmpeg, tmp_path / "1.ts", NTSC_FIELDS, 2.1, TOP),
        moving(ffmpeg, tmp_path / "2.ts", FILM, 2, TELECINE),
    ]
    (tmp_path / "list").write_text("".join(f"file {part.name}\n" for part in parts))
    source = tmp_path / "mixed.mp4"
    run_ffmpeg(ffmpeg, "-f", "concat", "-i", str(tmp_path / "list"), "-c", "copy", str(source))
    count = len(times_of(source))
    stream, times = published(encode, source, film, tmp_path)
    assert abs(len(times) - count * 4 / 5) <= 1
    assert times == pytest.approx([10 + n / Fraction(FILM) for n in range(len(times))], abs=1e-4)
    assert combing(stream) < 1
    shown = bars_in(stream)
    assert shown[:47] == pytest.approx([bar_of(n) for n in range(47)], abs=0.8)
    # The first picture of the last part, and then each of its pictures.
    begin = len(shown) - 47
    steps = [abs(b - a) for a, b in pairwise(shown[begin + 4 : -3])]
    assert steps == pytest.approx([STEP] * len(steps), abs=0.8)
    # Video moves twice as far from picture to picture; every fifth is left out.
    middle = [abs(b - a) for a, b in pairwise(shown[55:91])]
    assert {round(step / STEP) for step in middle} <= {2, 4}


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "rate", "filters", "fields"),
    [
        ("50i.mp4", "50", TOP, "frames"),
        ("50i.ts", "50", TOP, "double"),
        ("60i.mp4", NTSC_FIELDS, BOTTOM, "double"),
        ("hard.mp4", FILM, TELECINE, "film"),
        ("hard.ts", FILM, TELECINE, "film"),
    ],
)
def test_resumed_pictures_are_those_of_an_uninterrupted_run(
    small: Profile,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    name: str,
    rate: str,
    filters: str,
    fields: str,
) -> None:
    """After a seek, which begins ten seconds before the cut."""
    source, profile = moving(ffmpeg, tmp_path / name, rate, 13, filters), replace(small, fields=fields)
    facts = probe(os.fsencode(source))
    grid = make_grid(facts, profile)
    whole = graph_hashes(video_command(ffmpeg, os.fsencode(source), facts, grid, profile, RUNG))
    assert len(whole) == grid.total_frames
    for cut in (1, 11):
        argv = video_command(ffmpeg, os.fsencode(source), facts, grid, profile, RUNG, start=cut)
        assert ("-ss" in argv) is (cut > 10)
        assert graph_hashes(argv) == whole[grid.fragment_start(cut) :]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "filters", "fields"), [("50", TOP, "double"), (FILM, TELECINE, "film")], ids=["double", "film"]
)
def test_an_encode_goes_on_at_any_fragment(
    encode: MakeEncode,
    small: Profile,
    ffmpeg: FFmpeg,
    tmp_path: Path,
    rate: str,
    filters: str,
    fields: str,
) -> None:
    source, profile = moving(ffmpeg, tmp_path / "a.mp4", rate, 13, filters), replace(small, fields=fields)
    stream, times = published(encode, source, profile, tmp_path)
    again = encode(source, profile, rungs=RUNG, poster=False)
    again.look_up()
    leave(video_of(again)[0].directory, 5, 1)
    again = encode(source, profile, rungs=RUNG, poster=False)
    run_to_end(again)
    assert (again.state, again.spec.facts.unseekable) == ("done", False)
    assert [run.starts_at_s for run in again.runs if run.label.startswith("video")] == [
        again.spec.grid.fragment_s(11)
    ]
    resumed = streams(again)["180p"]
    assert bars_in(resumed) == pytest.approx(bars_in(stream), abs=0.8)
    assert len(rows(resumed)) == len(times)


def test_other_sources_are_as_they_were(
    ffmpeg: FFmpeg, tmp_path: Path, double: Profile, film: Profile
) -> None:
    source = moving(ffmpeg, tmp_path / "25p.mp4", "25", 1, "null", "-flags", "-ilme-ildct")
    facts = probe(os.fsencode(source))
    plain = profiles.load("fast")
    keys = {
        settings_hash("content", replace(plain, fields=fields), RUNG[0], facts)
        for fields in ("frames", "double", "film")
    }
    assert len(keys) == 1
    fifty = replace(facts, video=replace(facts.video, interlaced=True))
    ntsc = replace(facts, video=replace(fifty.video, fps=Fraction(30000, 1001)))
    rates = {
        (mode.fields, str(make_grid(each, mode).fps)) for mode in (double, film) for each in (fifty, ntsc)
    }
    assert rates == {("double", "50"), ("double", NTSC_FIELDS), ("film", "25"), ("film", FILM)}
    assert settings_hash("content", double, RUNG[0], fifty) != settings_hash("content", film, RUNG[0], fifty)
