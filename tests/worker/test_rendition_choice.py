"""Which renditions are made, kept and skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import SourceFacts, SubtitleTrack
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.worker.job.rendition_choice import RenditionChoice, choose, rows
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.requests import RenditionReport


@pytest.fixture(scope="module")
def facts(clip: Path) -> SourceFacts:
    return probe(bytes(clip))


@pytest.fixture
def keys(facts: SourceFacts, small: Profile) -> dict[str, str]:
    """The hashes that a complete and unchanged generation has."""
    return dict(everything(facts, small))


def everything(facts: SourceFacts, profile: Profile) -> dict[str, str]:
    from tqstudio.engine.media.plan.keys import settings_hash

    whole = choose(facts, profile, "content", None, {})
    return {rung.name: settings_hash("content", profile, rung, facts) for rung in whole.make} | {
        sound.name: settings_hash("content", profile, sound, facts) for sound in whole.audio
    }


def made(choice: RenditionChoice) -> list[str]:
    return [rung.name for rung in choice.make] + [sound.name for sound in choice.audio]


def status_of(choice: RenditionChoice) -> dict[str, tuple[str, str | None]]:
    shown = [RenditionReport(**row) for row in rows(choice, {})]
    return {row.name: (row.status.value, row.reason) for row in shown}


def test_a_new_video_gets_everything(facts: SourceFacts, small: Profile) -> None:
    choice = choose(facts, small, "content", None, {})
    assert made(choice) == ["144p", "90p", "audio-und"]
    assert choice.keep == {}
    assert status_of(choice) == {
        "360p": ("skipped", "above source"),
        "144p": ("pending", None),
        "90p": ("pending", None),
    }


def test_what_is_equal_is_kept(facts: SourceFacts, small: Profile, keys: dict[str, str]) -> None:
    choice = choose(facts, small, "content", None, keys | {"90p": "other settings", "720p": "of old"})
    assert made(choice) == ["90p"]
    assert set(choice.keep) == {"144p", "audio-und"}
    assert status_of(choice)["144p"] == ("completed", "kept")


def test_what_an_earlier_version_published_is_kept(facts: SourceFacts, small: Profile) -> None:
    poor = replace(facts, video=replace(facts.video, measured_bitrate=40_000))
    earlier = everything(replace(facts, video=replace(facts.video, measured_bitrate=0)), small)
    now = everything(poor, small)
    assert now["144p"] != earlier["144p"]
    for kept in (now, earlier, now | {"144p": earlier["144p"]}):
        choice = choose(poor, small, "content", None, kept)
        assert (choice.nothing_to_make, choice.keep) == (True, kept)
    assert made(choose(poor, small, "content", None, earlier | {"144p": "other"})) == ["144p"]


def test_a_complete_generation_leaves_nothing_to_make(
    facts: SourceFacts, small: Profile, keys: dict[str, str]
) -> None:
    assert choose(facts, small, "content", None, keys).nothing_to_make


def test_other_content_makes_everything_again(
    facts: SourceFacts, small: Profile, keys: dict[str, str]
) -> None:
    assert made(choose(facts, small, "other content", None, keys)) == ["144p", "90p", "audio-und"]


def test_requested_qualities_leave_the_others_alone(facts: SourceFacts, small: Profile) -> None:
    kept = {"144p": "older settings", "audio-und": "older settings"}
    choice = choose(facts, small, "content", ["90p"], kept)
    assert made(choice) == ["90p"]
    assert choice.keep == kept
    assert status_of(choice)["144p"] == ("skipped", "not requested")
    sizes = {row["name"]: row["width"] for row in rows(choice, {})}
    assert (sizes["360p"], sizes["144p"]) == (None, 256), "the source can have what was not requested"


def test_requested_again_although_equal(facts: SourceFacts, small: Profile, keys: dict[str, str]) -> None:
    # What is requested is left out of what may be kept.
    del keys["144p"]
    choice = choose(facts, small, "content", ["144p"], keys)
    assert made(choice) == ["144p"]
    assert set(choice.keep) == {"90p", "audio-und"}


def test_requested_qualities_that_the_source_does_not_have(
    facts: SourceFacts, small: Profile, keys: dict[str, str]
) -> None:
    with pytest.raises(TqError) as raised:
        choose(facts, small, "content", ["360p"], keys)
    assert raised.value.code is ErrorCode.BAD_CONFIG
    assert "360p" in raised.value.message
    assert "144p, 90p" in raised.value.hint


def test_what_is_dropped_is_neither_made_nor_kept(
    facts: SourceFacts, small: Profile, keys: dict[str, str]
) -> None:
    whole = choose(facts, small, "content", None, {}, dropped=["144p", "audio-und"])
    assert made(whole) == ["90p"]
    assert status_of(whole)["144p"] == ("skipped", "dropped")
    part = choose(facts, small, "content", ["90p"], keys | {"90p": "other settings"}, dropped=["audio-und"])
    assert (made(part), set(part.keep)) == (["90p"], {"144p"})


@pytest.mark.parametrize(
    ("dropped", "renditions", "storyboard"),
    [
        ([], ["audio-und", "sub-de", "sub-fr"], True),
        (["sub-fr"], ["audio-und", "sub-de"], True),
        (["subtitles"], ["audio-und"], True),
        (["storyboard"], ["audio-und", "sub-de", "sub-fr"], False),
    ],
)
def test_subtitles_and_the_storyboard_are_dropped_by_word(
    facts: SourceFacts, small: Profile, dropped: list[str], renditions: list[str], storyboard: bool
) -> None:
    tracks = tuple(SubtitleTrack(2, "subrip", each, "", False, True, "") for each in ("de", "fr"))
    facts = replace(facts, subtitles=tracks)
    choice = choose(facts, replace(small, storyboard=True), "content", None, {}, dropped=dropped)
    assert [each.name for each in (*choice.audio, *choice.subtitles)] == renditions
    assert choice.storyboard == storyboard
    old = {"sub-de": "older", "sub-fr": "older", "audio-und": "older"}
    part = choose(facts, small, "content", ["90p"], old, dropped=dropped)
    assert sorted(part.keep) == renditions


def test_what_leaves_no_picture_cannot_be_dropped(facts: SourceFacts, small: Profile) -> None:
    with pytest.raises(TqError, match="no quality left") as caught:
        choose(facts, small, "content", None, {}, dropped=["144p", "90p"])
    assert caught.value.code is ErrorCode.BAD_CONFIG
