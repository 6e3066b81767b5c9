"""A source of few bits: what `plan` says of it, what the job says, and what is published."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av
import pytest

from .conftest import MakeStudio

SECONDS = 12


def _bytes_of_pictures(path: Path) -> int:
    with av.open(path) as container:
        return sum(packet.size for packet in container.demux(video=0))


@pytest.mark.slow
def test_plan_and_job_agree_and_nothing_is_larger_than_the_source(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    source = tmp_path / "poor.webm"
    pictures = ("-f", "lavfi", "-i", f"testsrc2=s=640x360:r=25:d={SECONDS},noise=alls=12:allf=t")
    sound = ("-f", "lavfi", "-i", f"anoisesrc=d={SECONDS}", "-c:a", "libopus", "-b:a", "48k")
    rate = (
        "-c:v",
        "libvpx",
        "-b:v",
        "90k",
        "-maxrate",
        "90k",
        "-bufsize",
        "180k",
        "-deadline",
        "realtime",
        "-g",
        "25",
    )
    subprocess.run([ffmpeg, "-v", "error", "-y", *pictures, *sound, *rate, str(source)], check=True)
    spent = _bytes_of_pictures(source)

    studio = make_studio().up()
    planned = studio("plan", str(source), "--profile", "tiny", "--json").json()
    most = {each["name"]: each["max_kbps"] for each in planned["renditions"]}
    printed = str(studio("plan", str(source), "--profile", "tiny"))
    job = studio.done(studio.add(source))

    assert most["360p"] < 800
    assert most["audio-und"] < 128
    assert "fewer bits than the profile's, as the source allows: 360p, 180p" in printed
    [warning] = [each for each in planned["warnings"] if each["code"] == "LOW_BITRATE"]
    assert warning in [{"code": each["code"], "text": each["text"]} for each in job["warnings"]]
    limited = {each["name"] for each in planned["renditions"] if each["limited"]}
    reasons = {each["name"]: each["reason"] for each in job["renditions"] if each["name"] in limited}
    said = {name: f"at most {most[name]} kb/s, as its source allows" for name in limited}
    assert reasons == said | {"360p": f"encoded: the source is vp8; {said['360p']}"}
    [best] = Path(job["video_view"]["generation"]["master"]).parent.glob("v*/360p")
    assert _bytes_of_pictures(best / "index.m3u8") <= 1.3 * 0.9 * spent
