"""Profiles: the shipped numbers, inheritance, and messages that name file, key and what is allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio import toml_files
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profile_catalogue import as_toml, catalogue, template
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.profiles import names as rung_names
from tqstudio.errors import ErrorCode, TqError


def test_web() -> None:
    web = profiles.load("web")
    assert [(rung.short_side, rung.maxrate_kbps) for rung in web.rungs] == [
        (2160, 16000),
        (1440, 9000),
        (1080, 6000),
        (720, 3500),
        (480, 1600),
        (360, 800),
    ]
    assert (web.codec, web.video_profile, web.preset, web.crf) == ("h264", "high", "medium", 22)
    assert (web.segment_s, web.gop_s, web.bufsize_factor) == (6, 2, 2.0)
    assert (web.audio_codec, web.audio_bitrate_kbps) == ("aac", 128)
    assert (web.audio_channels, web.audio_sample_rate) == (2, 48000)
    assert web.prefer_gpu


def test_fast() -> None:
    fast = profiles.load("fast")
    assert [(rung.short_side, rung.maxrate_kbps) for rung in fast.rungs] == [
        (720, 3500),
        (480, 1600),
        (360, 800),
    ]
    assert (fast.preset, fast.crf) == ("veryfast", 23)


def test_json_round_trip() -> None:
    web = profiles.load("web")
    assert Profile.from_json(web.to_json()) == web


def test_a_user_profile_extends_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "fast"\nencoder = "cpu"\n[video]\ncrf = 30\n')
    mine = profiles.load("mine", tmp_path)
    assert (mine.name, mine.crf, mine.preset) == ("mine", 30, "veryfast")
    assert not mine.prefer_gpu
    assert set(profiles.available(tmp_path)) == {"web", "fast", "archive", "apple", "mine"}


def test_a_user_profile_may_extend_the_shipped_one_it_hides(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text('extends = "web"\n[video]\ncrf = 18\n')
    assert profiles.load("web", tmp_path).crf == 18
    assert profiles.load("fast", tmp_path).crf == 23


def test_an_unknown_name_lists_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(TqError) as caught:
        profiles.load("nope", tmp_path)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert "fast, web" in caught.value.hint


def test_a_broken_profile_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "web"')
    (tmp_path / "broken.toml").write_text("[video")
    (tmp_path / "lost.toml").write_text('extends = "broken"')
    (tmp_path / "stray.toml").write_text('extends = "nowhere"')
    with pytest.raises(TqError) as caught:
        profiles.load("nope", tmp_path)
    assert caught.value.hint == "choose one of: apple, archive, fast, mine, web"


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("[video]\ncrf = 99", "video.crf", "1 to 63"),
        ("[video]\ncrf = true", "video.crf", "1 to 63"),
        ('[video]\ncrf = "22"', "video.crf", "1 to 63"),
        ('[video]\npreset = "p5"', "video.preset", '"medium"'),
        ('[video]\ncodec = "vp9"', "video.codec", '"h264"'),
        ("[video]\ncrf = 60", "video.crf", "1 to 51"),
        ('[video]\npixel_format = "yuv420p10le"', "video.pixel_format", '"yuv420p"'),
        ("[video]\nrungs = [{ short_side = 720, maxrate_kbps = 900, codec = 1 }]", "video.rungs", '"av1"'),
        (
            "[video]\nrungs = [" + 2 * "{ short_side = 720, maxrate_kbps = 900 }," + "]",
            "video.rungs",
            "one of them",
        ),
        ("[video]\ncfr = 22", "video.cfr", "video.crf"),
        ("rungs = []", "rungs", "video.rungs"),
        ("[video]\nrungs = []", "video.rungs", "short_side"),
        ("[video]\nrungs = [{ short_side = 721, maxrate_kbps = 9 }]", "video.rungs", "even"),
        ("[video]\nrungs = [1]", "video.rungs", "short_side"),
        ("[video]\nsegment_s = 5", "video.segment_s", "multiple of gop_s"),
        ("video = 3", "video", "video.crf"),
        ('encoder = "gpu"', "encoder", '"cpu"'),
        ("[poster]\nposition = 2", "poster.position", "0 to 1"),
        ("[audio]\nsample_rate = 50000", "audio.sample_rate", "44100, 48000"),
        *(
            (f"[audio]\nloudness = {value}", "audio.loudness", '"keep", or LUFS: a number from -31 to -9')
            for value in ("-32", "-8.9", "16", "nan", "true", '"-16"', '"quiet"', "[]")
        ),
    ],
)
def test_every_mistake_names_file_key_and_what_is_allowed(
    tmp_path: Path, text: str, key: str, allowed: str
) -> None:
    (tmp_path / "mine.toml").write_text(f'extends = "web"\n{text}\n')
    with pytest.raises(TqError) as caught:
        profiles.load("mine", tmp_path)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert str(tmp_path / "mine.toml") in caught.value.message
    assert f": {key}: " in caught.value.message
    assert allowed in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "wrong", "instead"),
    [
        ({"video.gop_s": "10"}, "video.segment_s: 6 ", "video.segment_s = 10"),
        ({"gop_s": "4"}, "video.segment_s: 6 ", "video.segment_s = 4"),
        ({"segment_s": "5"}, "video.segment_s: 5 ", "video.segment_s = 4"),
        ({"segment_s": "25", "gop_s": "20"}, "video.segment_s: 25 ", "video.segment_s = 20"),
    ],
)
def test_changes_that_do_not_go_with_the_rest_are_refused(
    changes: dict[str, str], wrong: str, instead: str
) -> None:
    with pytest.raises(TqError) as caught:
        profiles.override(profiles.load("fast"), changes)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert "profile fast with " in caught.value.message
    assert wrong in caught.value.message
    assert "multiple of gop_s" in caught.value.hint
    assert instead in caught.value.hint


@pytest.mark.parametrize("text", ["-40", "loud", "true", "nan", ""])
def test_a_loudness_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TqError) as caught:
        profiles.override(profiles.load("web"), {"audio.loudness": text})
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert "audio.loudness" in caught.value.message
    assert caught.value.hint == 'allowed: "keep", or LUFS: a number from -31 to -9'


@pytest.mark.parametrize(
    ("text", "lufs"), [("keep", None), ('"keep"', None), ("-16", -16.0), ("-23.5", -23.5)]
)
def test_a_loudness_survives_its_file(tmp_path: Path, text: str, lufs: float | None) -> None:
    profile = profiles.override(profiles.load("web"), {"loudness": text})
    assert profile.target_lufs == lufs
    assert Profile.from_json(profile.to_json()) == profile
    (tmp_path / "web.toml").write_text(as_toml(profile))
    assert profiles.load("web", tmp_path) == profile


def test_changes_that_go_together_are_taken() -> None:
    other = profiles.override(profiles.load("fast"), {"video.gop_s": "5", "segment_s": "10", "crf": "30"})
    assert (other.gop_s, other.segment_s, other.crf) == (5, 10, 30)


def test_an_incomplete_profile_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('description = "bare"\n')
    with pytest.raises(TqError, match=r"encoder: missing"):
        profiles.load("mine", tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [(b"[video\n", "TOML"), (b"\xff\xfe", "UTF-8"), (b'extends = "mine"\n', "extends itself")],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: bytes, says: str) -> None:
    (tmp_path / "mine.toml").write_bytes(text)
    with pytest.raises(TqError) as caught:
        profiles.load("mine", tmp_path)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert says in caught.value.message + caught.value.hint


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _written(text: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(text)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_fifo, "not a regular file"),
        (_link_to_zeros, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (_written("# " + "x" * toml_files.MAX_BYTES), "more than 64000"),
        (_written("a = " + "[\n" * 10_000), "nested too deep"),
        (_written("a = " + "[" * 10_000), "more than 1000 characters"),
        (_written("[video]\ncrf = " + "9" * 900), "video.crf: 999"),
        (_written("[video]\ncrf." + ".".join("a" * 400) + " = 1"), 'video.crf: {"a": {'),
        (_written('[video]\n"\\u001b[31m" = 1'), "video.\\x1b[31m: no such key"),
        (_written('description = "' + "x" * 501 + '"'), 'description: "xxx'),
    ],
)
def test_whatever_lies_in_the_folder_is_one_broken_profile(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    """And neither waited for nor read without end."""
    make(tmp_path / "mine.toml")
    (tmp_path / "good.toml").write_text('extends = "web"')
    with pytest.raises(TqError) as caught:
        profiles.load("mine", tmp_path)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    assert says in caught.value.message
    assert len(caught.value.message) < 500
    assert caught.value.message.isprintable()
    listed = {view["name"]: view["error"] for view in catalogue(tmp_path, "web")}
    assert [name for name, error in listed.items() if error] == ["mine"]


@pytest.mark.parametrize("value", ["9" * 5_000, "[\n" * 10_000, "0x" + "f" * 5_000])
def test_a_change_that_python_cannot_read_is_refused(value: str) -> None:
    with pytest.raises(TqError) as caught:
        profiles.override(profiles.load("web"), {"crf": value})
    assert caught.value.code == ErrorCode.BAD_CONFIG


def test_another_codec_brings_its_own_preset_and_crf(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "fast"\n[video]\ncodec = "av1"\n')
    (tmp_path / "finer.toml").write_text('extends = "mine"\n[video]\ncrf = 20\n')
    mine, finer = profiles.load("mine", tmp_path), profiles.load("finer", tmp_path)
    assert (mine.codec, mine.preset, mine.crf) == ("av1", "medium", 28)
    assert (finer.codec, finer.preset, finer.crf) == ("av1", "medium", 20)
    once = profiles.override(profiles.load("fast"), {"video.codec": "hevc", "preset": "slow"})
    assert (once.codec, once.preset, once.crf) == ("hevc", "slow", 22)


def test_qualities_of_the_same_size_have_names_of_their_own() -> None:
    names = list(rung_names(profiles.load("apple")).values())
    assert len(set(names)) == len(names) == 21
    assert names[:4] == ["2160p-hevc", "2160p-hevc-11600k", "1440p-hevc", "1080p"]
    assert {"1080p-6000k", "1080p-hevc-4500k", "234p"} < set(names)


@pytest.mark.parametrize("name", ["apple", "archive", "fast", "web"])
def test_a_profile_that_was_written_is_the_same(tmp_path: Path, name: str) -> None:
    profile = profiles.override(profiles.load(name), {"description": r'"é \" \u007f \U0001F600 # \n"'})
    (tmp_path / f"{name}.toml").write_text(as_toml(profile))
    assert profiles.load(name, tmp_path) == profile


@pytest.mark.parametrize("name", ["apple", "web"])
def test_a_new_file_changes_nothing_until_a_line_is_made_valid(tmp_path: Path, name: str) -> None:
    profile = profiles.load(name)
    written = template(profile)
    head, _, settings = written.partition(f'extends = "{name}"\n')
    assert head
    for file, text in (("same", written), ("all", re.sub(r"^# ", "", settings, flags=re.MULTILINE))):
        (tmp_path / f"{file}.toml").write_text(text)
        assert replace(profiles.load(file, tmp_path), name=name) == profile
