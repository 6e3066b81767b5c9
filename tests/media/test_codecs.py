"""HEVC and AV1: every picture is made once, also after kills, and named in playlists as ffmpeg names it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.profiles import Profile, RungSpec, override
from tqstudio.engine.media.plan.rungs import build_ladder

from .conftest import MakeClip, MakeEncode, run_ffmpeg, run_to_end
from .corpus import CORPUS, Corpus, pictures
from .test_resume import kill_behind, streams, video_of
from .test_rungs import sized

BOTH = pytest.mark.parametrize(
    ("codec", "pixels"),
    [
        ("hevc", "yuv420p"),
        ("av1", "yuv420p10le"),
        pytest.param("hevc", "yuv420p10le", marks=pytest.mark.slow),
        pytest.param("av1", "yuv420p", marks=pytest.mark.slow),
    ],
)


def of_codec(small: Profile, codec: str, pixels: str = "yuv420p") -> Profile:
    """Two rungs of a codec, quickly."""
    two = replace(small, rungs=(RungSpec(90, 2000), RungSpec(54, 1000)))
    return override(two, {"video.codec": codec, "preset": "superfast", "crf": "15", "pixel_format": pixels})


def done(encode: LadderEncode) -> LadderEncode:
    run_to_end(encode)
    assert (encode.state, encode.error) == ("done", None)
    return encode


@pytest.mark.slow
@BOTH
def test_every_picture_is_made_once_also_after_kills(
    ffmpeg: FFmpeg, encode: MakeEncode, small: Profile, codec: str, pixels: str, tmp_path: Path
) -> None:
    source = Corpus(ffmpeg, tmp_path).source(next(one for one in CORPUS if one.name == "ntsc.mp4"))
    profile = of_codec(small, codec, pixels)
    whole = done(encode(source, profile, poster=False, store_root=tmp_path / "whole"))
    expected = {name: pictures(stream) for name, stream in streams(whole).items()}
    assert [number for _, number in expected["90p"]] == [
        number for _, number in pictures(source.read_bytes())
    ]
    for fragment in (1, 2, 5):
        kill_behind(encode(source, profile, poster=False), fragment)
    last = done(encode(source, profile, poster=False))
    assert [run.resumed_from for run in last.runs if run.label == "video"] == [2]
    assert {name: pictures(stream) for name, stream in streams(last).items()} == expected


@pytest.mark.parametrize(
    ("codec", "pixels"), [("h264", "yuv420p"), ("av1", "yuv420p"), ("av1", "yuv420p10le")]
)
def test_playlists_name_codecs_as_ffmpeg_does(
    ffmpeg: FFmpeg,
    clip: MakeClip,
    encode: MakeEncode,
    small: Profile,
    codec: str,
    pixels: str,
    tmp_path: Path,
) -> None:
    codecs = codecs_of(
        encode(clip("plain.mp4", seconds=2), of_codec(small, codec, pixels), poster=False), tmp_path
    )
    run_ffmpeg(
        ffmpeg, "-i", str(tmp_path / "whole.mp4"), "-c", "copy", "-f", "dash", str(tmp_path / "copy.mpd")
    )
    [named] = re.findall(r'codecs="([^"]+)"', (tmp_path / "copy.mpd").read_text())
    # Of AV1 ffmpeg adds what is the default: 4:2:0 in BT.709.
    assert codecs.lower() == named.removesuffix(".0.110.01.01.01.0").lower()


@pytest.mark.parametrize(("pixels", "profile"), [("yuv420p", "1.6"), ("yuv420p10le", "2.4")])
def test_playlists_name_hevc_by_its_profile_and_level(
    ffmpeg: FFmpeg,
    clip: MakeClip,
    encode: MakeEncode,
    small: Profile,
    pixels: str,
    profile: str,
    tmp_path: Path,
) -> None:
    """The level is that of the headers as ffmpeg reads them; ffmpeg's muxers do not name HEVC."""
    codecs = codecs_of(
        encode(clip("plain.mp4", seconds=2), of_codec(small, "hevc", pixels), poster=False), tmp_path
    )
    command = [
        ffmpeg.path,
        "-i",
        str(tmp_path / "whole.mp4"),
        "-c",
        "copy",
        "-bsf:v",
        "trace_headers",
        "-f",
        "null",
        "-",
    ]
    headers = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stderr
    [level] = set(re.findall(r"general_level_idc +[01]+ = (\d+)", headers))
    assert codecs == f"hvc1.{profile}.L{level}.90"


