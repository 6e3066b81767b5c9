"""The keys: what makes a rendition another one, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.media.plan import keys, profiles
from tqstudio.engine.media.plan.audio import AudioRendition
from tqstudio.engine.media.plan.keys import settings_hash, stream_key
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts

from .test_grid import facts

WEB = profiles.load("web")
PUBLISHED_BEFORE = Path(__file__).with_name("published_before.json")
FACTS = facts(Fraction(25))
RUNG = build_ladder(FACTS, WEB)[2]
KEY = settings_hash("content", WEB, RUNG, FACTS)


def test_keys_are_short_hex_and_stable() -> None:
    assert len(KEY) == 32
    assert int(KEY, 16)
    assert settings_hash("content", WEB, RUNG, FACTS) == KEY


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "other"},
        {"description": "other"},
        {"poster_position": 0.5},
        {"poster_height": 99},
        {"encoder": "cpu"},
        {"on_damage": "accept"},
        {"audio_bitrate_kbps": 64},
        {"rungs": WEB.rungs[:4]},
    ],
)
def test_what_does_not_change_a_rendition_does_not_change_its_key(changed: dict[str, object]) -> None:
    assert settings_hash("content", replace(WEB, **changed), RUNG, FACTS) == KEY


@pytest.mark.parametrize(
    "changed",
    [
        {"crf": 23},
        {"preset": "fast"},
        {"codec": "hevc"},
        {"bufsize_factor": 1.0},
        {"gop_s": 3},
        {"segment_s": 4},
    ],
)
def test_what_changes_a_rendition_changes_its_key(changed: dict[str, object]) -> None:
    profile = replace(WEB, **changed)
    assert settings_hash("content", profile, build_ladder(FACTS, profile)[2], FACTS) != KEY


def test_one_changed_rung_dirties_one_rendition() -> None:
    assert settings_hash("content", WEB, replace(RUNG, maxrate_kbps=5000), FACTS) != KEY
    assert settings_hash("content", WEB, replace(RUNG, required=False), FACTS) == KEY
    assert settings_hash("content", WEB, replace(RUNG, crf=30), FACTS) != KEY
    assert settings_hash("content", WEB, replace(RUNG, codec="av1"), FACTS) != KEY
    assert settings_hash("other", WEB, RUNG, FACTS) != KEY


def test_the_stream_key_knows_encoder_scaler_build_and_time() -> None:
    keys = {
        stream_key(KEY, "libx264", "one", 1),
        stream_key(KEY, "h264_nvenc", "one", 1),
        stream_key(KEY, "libx264", "two", 1),
        stream_key(KEY, "libx264", "one", 2),
        stream_key(KEY, "libx264", "one", 1, "cuda"),
        stream_key(KEY, "libx264", "one", 1, "vaapi"),
    }
    assert len(keys) == 6


def test_audio_has_a_key_of_its_own() -> None:
    rendition = AudioRendition("audio-en", AudioTrack(1, "aac", 2, 48000, "en", "", True, ""), 2)
    key = settings_hash("content", WEB, rendition, FACTS)
    assert settings_hash("content", replace(WEB, crf=30), rendition, FACTS) == key
    assert settings_hash("content", WEB, replace(rendition, bitrate_kbps=64), FACTS) != key


def test_sound_is_made_again_when_its_recipe_changes_and_pictures_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendition = AudioRendition("audio-en", AudioTrack(1, "aac", 2, 48000, "en", "", True, ""), 2)
    before = settings_hash("content", WEB, rendition, FACTS)
    monkeypatch.setitem(keys.RECIPES, "audio", keys.RECIPES["audio"] + 1)
    assert settings_hash("content", WEB, rendition, FACTS) != before
    assert settings_hash("content", WEB, RUNG, FACTS) == KEY


def test_a_loudness_changes_the_key_of_audio_only_where_there_is_one() -> None:
    rendition = AudioRendition("audio-en", AudioTrack(1, "aac", 2, 48000, "en", "", True, ""), 2)
    profiles_of = [WEB, *(profiles.override(WEB, {"loudness": text}) for text in ("keep", "-16", "-23"))]
    plain, kept, loud, quiet = (settings_hash("content", each, rendition, FACTS) for each in profiles_of)
    assert plain == kept == "107480c09d962e90b20ba5011194f7b7", "published ladders stay up to date"
    assert len({plain, loud, quiet}) == 3
    assert settings_hash("content", profiles_of[-1], RUNG, FACTS) == KEY


def test_ladders_of_the_version_before_are_still_current() -> None:
    """A hundred ladders, with facts and keys as stored before bit rates were limited by the source's."""
    stored = json.loads(PUBLISHED_BEFORE.read_text())
    assert len(stored["ladders"]) == 100
    for source, profile, hashes in stored["ladders"]:
        facts = SourceFacts.from_json(stored["sources"][source])
        assert keys.expected_hashes("content", profiles.load(profile), facts) == hashes, (source, profile)
