"""A ladder of several codecs: encoded, published, verified, changed."""

from __future__ import annotations

import m3u8

from .conftest import MakeClip, MakeStudio
from .test_warnings import processed

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
