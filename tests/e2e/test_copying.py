"""A source that fits the largest quality is published as it is: what `plan` and the job say, what plays."""

from __future__ import annotations

import hashlib
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import m3u8
import pytest

from .conftest import MakeStudio
from .ladder import check_ladder

BT709 = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"
NAMES = ("360p", "180p", "120p", "90p")


def _film(ffmpeg: str, path: Path, *, key_frames_s: float) -> Path:
    command = [ffmpeg, "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=8"]
    command += ["-f", "lavfi", "-i", "sine=r=44100:d=8", "-c:a", "aac", "-vf", f"{BT709},format=yuv420p"]
    command += ["-c:v", "libx264", "-preset", "veryfast", "-crf", "34", "-g", str(round(key_frames_s * 25))]
    subprocess.run([*command, "-sc_threshold", "0", str(path)], check=True)
    return path


def _pictures(path: Path) -> list[str]:
    with av.open(str(path)) as container:
        return [
            hashlib.sha1(b"".join(bytes(plane) for plane in frame.planes)).hexdigest()
            for frame in container.decode(video=0)
        ]


def _lengths(playlist: Path) -> list[float]:
    return [segment.duration for segment in m3u8.loads(playlist.read_text()).segments]


@pytest.mark.slow
def test_plan_and_job_agree_and_the_largest_quality_is_the_source(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    fits = _film(ffmpeg, tmp_path / "fits.mp4", key_frames_s=1.6)
    studio = make_studio().up()
    planned = studio("plan", str(fits), "--profile", "tiny", "--json").json()
    assert [(each["name"], each["copied"]) for each in planned["renditions"][:2]] == [
        ("360p", True),
        ("180p", False),
    ]
    assert "copied from the source: 360p" in str(studio("plan", str(fits), "--profile", "tiny"))
    job = studio.done(studio.add(fits, overrides={"files": '["mp4"]'}))
    [largest, *others] = [each for each in job["renditions"] if each["status"] == "completed"]
    assert (largest["name"], largest["encoder"], largest["reason"]) == (
        "360p",
        "copy",
        "copied from the source",
    )
    assert {each["encoder"] for each in others} == {"libx264"}
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=200, fps=Fraction(25), names=NAMES, layout="mono")
    generation = master.parent / "v1"
    assert _pictures(generation / "360p" / "index.m3u8") == _pictures(fits)
    assert _pictures(generation / f"{master.parent.name}.mp4") == _pictures(fits)
    scores = studio("quality", str(job["video"]), "--json").json()["renditions"]
    assert (scores[0]["name"], scores[0]["vmaf"] > 95) == ("360p", True)
    assert {tuple(_lengths(each)) for each in generation.glob("*p/index.m3u8")} == {
        tuple(_lengths(generation / "360p" / "index.m3u8"))
    }
    targets = {m3u8.loads(each.read_text()).target_duration for each in generation.glob("*/index.m3u8")}
    assert len(targets) == 1

    far = _film(ffmpeg, tmp_path / "far.mp4", key_frames_s=8)
    planned = studio("plan", str(far), "--profile", "tiny", "--json").json()
    why = planned["renditions"][0]["not_copied"]
    assert why == "key frames 8.0 s apart"
    assert f"360p is encoded: {why}" in str(studio("plan", str(far), "--profile", "tiny"))
    job = studio.done(studio.add(far))
    [reason] = [each["reason"] for each in job["renditions"] if each["name"] == "360p"]
    assert reason.startswith(f"encoded: {why}")


@pytest.mark.slow
def test_a_quality_made_again_is_cut_as_the_ladder_that_it_joins(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    """Of one that was published before anything was copied; with a new profile, all of it is another."""
    studio = make_studio().up()
    film = _film(ffmpeg, tmp_path / "film.mp4", key_frames_s=1.6)
    job = studio.done(studio.add(film, overrides={"copy": "never"}))
    before = Path(job["video_view"]["generation"]["master"]).parent / "v1"
    assert {answer["decision"] for answer in studio.offer(film)} == {"cached"}

    again = studio.do("retranscode", job["id"], renditions=["180p"], profile="tiny")
    job = studio.done(again["new_job"])
    part = before.with_name("v2")
    lengths = {tuple(_lengths(each)) for each in part.glob("*p/index.m3u8")}
    assert lengths == {tuple(_lengths(before / "360p" / "index.m3u8"))}
    check_ladder(part.parent / "master.m3u8", frames=200, fps=Fraction(25), names=NAMES, layout="mono")
    assert {answer["decision"] for answer in studio.offer(film)} == {"cached"}

    again = studio.do("retranscode", job["id"], profile="tiny")
    job = studio.done(again["new_job"])
    assert [each["encoder"] for each in job["renditions"] if each["name"] == "360p"] == ["copy"]
    assert _pictures(before.with_name("v3") / "360p" / "index.m3u8") == _pictures(film)
