"""A quality in a profile: which rungs seek it, and what of it is part of which key."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.keys import (
    decided_for,
    expected_hashes,
    largest_rungs,
    settings_hash,
    stream_key,
)
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.rungs import build_ladder, followed, why_not_sought
from tqstudio.engine.media.source.colour import PQ
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import TqError
from tqstudio.protocol.worker_answers import DecidedCrf

from .test_grid import facts

WEB = profiles.load("web")
GOOD = replace(WEB, quality=93.0)
FILM = facts(Fraction(25), seconds=60.0)
MIXED = replace(
    GOOD,
    rungs=(
        RungSpec(1080, 6000),
        RungSpec(1080, 4000, codec="hevc"),
        RungSpec(1080, 4000, codec="hevc", hdr=True),
        RungSpec(720, 3000, crf=25),
    ),
)


def _in_hdr(source: SourceFacts) -> SourceFacts:
    video = replace(source.video, color_primaries=9, color_transfer=PQ, color_space=9, bit_depth=10)
    return replace(source, video=video)


@pytest.mark.parametrize(
    ("given", "found"), [("93", 93.0), ("40.5", 40.5), ("99", 99.0), ("0", 0.0)], ids=str
)
def test_what_may_be_asked_for(given: str, found: float) -> None:
    assert profiles.override(WEB, {"video.quality": given}).quality == found


@pytest.mark.parametrize("given", ["100", "39", "true", "high"])
def test_what_may_not(given: str) -> None:
    with pytest.raises(TqError, match=r"video\.quality cannot be") as refused:
        profiles.override(WEB, {"video.quality": given})
    assert "from 40 to 99" in refused.value.hint


def test_the_later_of_crf_and_quality_counts(tmp_path) -> None:
    (tmp_path / "good.toml").write_text('extends = "web"\n[video]\ncrf = 20\nquality = 93\n')
    (tmp_path / "plain.toml").write_text('extends = "good"\n[video]\ncrf = 24\n')
    good, plain = (profiles.load(name, tmp_path) for name in ("good", "plain"))
    assert (good.quality, good.crf) == (93.0, 20)
    assert (plain.quality, plain.crf) == (0.0, 24)
    assert profiles.override(good, {"crf": "18"}).quality == 0
    assert Profile.from_json(good.to_json()) == good


def test_the_largest_rung_of_each_codec_seeks_and_the_others_follow() -> None:
    hdr = _in_hdr(FILM)
    found = largest_rungs(hdr, MIXED)
    assert {codec: rung.name for codec, rung in found.items()} == {"h264": "1080p", "hevc": "1080p-hevc"}
    sought = {rung.name: rung.quality for rung in build_ladder(hdr, MIXED)}
    assert sought == {"1080p": 93, "1080p-hevc": 93, "1080p-hevc-hdr": 0, "720p": 93}
    reasons = {rung.name: why_not_sought(hdr, MIXED, rung) for rung in build_ladder(hdr, MIXED)}
    assert [name for name, why in reasons.items() if why] == ["1080p-hevc-hdr"]
    small = next(rung for rung in build_ladder(hdr, MIXED) if rung.name == "720p")
    assert [followed(small, shift) for shift in (4, -30, 60)] == [29, 1, 51]


def test_short_videos_stay_as_they_are() -> None:
    short = facts(Fraction(25), seconds=59.9)
    assert not largest_rungs(short, GOOD)
    assert "shorter than 60 s" in why_not_sought(short, GOOD, build_ladder(short, GOOD)[2])
    assert expected_hashes("content", GOOD, short) == expected_hashes("content", WEB, short)


def test_the_target_is_part_of_the_settings_and_the_crf_of_the_stream_alone() -> None:
    plain, good = expected_hashes("content", WEB, FILM), expected_hashes("content", GOOD, FILM)
    better = expected_hashes("content", replace(GOOD, quality=94.0), FILM)
    assert all(len({plain[name], good[name], better[name]}) == 3 for name in plain)

    as_before = stream_key("settings", "libx264", "build", 1)
    assert stream_key("settings", "libx264", "build", 1, found_crf=None) == as_before
    assert len({stream_key("settings", "libx264", "build", 1, found_crf=crf) for crf in (22, 23)}) == 2


def test_a_decision_applies_to_its_content_and_settings() -> None:
    largest = largest_rungs(FILM, MIXED)["h264"]
    decided: DecidedCrf = {
        "settings_hash": settings_hash("content", MIXED, largest, FILM),
        "encoder": "libx264",
        "crf": 27,
        "vmaf": 93.2,
        "remark": "",
    }
    assert decided_for([decided], "content", FILM, MIXED) == {"libx264": (largest, decided)}
    assert not decided_for([decided], "other content", FILM, MIXED)
    assert not decided_for([decided], "content", FILM, replace(MIXED, quality=94.0))
    assert not decided_for([decided], "content", FILM, replace(MIXED, quality=0.0))
    # Another rung below changes nothing about the largest one.
    more = replace(MIXED, rungs=(*MIXED.rungs, RungSpec(360, 700)))
    assert decided_for([decided], "content", FILM, more) == {"libx264": (largest, decided)}
