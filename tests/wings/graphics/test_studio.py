"""Pictures and bit rates of ladders that a real supervisor has published."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.studio import Studio
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from tqstudio.wings.graphics.pictures import Pictures

RED, BLUE, GREEN, GREY = (200, 30, 30), (30, 30, 200), (30, 160, 30), (128, 128, 128)


def _colour(rgb: tuple[int, ...], size: str, seconds: int) -> str:
    return f"color=c=0x{bytes(rgb).hex()}:s={size}:r=25:d={seconds}"


def _clip(ffmpeg: str, path: Path) -> Path:
    """Four seconds of red left and blue right, then four of green left and grey right."""
    halves = [_colour(each, "160x180", 4) for each in (RED, BLUE, GREEN, GREY)]
    inputs = [word for half in halves for word in ("-f", "lavfi", "-i", half)]
    graph = "[0][1]hstack[a];[2][3]hstack[b];[a][b]concat,format=yuv420p"
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-crf", "10", "-g", "25")
    argv = [ffmpeg, "-v", "error", *inputs, "-filter_complex", graph, *codec, f"file:{path}"]
    subprocess.run(argv, check=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def job(one_for_all: Studio, ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> int:
    """A published ladder of four halves of known colours."""
    number = one_for_all.add(_clip(ffmpeg, tmp_path_factory.mktemp("halves") / "halves.mp4"))
    one_for_all.done(number)
    return number


def _pixel(view: Any, part: int, x: float, y: float) -> tuple[int, ...]:
    """The colour at a share of the width and height of a picture."""
    rgb = base64.b64decode(view["rgb_b64"][part])
    assert len(rgb) == 3 * view["width"] * view["height"]
    at = int(y * view["height"]) * view["width"] + int(x * view["width"])
    return tuple(rgb[3 * at : 3 * at + 3])


def _refused(studio: Studio, call: Call[Any]) -> TqError:
    with pytest.raises(TqError) as refused:
        studio.send(call)
    return refused.value


def _require_colours_of_source(poster: Any) -> None:
    """Check that a poster is of the first or of the second half."""
    left, right = (_pixel(poster, 0, x, 0.5) for x in (0.2, 0.8))
    halves = [(RED, BLUE), (GREEN, GREY)]
    assert any(left == pytest.approx(a, abs=12) and right == pytest.approx(b, abs=12) for a, b in halves)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 45), (33, 45), (80, 9), (1, 1)])
def test_a_poster_has_the_colours_of_its_source(shared: Studio, job: int, size: tuple[int, int]) -> None:
    view = shared.send(calls.job_picture(job, "poster", *size))
    assert (len(view["rgb_b64"]), view["times"]) == (1, [])
    assert max(view["width"] / size[0], view["height"] / size[1]) == pytest.approx(1, abs=0.05)
    if size != (1, 1):
        assert view["width"] / view["height"] == pytest.approx(16 / 9, abs=0.2)
        _require_colours_of_source(view)


@pytest.mark.slow
def test_the_film_strip_shows_the_course_of_the_video(shared: Studio, job: int) -> None:
    view = shared.send(calls.job_picture(job, "storyboard", 80, 9))
    times = view["times"]
    assert (view["width"], view["height"], len(times)) == (16, 9, 5)
    assert len(view["rgb_b64"]) == len(times)
    assert times == sorted(times)
    for number, at in enumerate(times):
        expected = (RED, BLUE) if at < 4 else (GREEN, GREY)
        for x, colour in zip((0.2, 0.8), expected, strict=True):
            assert _pixel(view, number, x, 0.5) == pytest.approx(colour, abs=12), (at, x)
    assert times[0] < 4 < times[-1]


@pytest.mark.slow
def test_bits_add_up_to_what_was_published(shared: Studio, job: int) -> None:
    view = shared.send(calls.job_bits(job))
    published = shared.video_of(job)["generation"]["renditions"]
    assert [each["name"] for each in view["renditions"]] == ["180p", "90p"]
    assert view["duration_s"] == pytest.approx(8, abs=0.1)
    for each, row in zip(view["renditions"], published, strict=False):
        # Equal parts: their mean is that of the whole.
        assert sum(each["bps"]) / len(each["bps"]) == pytest.approx(each["average_bps"], rel=0.1)
        assert (each["name"], each["average_bps"]) == (row["name"], row["average_bps"])
    whole = shared.send(Call("GET", f"/v1/jobs/{job}/bits", {"points": 1}))
    assert whole["renditions"][0]["bps"] == [pytest.approx(view["renditions"][0]["average_bps"], rel=0.1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [{"width": 0}, {"width": 81}, {"width": 1000}, {"height": 0}, {"height": 46}, {"kind": "film"}, {"x": 1}],
)
def test_what_is_out_of_range_is_refused(shared: Studio, job: int, wrong: dict[str, Any]) -> None:
    refused = _refused(shared, Call("GET", f"/v1/jobs/{job}/picture", wrong))
    assert refused.code is ErrorCode.BAD_REQUEST
    assert next(iter(wrong)) in refused.message


@pytest.mark.slow
def test_without_a_ladder_there_is_none(shared: Studio, tmp_path: Path) -> None:
    source = tmp_path / "text.mp4"
    source.write_text("no video")
    failed = shared.add(source)
    shared.wait(failed, "failed")
    for call in (calls.job_picture(failed, "poster", 80, 45), calls.job_bits(failed)):
        refused = _refused(shared, call)
        assert (refused.code, refused.message) == (
            ErrorCode.NOT_FOUND,
            f"the ladder of job {failed} is not published yet",
        )
    assert _refused(shared, calls.job_bits(999)).message == "there is no job 999"


@pytest.mark.slow
def test_pictures_that_are_gone_damaged_or_deleted(shared: Studio, ffmpeg: str, tmp_path: Path) -> None:
    job = shared.add(_clip(ffmpeg, tmp_path / "harmed.mp4"))
    shared.done(job)
    folder = Path(shared.video_of(job)["generation"]["poster"]).parent

    def refusal(kind: str, width: int = 80) -> tuple[ErrorCode, str]:
        refused = _refused(shared, calls.job_picture(job, kind, width, 45))
        return refused.code, refused.message

    poster, cues = folder / "poster.jpg", folder / "storyboard.vtt"
    content, text = poster.read_bytes(), cues.read_text()
    poster.unlink()
    assert refusal("poster") == (ErrorCode.NOT_FOUND, "this ladder has no poster")
    poster.symlink_to(tmp_path / "harmed.mp4")
    assert refusal("poster")[0] is not ErrorCode.NOT_FOUND, "a link is not followed"
    poster.unlink()
    poster.write_bytes(content[:20])
    assert refusal("poster")[0] is ErrorCode.OUTPUT_INVALID
    poster.unlink()
    poster.write_bytes(content)
    for harmed in ("WEBVTT\n", text.replace("xywh=", "xywh=9999"), text.replace("storyboard-000", "../a")):
        cues.unlink()
        cues.write_text(harmed)
        assert refusal("storyboard")[0] is ErrorCode.OUTPUT_INVALID, harmed
    assert shared.send(calls.job_picture(job, "poster", 80, 45))["width"] == 80

    shared.send(calls.delete_video(shared.video_of(job)["id"]))
    assert refusal("poster", 79) == (ErrorCode.NOT_FOUND, f"the ladder of job {job} was deleted")


def test_a_picture_is_made_once_for_each_generation(ffmpeg: str, tmp_path: Path) -> None:
    pictures = Pictures(locate(ffmpeg), BoundedIO())

    def paint(colour: tuple[int, ...]) -> None:
        poster = str(tmp_path / "poster.jpg")
        made = ("-f", "lavfi", "-i", _colour(colour, "64x36", 1), "-frames:v", "1", poster)
        subprocess.run([ffmpeg, "-v", "error", "-y", *made], check=True, timeout=60)

    async def look() -> list[Any]:
        paint(RED)
        first = await pictures.get(1, tmp_path, "poster", 16, 9)
        paint(BLUE)
        return [first, *[await pictures.get(at, tmp_path, "poster", 16, 9) for at in (1, 2)]]

    first, again, other = asyncio.run(look())
    assert again is first
    assert _pixel(first, 0, 0.5, 0.5) == pytest.approx(RED, abs=12)
    assert _pixel(other, 0, 0.5, 0.5) == pytest.approx(BLUE, abs=12)


@pytest.mark.slow
def test_the_poster_is_there_before_the_ladder(shared: Studio, ffmpeg: str, tmp_path: Path) -> None:
    with shared.paced(1):
        job = shared.add(_clip(ffmpeg, tmp_path / "running.mp4"))
        shared.running(job)
        shared.do("pause", job)
        shared.wait(job, "paused")
    assert shared.video_of(job)["generation"] is None
    _require_colours_of_source(shared.send(calls.job_picture(job, "poster", 80, 45)))
    strip = _refused(shared, calls.job_picture(job, "storyboard", 80, 45))
    assert strip.message == f"the ladder of job {job} is not published yet"
    shared.do("resume", job)
    shared.done(job)
