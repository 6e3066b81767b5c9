"""What is left out of a source, or is damaged in it, is said wherever its job is shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .conftest import MakeStudio
from .studio import Studio

Make = Callable[..., Path]


def make(ffmpeg: str, path: Path, *arguments: str) -> Path:
    subprocess.run(
        [ffmpeg, "-v", "error", "-nostdin", "-y", *arguments, f"file:{path}"], check=True, timeout=60
    )
    return path


PICTURE = ("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=2")
TONES = ("-f", "lavfi", "-i", "sine=r=44100:d=2", "-f", "lavfi", "-i", "sine=440:r=44100:d=2")
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


def processed(studio: Studio, source: Path) -> Any:
    """What `process --json` says of one video."""
    arguments = ("--output", studio.root / "out", "--profile", "tiny", "--json")
    answer = studio("process", "--input", source, *arguments)
    assert answer.code == 0, answer.err
    [video] = answer.last_line()["videos"]
    return video


def test_hdr_is_published_as_sdr_and_said_so(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path) -> None:
    tags = "setparams=color_primaries=bt2020:colorspace=bt2020nc:color_trc=arib-std-b67:range=tv"
    picture = (*PICTURE, "-vf", f"format=yuv420p10le,{tags}")
    source = make(
        ffmpeg, tmp_path / "phone.mkv", *picture, "-c:v", "libx265", "-x265-params", "log-level=error"
    )
    studio = make_studio().up()
    video = processed(studio, source)
    [warning] = video["warnings"]
    assert warning["code"] == "HDR_TONE_MAPPED"
    assert warning["text"].startswith("HDR (HLG) is mapped to SDR")
    master = next((studio.root / "out").glob("*/master.m3u8")).read_text()
    assert master.count("VIDEO-RANGE=SDR") == master.count("#EXT-X-STREAM-INF") > 0


def test_what_is_left_out_is_said_in_every_answer(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    words = tmp_path / "words.srt"
    words.write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")
    source = make(
        ffmpeg,
        tmp_path / "film.mkv",
        *(*PICTURE, *TONES, "-i", str(words), "-map", "0", "-map", "1", "-map", "2", "-map", "3"),
        *(*X264, "-c:a", "aac", "-c:s", "srt", "-metadata:s:a:1", "language=fra"),
    )
    studio = make_studio().up()
    plain = studio("process", "--input", source, "--output", studio.root / "out", "--profile", "tiny")
    assert "warning: AUDIO_LEFT_OUT: 1 audio track is left out" in plain.out
    assert "1 done, 1 with warnings" in plain.out
    [job] = studio("job", "list", "--json").json()["jobs"]
    said = [(each["code"], each["text"]) for each in job["warnings"]]
    assert [code for code, _ in said] == ["AUDIO_LEFT_OUT", "SUBTITLES_LEFT_OUT"]
    assert "fr" in said[0][1]
    assert processed(studio, source)["warnings"] == job["warnings"], "also of a ladder that was there already"
    assert "2 warnings" in studio("job", "list").out
    shown = studio("job", "show", str(job["id"]))
    assert all(f"{code}: {text}" in shown.out for code, text in said)
    events = [json.loads(line) for line in studio("events", "--json").out.splitlines()]
    assert [(e["code"], e["detail"]) for e in events if e["trigger"] == "warning"] == said