def codecs_of(encode: LadderEncode, tmp_path: Path) -> str:
    """The codec of the largest quality; all of it is left as `whole.mp4`."""
    state = max(video_of(done(encode)), key=lambda each: each.weight)
    (tmp_path / "whole.mp4").write_bytes(streams(encode)[state.name])
    assert state.check is not None
    return state.check.codecs


@pytest.mark.more
@pytest.mark.parametrize(
    "codec",
    ["h264", pytest.param("hevc", marks=pytest.mark.more), pytest.param("av1", marks=pytest.mark.more)],
)
def test_no_codec_exceeds_the_bit_rate_of_its_rung(
    ffmpeg: FFmpeg, encode: MakeEncode, small: Profile, codec: str, tmp_path: Path
) -> None:
    """Noise, which at its CRF needs 20 times as much."""
    source = tmp_path / "noise.mp4"
    noise = "color=gray:s=320x180:r=25:d=8,noise=alls=60:allf=t"
    run_ffmpeg(ffmpeg, "-f", "lavfi", "-i", noise, "-c:v", "libx264", "-qp", "12", str(source))
    profile = replace(of_codec(small, codec), rungs=(RungSpec(180, 400),), bufsize_factor=1.0)
    made = done(encode(source, profile, poster=False))
    [state] = video_of(made)
    assert state.check is not None
    assert 200_000 < state.check.avg_bps < 1.2 * 400_000
    assert state.check.peak_bps < 1.5 * 400_000


def test_one_ladder_of_several_codecs(clip: MakeClip, encode: MakeEncode, small: Profile) -> None:
    rungs = (
        RungSpec(144, 300),
        RungSpec(144, 200),
        RungSpec(144, 200, codec="hevc", preset="superfast"),
        RungSpec(90, 90, codec="av1", preset="ultrafast", crf=50),
        RungSpec(720, 900, codec="hevc"),
    )
    profile = override(replace(small, rungs=rungs), {"crf": "30"})
    ladder = build_ladder(sized(320, 180), profile)
    assert [(rung.name, rung.codec, rung.crf, rung.skipped) for rung in ladder] == [
        ("720p-hevc", "hevc", 22, True),
        ("144p", "h264", 30, False),
        ("144p-200k", "h264", 30, False),
        ("144p-hevc", "hevc", 22, False),
        ("90p-av1", "av1", 50, False),
    ]
    made = done(encode(clip("plain.mp4", seconds=2), profile, poster=False))
    found = {state.name: (state.encoder, state.check.codecs[:5]) for state in video_of(made) if state.check}
    assert found == {
        "144p": ("libx264", "avc1."),
        "144p-200k": ("libx264", "avc1."),
        "144p-hevc": ("libx265", "hvc1."),
        "90p-av1": ("libsvtav1", "av01."),
    }
    assert len({state.check.frames for state in video_of(made) if state.check}) == 1


def test_a_source_below_every_rung_gets_one_of_the_profiles_own_codec(small: Profile) -> None:
    profile = replace(small, rungs=(RungSpec(720, 900), RungSpec(360, 400, codec="hevc")))
    [own] = [rung for rung in build_ladder(sized(160, 90), profile) if not rung.skipped]
    assert (own.name, own.codec) == ("90p", "h264")
