"""A ladder of several codecs: encoded, published, verified, changed."""

from __future__ import annotations

from pathlib import Path

import m3u8
import pytest

from .conftest import MakeClip, MakeStudio
from .test_warnings import PICTURE, X264, make, processed

_MIXED = """extends = "fast"
[video]
preset = "ultrafast"
segment_s = 2
gop_s = 1
rungs = [
    { short_side = 144, maxrate_kbps = 300 },
    { short_side = 144, maxrate_kbps = 200, codec = "hevc", preset = "ultrafast" },
    { short_side = 90, maxrate_kbps = 90, codec = "av1", preset = "ultrafast" },
]
"""


@pytest.mark.slow
def test_a_ladder_of_three_codecs_plays_and_is_verified(make_studio: MakeStudio, clip: MakeClip) -> None:
    studio = make_studio()
    studio.write_profile("mixed", _MIXED)
    studio.up()
    source = clip()
    planned = studio("plan", source, "--profile", "mixed", "--json").json()
    assert studio("job", "list", "--json").json()["jobs"] == []
    video = processed(studio, source, "--profile", "mixed")
    assert (video["warnings"], [each["name"] for each in video["renditions"]]) == (
        [],
        ["144p", "144p-hevc", "90p-av1"],
    )
    codecs = {
        each.uri.split("/")[1]: each.stream_info.codecs.split(".")[0]
        for each in m3u8.load(video["master"]).playlists
    }
    assert codecs == {"144p": "avc1", "144p-hevc": "hvc1", "90p-av1": "av01"}
    [job] = studio("job", "list", "--json").json()["jobs"]
    published = studio("job", "show", str(job["id"]), "--json").json()["video_view"]["generation"][
        "renditions"
    ]
    assert {each["name"]: (each["kind"], each["shape"]) for each in planned["renditions"]} == {
        each["name"]: (
            each["kind"],
            f"{each['width']}×{each['height']}" if each["width"] else f"{each['channels']} channels",
        )
        for each in published
    }
    verified = studio("verify", "--full", studio.root / "out")
    assert verified.code == 0, verified.out

    # Another CRF for HEVC alone: the others are kept.
    studio.write_profile("mixed", _MIXED.replace('"hevc"', '"hevc", crf = 40'))
    processed(studio, source, "--profile", "mixed")
    newest = max(job["id"] for job in studio("job", "list", "--json").json()["jobs"])
    shown = studio("job", "show", str(newest), "--json").json()
    assert {each["name"]: each["reason"] for each in shown["renditions"]} == {
        "144p": "kept",
        "144p-hevc": None,
        "90p-av1": "kept",
    }


@pytest.mark.more
def test_hdr_is_kept_beside_sdr(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path) -> None:
    hlg = "setparams=color_primaries=bt2020:colorspace=bt2020nc:color_trc=arib-std-b67:range=tv"
    coded = ("-c:v", "libx265", "-x265-params", "log-level=error")
    source = make(ffmpeg, tmp_path / "phone.mkv", *PICTURE, "-vf", f"format=yuv420p10le,{hlg}", *coded)
    studio = make_studio()
    bright = '{ short_side = 144, maxrate_kbps = 400, codec = "hevc", preset = "ultrafast", hdr = true },\n]'
    studio.write_profile("bright", _MIXED.replace("\n]\n", f"\n{bright}\n"))
    studio.up()
    video = processed(studio, source, "--profile", "bright")
    assert video["warnings"] == []
    ranges = {
        each.uri.split("/")[1]: each.stream_info.video_range for each in m3u8.load(video["master"]).playlists
    }
    assert ranges == {"144p": "SDR", "144p-hevc": "SDR", "144p-hevc-hdr": "HLG", "90p-av1": "SDR"}
    verified = studio("verify", "--full", studio.root / "out")
    assert verified.code == 0, verified.out
    sdr = processed(studio, make(ffmpeg, tmp_path / "plain.mp4", *PICTURE, *X264), "--profile", "bright")
    assert [(each["name"], each["status"]) for each in sdr["renditions"]] == [
        ("144p", "completed"),
        ("144p-hevc", "completed"),
        ("144p-hevc-hdr", "skipped"),
        ("90p-av1", "completed"),
    ]
