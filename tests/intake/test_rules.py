"""Names and patterns."""

from __future__ import annotations

import pytest

from tqstudio.engine.intake.rules import Choice, Rules

TAKE, IGNORE, SKIP = Choice.TAKE, Choice.IGNORE, Choice.SKIP


@pytest.mark.parametrize(
    ("relative", "choice"),
    [
        (b"a.mp4", TAKE),
        (b"sub/A.MKV", TAKE),
        (b"caf\xe9.webm", TAKE),
        (b"a.mp4.part", IGNORE),
        (b".a.mp4", IGNORE),
        (b"a.mp4~", IGNORE),
        (b"a.srt", IGNORE),
        (b"cover.JPG", IGNORE),
        (b"a.iso", SKIP),
        (b"README", SKIP),
    ],
)
def test_without_patterns_the_extension_decides(relative: bytes, choice: Choice) -> None:
    assert Rules(()).choose(relative) is choice


@pytest.mark.parametrize("name", [b"song.mp3", b"sub/Book.M4B", b"a.flac", b"a.wma", b"a.ogg"])
def test_sound_is_taken_by_rule_or_by_a_pattern_that_names_it(name: bytes) -> None:
    assert Rules(()).choose(name) is Choice.SKIP_SOUND
    assert Rules(("**",)).choose(name) is Choice.SKIP_SOUND
    assert Rules((), sound=True).choose(name) is TAKE
    assert Rules((), (b"*" + name[-4:]).decode().split(), sound=True).choose(name) is IGNORE
    assert Rules(("*." + name.decode().rpartition(".")[2],)).choose(name) is TAKE


def test_a_gif_is_taken_by_a_pattern_that_names_it() -> None:
    assert Rules(()).choose(b"sub/A.GIF") is Rules(("**",)).choose(b"a.gif") is Choice.SKIP_GIF
    assert Rules(("*.gif",)).choose(b"sub/A.GIF") is TAKE
    assert Rules(("*.mp4",)).choose(b"a.gif") is Rules(("*.gif",)).choose(b"a.gif.part") is IGNORE


@pytest.mark.parametrize(
    ("pattern", "relative", "choice"),
    [
        # A pattern without a slash is about the name, at any depth.
        ("*.mkv", b"a.mkv", TAKE),
        ("*.mkv", b"deep/er/a.MKV", TAKE),
        ("*.mkv", b"a.mp4", IGNORE),
        ("/*.mkv", b"deep/a.mkv", IGNORE),
        ("/*.mkv", b"a.mkv", TAKE),
        # With one it starts at the folder.
        ("cam1/*.mp4", b"cam1/a.mp4", TAKE),
        ("cam1/*.mp4", b"cam1/b/a.mp4", IGNORE),
        ("cam1/*.mp4", b"x/cam1/a.mp4", IGNORE),
        ("cam1/**", b"cam1/b/c/a.mp4", TAKE),
        ("cam1/", b"cam1/b/a.mp4", TAKE),
        ("cam1/**", b"cam1", IGNORE),
        ("cam1/**", b"cam10/a.mp4", IGNORE),
        ("**/raw/**/*.mov", b"raw/a.mov", TAKE),
        ("**/raw/**/*.mov", b"x/raw/y/z/a.mov", TAKE),
        ("cam?/[a-c]*.mp4", b"cam2/clip.mp4", TAKE),
        ("cam?/[!a-c]*.mp4", b"cam2/clip.mp4", IGNORE),
        ("caf?.mp4", b"caf\xe9.mp4", TAKE),
        ("caf\u00e9.mp4", "caf\u00e9.mp4".encode(), TAKE),
        # A pattern that says where does not make a subtitle a video; one that says what does take it.
        ("cam1/**", b"cam1/a.srt", IGNORE),
        ("cam1/**", b"cam1/a.iso", SKIP),
        ("*.iso", b"cam1/a.iso", TAKE),
        ("*", b"a.iso", SKIP),
        # Nothing takes what is still being written.
        ("*.part", b"a.part", IGNORE),
        ("**", b"sub/.a.mp4", IGNORE),
    ],
)
def test_patterns(pattern: str, relative: bytes, choice: Choice) -> None:
    assert Rules((pattern,)).choose(relative) is choice


def test_any_of_several_patterns_is_enough_and_blank_ones_are_none() -> None:
    rules = Rules(("*.mov", "b/**"))
    assert rules.choose(b"a.mov") is rules.choose(b"b/a.mp4") is TAKE
    assert Rules(("", "/")).choose(b"a.mp4") is TAKE


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    assert Rules(("**/a/" * 30 + "b.mp4",)).choose(b"a/" * 60 + b"c.mp4") is IGNORE
