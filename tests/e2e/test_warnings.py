"""What is left out of a source, or is damaged in it, is reported wherever its job is shown."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import m3u8
import pytest

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

_LONG = (
    *("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=10", "-f", "lavfi", "-i", "sine=r=44100:d=10"),
    *(*X264, "-g", "25", "-c:a", "aac"),
)


def processed(studio: Studio, source: Path, *more: str) -> Any:
    """What `process --json` says of one video."""
    arguments = ("--output", studio.root / "out", "--profile", "tiny", "--json", *more)
    answer = studio("process", "--input", source, *arguments)
    assert answer.code == 0, answer.err
    [video] = answer.last_line()["videos"]
    return video


@pytest.mark.slow
def test_hdr_is_published_as_sdr_and_reported_so(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
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
    assert master.count("VIDEO-RANGE=SDR") == master.count("-STREAM-INF:") > 0


@pytest.mark.more
def test_a_loudness_that_is_not_reached_is_reported(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path
) -> None:
    clicks = ("-f", "lavfi", "-i", "aevalsrc='0.9*sin(2*PI*440*t)*exp(-40*mod(t,0.5))':s=48000:d=2")
    source = make(ffmpeg, tmp_path / "film.mkv", *PICTURE, *clicks, *X264, "-c:a", "pcm_s16le")
    studio = make_studio().up()
    [warning] = processed(studio, source, "--set", "audio.loudness=-9")["warnings"]
    assert warning["code"] == "LOUDNESS_LIMITED"
    [job] = studio("job", "list", "--json").json()["jobs"]
    commands = studio("job", "command", str(job["id"])).out.splitlines()
    assert sum("ebur128@audio-und" in each for each in commands) >= 2, "the measuring run and the audio run"
    refused = studio("process", "--input", source, "--set", "audio.loudness=3")
    assert refused.code != 0
    assert "audio.loudness" in refused.err
    assert "from -31 to -9" in refused.err


@pytest.mark.more
def test_what_is_left_out_is_reported_in_every_answer(
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
    only = ("--set", "audio.tracks=default", "--set", "subtitles.tracks=none")
    plain = studio("process", "--input", source, "--output", studio.root / "out", "--profile", "tiny", *only)
    assert "warning: AUDIO_LEFT_OUT: 1 audio track is left out" in plain.out
    assert "1 done, 1 with warnings" in plain.out
    [job] = studio("job", "list", "--json").json()["jobs"]
    warnings = [(each["code"], each["text"]) for each in job["warnings"]]
    assert [code for code, _ in warnings] == ["AUDIO_LEFT_OUT", "SUBTITLES_LEFT_OUT"]
    assert "fr" in warnings[0][1]
    assert processed(studio, source, *only)["warnings"] == job["warnings"], (
        "also of a ladder that was there already"
    )
    for warning in ("any", "AUDIO_LEFT_OUT", "subtitles"):
        assert "2 warnings" in studio("job", "list", "--warning", warning).out
    assert studio("job", "list", "--warning", "HDR").out == "no matching jobs\n"
    refused = studio("job", "list", "--warning", "audio_cot")
    assert (refused.code, "begins with 'audio_cot'" in refused.err) == (2, True)
    shown = studio("job", "show", str(job["id"]))
    assert all(f"{code}: {text}" in shown.out for code, text in warnings)
    events = [json.loads(line) for line in studio("events", "--json").out.splitlines()]
    assert [(e["code"], e["detail"]) for e in events if e["trigger"] == "warning"] == warnings


@pytest.mark.slow
def test_every_track_is_in_the_master(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path) -> None:
    """Two languages, a commentary, 5.1 and subtitles: players find all of them, and `verify` too."""
    words = tmp_path / "words.srt"
    words.write_text("1\n00:00:00,500 --> 00:00:01,500\nhello\n")
    source = make(
        ffmpeg,
        tmp_path / "film.mkv",
        *(*PICTURE, *TONES, "-f", "lavfi", "-i", "aevalsrc=0.1|0.1|0.1|0.1|0.1|0.1:c=5.1:s=48000:d=2"),
        *("-i", str(words), "-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map", "4", *X264),
        *("-c:a", "aac", "-c:s", "srt", "-metadata:s:s:0", "language=fre", "-disposition:s:0", "forced"),
        *(
            "-metadata:s:a:0",
            "language=eng",
            "-metadata:s:a:1",
            "language=eng",
            "-disposition:a:1",
            "comment",
        ),
        *("-disposition:a:1", "comment", "-metadata:s:a:2", "language=ger", "-metadata:s:a:2", "title=Kino"),
    )
    studio = make_studio().up()
    video = processed(studio, source, "--set", "audio.surround=eac3")
    assert video["warnings"] == []
    master = m3u8.load(video["master"])
    assert [
        (each.group_id, each.name, each.language, each.default, each.autoselect, each.channels)
        for each in master.media
        if each.type == "AUDIO"
    ] == [
        ("audio", "English", "en", "YES", "YES", "1"),
        ("audio", "Kino", "de", "NO", "YES", "2"),
        ("audio", "English (commentary)", "en", "NO", "NO", "1"),
        ("surround", "English", "en", "YES", "YES", "1"),
        ("surround", "Kino", "de", "NO", "YES", "6"),
        ("surround", "English (commentary)", "en", "NO", "NO", "1"),
    ]
    [text] = [each for each in master.media if each.type == "SUBTITLES"]
    assert (text.name, text.language, text.default, text.forced) == ("French (forced)", "fr", "NO", "YES")
    assert {each.stream_info.subtitles for each in master.playlists} == {text.group_id}
    shown = "".join(path.read_text() for path in Path(video["master"]).parent.glob("v1/sub-fr/*.vtt"))
    assert "00:00:00.500 --> 00:00:01.500\nhello\n" in shown
    codecs = {each.stream_info.audio: each.stream_info.codecs.split(",")[1:] for each in master.playlists}
    assert codecs == {"audio": ["mp4a.40.2"], "surround": ["ec-3", "mp4a.40.2"]}
    verified = studio("verify", "--full", studio.root / "out")
    assert verified.code == 0, verified.out
    assert "audio-de-surround" in studio("verify", "--json", studio.root / "out").out
    [job] = studio("job", "list", "--json").json()["jobs"]
    less = studio.do("retranscode", job["id"], drop=["audio-en-2", "sub-fr"])["new_job"]
    studio.done(less)
    assert studio.job(less)["attempts_log"][0]["argv"] == [], "nothing is encoded again"
    media = m3u8.load(video["master"]).media
    studio.done(studio.do("retranscode", job["id"], renditions=["audio-en-2"])["new_job"])
    names = [each.name for each in m3u8.load(video["master"]).media if each.group_id == "audio"]
    assert names == ["English", "Kino", "English (commentary)"]
    assert [each.name for each in media if each.group_id != "surround"] == ["English", "Kino"]


def _hole(ffmpeg: str, folder: Path, seconds: tuple[float, float]) -> Path:
    """A recording of 10 s in MPEG-TS that lacks what lies between two times."""
    whole = make(ffmpeg, folder / "whole.ts", *_LONG, "-muxdelay", "0")
    before, after = folder / "before.ts", folder / "after.ts"
    copy = ("-i", str(whole), "-c", "copy", "-muxdelay", "0")
    make(ffmpeg, before, *copy, "-t", str(seconds[0]))
    make(ffmpeg, after, "-ss", str(seconds[1]), *copy, "-output_ts_offset", str(seconds[1]))
    path = folder / "hole.ts"
    path.write_bytes(before.read_bytes() + after.read_bytes())
    return path


def _bit_errors(ffmpeg: str, folder: Path, _: tuple[float, float]) -> Path:
    path = make(ffmpeg, folder / "errors.mkv", *_LONG)
    content = bytearray(path.read_bytes())
    for at in range(len(content) // 2, len(content) * 3 // 4, 997):
        content[at : at + 12] = bytes(value ^ 0x55 for value in content[at : at + 12])
    path.write_bytes(content)
    return path


def _half(ffmpeg: str, folder: Path, _: tuple[float, float]) -> Path:
    """Cut after the first packet of a piece of sound that has several."""
    path = make(ffmpeg, folder / "half.ts", *_LONG, "-c:a", "mp2")
    content = path.read_bytes()
    of_sound = [
        at
        for at in range(len(content) // 2 // 188 * 188, len(content), 188)
        if content[at + 1] & 0x1F == 1 and content[at + 2] == 1
    ]
    begins = [bool(content[at + 1] & 0x40) for at in of_sound]
    cut = next(
        at for at, (one, two) in zip(of_sound, itertools.pairwise(begins), strict=False) if one and not two
    )
    path.write_bytes(content[: cut + 188])
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_it", "code", "where"),
    [
        (_hole, "SOURCE_DAMAGED", r"has a gap at 0:0[34]: [34]\.\d s are missing"),
        pytest.param(
            _bit_errors,
            "SOURCE_DAMAGED",
            r"pictures .* without errors, the first at about 0:\d\d",
            marks=pytest.mark.more,
        ),
        pytest.param(_half, "SOURCE_INCOMPLETE", r"was cut off at 0:0[45]", marks=pytest.mark.more),
    ],
)
def test_damage_is_reported_with_its_time(
    make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, make_it: Any, code: str, where: str
) -> None:
    video = processed(make_studio(), make_it(ffmpeg, tmp_path, (4, 8)))
    assert video["status"] == "done"
    warnings = [each["text"] for each in video["warnings"] if each["code"] == code]
    assert any(re.search(where, text) for text in warnings), video["warnings"]
    assert processed(make_studio(), make(ffmpeg, tmp_path / "sound.mp4", *_LONG))["warnings"] == []
