"""Which quality is published before the others, and what does not depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung, build_ladder, first_quality
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import TqError

from .test_grid import facts

WEB = profiles.load("web")
FILM = replace(facts(Fraction(25)), duration_s=600.0)


def film(duration_s: float = 600.0, **video: Any) -> SourceFacts:
    return replace(FILM, duration_s=duration_s, video=replace(FILM.video, duration_s=duration_s, **video))


def chosen(source: SourceFacts, profile: Profile = WEB, *, on_gpu: bool = False) -> str | None:
    return first_quality(build_ladder(source, profile), source, profile, on_gpu=on_gpu)


def _with_copy() -> list[Rung]:
    return [replace(rung, copied=rung.name == "1080p") for rung in build_ladder(film(), WEB)]


@pytest.mark.parametrize(
    ("source", "keys", "first"),
    [
        (film(), {}, "480p"),
        (film(119.9), {}, None),
        (film(120), {}, "480p"),
        (film(), {"first": "off"}, None),
        (film(8), {"first": "360p"}, "360p"),
        (film(), {"first": "2160p"}, None),
        (film(width=640, height=360), {}, None),
        (film(width=854, height=480), {}, "480p"),
        (film(width=1080, height=1920), {}, "480p"),
        (film(interlaced=True), {}, None),
        (film(color_transfer=16, color_primaries=9, color_space=9), {}, None),
        (film(interlaced=True), {"first": "480p"}, "480p"),
    ],
    ids=[
        "the-largest-to-480p",
        "short",
        "two-minutes",
        "off",
        "named",
        "named-above-the-source",
        "one-quality",
        "two-qualities",
        "portrait",
        "fields",
        "hdr",
        "named-in-spite-of-fields",
    ],
)
def test_the_quality(source: SourceFacts, keys: Mapping[str, str], first: str | None) -> None:
    assert chosen(source, replace(WEB, **keys)) == first


def test_the_smallest_where_all_are_large() -> None:
    large = replace(WEB, rungs=tuple(rung for rung in WEB.rungs if rung.short_side in (1080, 720)))
    assert chosen(film(), large) == "720p"


def test_a_gpu_encodes_all_at_once_but_copies_first() -> None:
    assert chosen(film(), on_gpu=True) is None
    assert chosen(film(), replace(WEB, first="480p"), on_gpu=True) == "480p"
    assert first_quality(_with_copy(), film(), WEB, on_gpu=True) == "1080p"


def test_the_copy_unless_damage_is_refused() -> None:
    """Whether the pictures are damaged shows when the other qualities are encoded."""
    assert first_quality(_with_copy(), film(), WEB) == "1080p"
    assert first_quality(_with_copy(), film(), replace(WEB, on_damage="refuse")) == "480p"


def test_the_codec_that_most_players_know() -> None:
    apple = profiles.load("apple")
    name = chosen(film(), apple)
    assert name is not None
    assert "hevc" not in name


def test_no_ladder_changes_with_it() -> None:
    keys = [expected_hashes("content", replace(WEB, first=first), FILM) for first in ("auto", "off", "480p")]
    assert keys[0] == keys[1] == keys[2]


def test_profiles_of_earlier_versions_are_read_and_written() -> None:
    recorded = WEB.to_json()
    assert "first" not in recorded, "they refuse keys that they do not know"
    assert Profile.from_json(recorded) == WEB
    off = replace(WEB, first="off")
    assert Profile.from_json(off.to_json()) == off


@pytest.mark.parametrize("value", ["480", "1", "true", '"best"', '["480p"]', '"999p"'])
def test_another_value_is_refused_with_what_is_allowed(value: str) -> None:
    with pytest.raises(TqError) as refused:
        profiles.override(WEB, {"first": value})
    assert refused.value.code == "BAD_CONFIG"
    assert "480p" in refused.value.hint
