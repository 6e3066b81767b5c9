"""The ladder: which rungs a source of any size gets."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profiles import RungSpec
from tqstudio.engine.media.plan.rungs import ABOVE_SOURCE, NOT_REQUESTED, SAME_SIZE, Rung, build_ladder
from tqstudio.engine.media.source.facts import SourceFacts

from .test_grid import facts

WEB = profiles.load("web")
FACTS = facts(Fraction(25))
ALL = ("2160p", "1440p", "1080p", "720p", "480p", "360p")

# Smallest source height that gets a rung, and the rungs from there on: 95 % of a rung stand for it.
TABLE = [
    (2052, ALL),
    (1368, ALL[1:]),
    (1026, ALL[2:]),
    (684, ALL[3:]),
    (456, ALL[4:]),
    (342, ALL[5:]),
]


def sized(width: int, height: int) -> SourceFacts:
    return replace(FACTS, video=replace(FACTS.video, width=width, height=height))


def made(ladder: tuple[Rung, ...]) -> list[Rung]:
    return [rung for rung in ladder if not rung.skipped]


def expected_names(short_side: int) -> tuple[str, ...]:
    return next(
        (names for least, names in TABLE if short_side >= least), (f"{short_side - short_side % 2}p",)
    )


@pytest.mark.parametrize(
    "portrait", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["landscape", "portrait"]
)
def test_every_height_from_144_to_4320(portrait: bool) -> None:
    for height in range(144, 4321):
        width = height * 16 // 9
        size = (height, width) if portrait else (width, height)
        ladder = build_ladder(sized(*size), WEB)
        assert tuple(rung.name for rung in made(ladder)) == expected_names(height), height
        for rung in made(ladder):
            assert (rung.width < rung.height) == portrait, height
            assert rung.width % 2 == rung.height % 2 == 0, height
        above = [rung for rung in ladder if rung.skipped]
        assert all(rung.skipped_reason == ABOVE_SOURCE for rung in above)
        assert {rung.name for rung in ladder} >= set(ALL)


@pytest.mark.parametrize(
    ("size", "largest"),
    [
        ((3840, 2160), ("2160p", 3840, 2160)),
        ((1920, 1080), ("1080p", 1920, 1080)),
        ((1080, 1920), ("1080p", 1080, 1920)),
        ((1918, 1078), ("1080p", 1918, 1078)),
        ((1920, 1088), ("1080p", 1920, 1088)),
        ((1920, 1040), ("1080p", 1920, 1040)),
        ((1920, 800), ("1080p", 1920, 800)),
        ((800, 1920), ("1080p", 800, 1920)),
        ((3840, 1600), ("2160p", 3840, 1600)),
        ((2048, 858), ("1080p", 2048, 858)),
        ((2560, 700), ("720p", 2560, 700)),
        ((854, 480), ("480p", 854, 480)),
        ((853, 479), ("480p", 852, 478)),
        ((720, 486), ("480p", 712, 480)),
        ((640, 360), ("360p", 640, 360)),
        ((256, 144), ("144p", 256, 144)),
        ((145, 257), ("144p", 144, 256)),
        ((7680, 4320), ("2160p", 3840, 2160)),
    ],
)
def test_what_a_user_expects_of_known_sizes(size: tuple[int, int], largest: tuple[str, int, int]) -> None:
    rung = made(build_ladder(sized(*size), WEB))[0]
    assert (rung.name, rung.width, rung.height) == largest


def test_a_source_below_the_lowest_rung_gets_less_bitrate_than_it() -> None:
    (rung,) = made(build_ladder(sized(256, 144), WEB))
    assert 64 < rung.maxrate_kbps < 800
    assert rung.required


def test_rungs_not_requested_are_skipped_with_the_reason() -> None:
    ladder = build_ladder(sized(1920, 1080), WEB, frozenset({"720p"}))
    assert [rung.name for rung in made(ladder)] == ["720p"]
    reasons = {rung.name: rung.skipped_reason for rung in ladder}
    assert reasons["1080p"] == NOT_REQUESTED
    assert reasons["2160p"] == ABOVE_SOURCE


def test_an_optional_rung_stays_optional() -> None:
    profile = replace(WEB, rungs=(RungSpec(1080, 6000, required=False), RungSpec(360, 800)))
    assert [rung.required for rung in build_ladder(sized(1920, 1080), profile)] == [False, True]


@given(width=st.integers(2, 8192), height=st.integers(2, 8192))
@example(width=1591, height=8190)  # two rungs at the limit of the level, one rounded up
def test_properties_of_every_ladder(width: int, height: int) -> None:
    rungs = made(build_ladder(sized(width, height), WEB))
    assert rungs
    assert len({rung.name for rung in rungs}) == len(rungs)
    assert [rung.pixels for rung in rungs] == sorted((rung.pixels for rung in rungs), reverse=True)
    for rung in rungs:
        assert rung.width % 2 == rung.height % 2 == 0
        # Never enlarged, not by a pixel.
        assert 2 <= rung.width <= width
        assert 2 <= rung.height <= height
        # The aspect is kept as far as even numbers can.
        assert abs(rung.width * height - rung.height * width) <= 2 * max(width, height)


@given(st.integers(2, 20_000), st.integers(2, 20_000))
def test_no_rung_exceeds_the_levels_that_players_know(width: int, height: int) -> None:
    for rung in made(build_ladder(sized(width, height), WEB)):
        if min(rung.width, rung.height) > 2:
            # H.264, level 5.2.
            blocks = math.ceil(rung.width / 16), math.ceil(rung.height / 16)
            assert math.prod(blocks) * 60 <= 2_073_600
            assert max(blocks) ** 2 <= 8 * 36_864
            assert rung.width / rung.height == pytest.approx(
                width / height, rel=4 / min(rung.width, rung.height)
            )


@pytest.mark.parametrize(
    ("source", "largest"),
    [((4096, 2160), (4096, 2160)), ((5120, 2160), (4560, 1924)), ((2160, 7680), (1570, 5582))],
)
def test_very_wide_pictures_are_scaled_down(source: tuple[int, int], largest: tuple[int, int]) -> None:
    rung = made(build_ladder(sized(*source), WEB))[0]
    assert (rung.name, rung.width, rung.height) == ("2160p", *largest)


@pytest.mark.parametrize(
    ("source", "specs", "left"),
    [
        ((12_000, 1440), WEB.rungs, ["1080p", "720p", "480p", "360p"]),
        ((1920, 1080), (RungSpec(1100, 9000), RungSpec(1080, 6000)), ["1080p"]),
        ((1920, 1080), (RungSpec(1080, 9000), RungSpec(1080, 6000)), ["1080p", "1080p-6000k"]),
    ],
    ids=["very wide", "close", "meant"],
)
def test_of_rungs_that_become_equally_large_the_lowest_is_left(
    source: tuple[int, int], specs: tuple[RungSpec, ...], left: list[str]
) -> None:
    ladder = build_ladder(sized(*source), replace(WEB, rungs=specs))
    assert [rung.name for rung in made(ladder)] == left
    reasons = {rung.skipped_reason for rung in ladder if rung.skipped}
    assert reasons <= {ABOVE_SOURCE, SAME_SIZE}
