"""`verify`: whole ladders pass, and every kind of damage is named."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import m3u8
import pytest
from blake3 import blake3

from harness import Program
from media.conftest import split_short_end
from object_storage import object_storage
from tqstudio.engine.media.segments.playlists import iframe_playlist, iframe_rates, media_playlist

from .test_with_supervisor import QUICKER

LADDER = (
    *("--set", "video.segment_s=2", "--set", "video.gop_s=1", "--set", "video.preset=superfast"),
    "--set",
    "video.rungs=[{short_side=180,maxrate_kbps=400},{short_side=120,maxrate_kbps=250}]",
)

CHAPTERS = ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1\nSTART=0\nEND=3\ntitle=one\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with one real ladder: two qualities, sound and chapters, three segments and a short one."""
    root = tmp_path_factory.mktemp("made")
    _encoded(root / "clip.mp4", "7")
    shell = Program(root / "home", **QUICKER)
    done = shell("process", "-i", f"{root}/clip.mp4", "-o", f"{root}/out", *LADDER)
    assert done.code == 0, done.err
    return root / "out"


def _encoded(path: Path, seconds: str) -> Path:
    """A clip with chapters and sound."""
    from tqstudio.engine.media.ffmpeg.binary import locate

    picture = ("-f", "lavfi", "-i", f"testsrc2=size=320x180:rate=30000/1001:duration={seconds}")
    sound = ("-f", "lavfi", "-i", f"sine=r=48000:d={seconds}", "-shortest")
    codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac")
    chapters = path.with_name("chapters")
    chapters.write_text(CHAPTERS)
    inputs = ("-i", f"{chapters}", *picture, *sound, "-map_metadata", "0")
    subprocess.run([locate().path, "-v", "error", "-y", *inputs, *codecs, f"file:{path}"], check=True)
    return path


@pytest.fixture
def ladder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(made / "clip", tmp_path / "out" / "clip")


Verify = Callable[..., tuple[int, Any]]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verify:
    monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path / "home"))
    from tqstudio.cli import main

    def run(path: Path, *flags: str) -> tuple[int, Any]:
        code = main(["verify", str(path), "--json", *flags])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.slow
def test_every_byte_is_as_published(verify: Verify, ladder: Path) -> None:
    code, answer = verify(ladder, "--full")
    assert code == 0, answer
    assert [r["every_byte_compared"] for r in answer["ladders"][0]["renditions"]] == [True] * 3
    (sums,) = ladder.glob("v*/BLAKE3SUMS")
    named = {line.split("  ")[1]: line.split("  ")[0] for line in sums.read_text().splitlines()}
    there = {str(path.relative_to(sums.parent)) for path in sums.parent.rglob("*") if path.is_file()}
    assert set(named) == there - {"BLAKE3SUMS"}
    for name, digest in named.items():
        assert blake3((sums.parent / name).read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_every_range_of_an_iframe_playlist_decodes_to_the_key_frame_at_its_time(ladder: Path) -> None:
    master = m3u8.load(str(ladder / "master.m3u8"))
    assert [entry.uri for entry in master.iframe_playlists] == [
        "v1/180p/iframes.m3u8",
        "v1/120p/iframes.m3u8",
    ]
    for entry in master.iframe_playlists:
        folder = (ladder / entry.uri).parent
        init = (folder / "init.mp4").read_bytes()
        expected = _key_frames(init + b"".join(path.read_bytes() for path in sorted(folder.glob("*.m4s"))))
        playlist = m3u8.load(str(ladder / entry.uri))
        assert playlist.is_i_frames_only
        assert [part.uri for part in playlist.segment_map] == ["init.mp4"]
        found, at = [], expected[0][0]
        for part in playlist.segments:
            size, offset = map(int, part.byterange.split("@"))
            content = (folder / part.uri).read_bytes()[offset : offset + size]
            assert len(content) == size
            (picture,) = _key_frames(init + content)
            found.append(picture)
            assert float(picture[0]) == pytest.approx(float(at), abs=1e-5)
            at += Fraction(part.duration)
        # One a second for seven seconds, at 30000/1001.
        assert len(found) == 7
        assert found == expected
        info = entry.iframe_stream_info
        assert info.resolution == {"180p": (320, 180), "120p": (214, 120)}[folder.name]
        assert (info.codecs, info.video_range) == (_codecs(master, folder.name), "SDR")
        sizes = [int(part.byterange.split("@")[0]) * 8 / part.duration for part in playlist.segments]
        assert 0 < info.average_bandwidth <= info.bandwidth == round(max(sizes))


def _key_frames(content: bytes) -> list[tuple[Fraction, str]]:
    """Time and digest of every key frame that a decoder finds."""
    found = []
    with av.open(io.BytesIO(content)) as container:
        for frame in container.decode(video=0):
            if frame.key_frame:
                rows = [
                    bytes(plane)[y * plane.line_size : y * plane.line_size + plane.width]
                    for plane in frame.planes
                    for y in range(plane.height)
                ]
                found.append((frame.pts * frame.time_base, blake3(b"".join(rows)).hexdigest()))
    return found


def _codecs(master: Any, name: str) -> str:
    (entry,) = [each for each in master.playlists if Path(each.uri).parent.name == name]
    return str(entry.stream_info.codecs.split(",")[0])


@pytest.mark.slow
def test_a_byte_that_changed_within_a_picture(verify: Verify, ladder: Path) -> None:
    (segment,) = ladder.glob("v*/120p/seg_00001.m4s")
    content = bytearray(segment.read_bytes())
    content[-100] ^= 1
    segment.write_bytes(content)
    assert verify(ladder)[0] == 0, "its boxes are well"
    code, answer = verify(ladder, "--full")
    assert code == 1
    (broken,) = [r for r in answer["ladders"][0]["renditions"] if not r["ok"]]
    assert broken["name"] == "120p"
    assert broken["error"]["code"] == "OUTPUT_INVALID"
    assert "120p/seg_00001.m4s" in broken["error"]["message"]


@pytest.mark.parametrize(
    ("name", "content", "found_by"),
    [
        ("chapters.json", None, ()),
        ("chapters.json", "[{}]", ()),
        ("chapters.json", "[" * 100_000, ()),
        ("chapters.json", "[]", ("--full",)),
        ("chapters.vtt", "WEBVTT\n", ("--full",)),
        ("chapters.vtt", None, ("--full",)),
    ],
)
def test_chapters_that_are_missing_or_changed(
    verify: Verify, ladder: Path, name: str, content: str | None, found_by: tuple[str, ...]
) -> None:
    (path,) = ladder.glob(f"v*/{name}")
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert not found_by or verify(ladder)[0] == 0
    code, answer = verify(ladder, *found_by)
    assert (code, answer["ladders"][0]["error"]["code"]) == (1, "OUTPUT_INVALID")


def test_a_ladder_without_digests_is_checked_as_far_as_can_be(verify: Verify, ladder: Path) -> None:
    (sums,) = ladder.glob("v*/BLAKE3SUMS")
    sums.unlink()
    code, answer = verify(ladder, "--full")
    assert code == 0
    assert [r["every_byte_compared"] for r in answer["ladders"][0]["renditions"]] == [False] * 3


@pytest.mark.parametrize("content", ["no digest at all\n", "\x00\xff"])
def test_digests_that_cannot_be_read_are_reported(verify: Verify, ladder: Path, content: str) -> None:
    (sums,) = ladder.glob("v*/BLAKE3SUMS")
    sums.write_bytes(content.encode("latin-1"))
    code, answer = verify(ladder, "--full")
    assert code == 1
    assert {r["error"]["code"] for r in answer["ladders"][0]["renditions"]} == {"OUTPUT_INVALID"}


def test_a_whole_ladder(verify: Verify, ladder: Path, tmp_path: Path) -> None:
    for path in (ladder, ladder / "master.m3u8", ladder.parent):
        code, answer = verify(path)
        assert code == 0, answer
        assert answer["ok"] is True
        (found,) = answer["ladders"]
        assert found["master"] == str(ladder / "master.m3u8")
        assert [(r["name"], r["kind"], r["ok"]) for r in found["renditions"]] == [
            ("180p", "video", True),
            ("120p", "video", True),
            ("audio-und", "audio", True),
        ]
        assert [r["segments"] for r in found["renditions"][:2]] == [4, 4]
        assert found["renditions"][0]["frames"] == found["renditions"][1]["frames"] > 200
        assert (found["renditions"][1]["width"], found["renditions"][1]["height"]) == (214, 120)
    assert not (tmp_path / "home").exists(), "nothing is started for it"


def _in(ladder: Path, name: str) -> Path:
    return ladder / "v1" / name


def _change(path: Path, pattern: str, new: str) -> None:
    text, changes = re.subn(pattern, new, path.read_text(), count=1)
    assert changes == 1
    path.write_text(text)


def _drop_last(folder: Path) -> None:
    (folder / "seg_00003.m4s").unlink()
    _change(folder / "index.m3u8", r"#EXTINF:[0-9.]+,\nseg_00003.m4s\n", "")
    if (iframes := folder / "iframes.m3u8").exists():
        _change(iframes, r"#EXTINF:[0-9.]+,\n#EXT-X-BYTERANGE:[0-9@]+\nseg_00003.m4s\n", "")


DAMAGES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "missing segment": (
        lambda at: _in(at, "120p/seg_00001.m4s").unlink(),
        "120p",
        "seg_00001.m4s is missing",
    ),
    "torn segment": (
        lambda at: os.truncate(_in(at, "120p/seg_00001.m4s"), 5000),
        "120p",
        "seg_00001.m4s is damaged",
    ),
    "segment of another place": (
        lambda at: shutil.copy(_in(at, "120p/seg_00000.m4s"), _in(at, "120p/seg_00001.m4s")),
        "120p",
        "does not join at segment 1",
    ),
    "segment of another quality": (
        lambda at: shutil.copy(_in(at, "180p/init.mp4"), _in(at, "120p/init.mp4")),
        "120p",
        "is announced as 214×120 and is 320×180",
    ),
    "unlisted segment": (
        lambda at: shutil.copy(_in(at, "180p/seg_00003.m4s"), _in(at, "180p/seg_00004.m4s")),
        "180p",
        "does not list seg_00004.m4s",
    ),
    "no init": (lambda at: _in(at, "180p/init.mp4").unlink(), "180p", "has no init.mp4"),
    "torn init": (lambda at: os.truncate(_in(at, "180p/init.mp4"), 100), "180p", "damaged init.mp4"),
    "no index": (lambda at: _in(at, "audio-und/index.m3u8").unlink(), "audio-und", "has no index.m3u8"),
    "no folder": (lambda at: shutil.rmtree(_in(at, "180p")), "180p", "has no index.m3u8"),
    "open end": (
        lambda at: _change(_in(at, "180p/index.m3u8"), "#EXT-X-ENDLIST", ""),
        "180p",
        "its playlist does not end",
    ),
    "wrong duration": (
        lambda at: _change(_in(at, "180p/index.m3u8"), "#EXTINF:2.0", "#EXTINF:1.9"),
        "180p",
        "gives seg_00000.m4s 1.9",
    ),
    "target": (
        lambda at: _change(_in(at, "180p/index.m3u8"), "TARGETDURATION:2", "TARGETDURATION:1"),
        "180p",
        "EXT-X-TARGETDURATION",
    ),
    "announced size": (
        lambda at: _change(at / "master.m3u8", "320x180", "640x360"),
        "180p",
        "announced as 640×360 and is 320×180",
    ),
    "announced bit rate": (
        lambda at: _change(at / "master.m3u8", "BANDWIDTH=[0-9]+", "BANDWIDTH=5"),
        "180p",
        "announced with 5 bit/s",
    ),
    "no I-frames": (lambda at: _in(at, "180p/iframes.m3u8").unlink(), "180p", "has no iframes.m3u8"),
    "I-frames of another quality": (
        lambda at: shutil.copy(_in(at, "180p/iframes.m3u8"), _in(at, "120p/iframes.m3u8")),
        "120p",
        "does not list the key frames",
    ),
    "announced bit rate of I-frames": (
        lambda at: _change(
            at / "master.m3u8", "I-FRAME-STREAM-INF:BANDWIDTH=[0-9]+", "I-FRAME-STREAM-INF:BANDWIDTH=5"
        ),
        "180p",
        "180p (I-frames) is announced with 5 bit/s",
    ),
    "I-frames elsewhere": (
        lambda at: _change(at / "master.m3u8", "v1/180p/iframes.m3u8", "../../etc/iframes.m3u8"),
        "",
        "../../etc/iframes.m3u8, which belongs to no quality",
    ),
    "elsewhere": (
        lambda at: _change(at / "master.m3u8", "v1/180p/index.m3u8", "../../etc/index.m3u8"),
        "etc",
        "is outside its folder",
    ),
    "a shorter quality": (lambda at: _drop_last(_in(at, "120p")), "", "the qualities differ in length"),
    "sound that ends early": (
        lambda at: _drop_last(_in(at, "audio-und")),
        "",
        "audio-und ends 1.0 s before the video",
    ),
    "a rule": (
        lambda at: _change(at / "master.m3u8", "AVERAGE-BANDWIDTH=[0-9]+,", ""),
        "",
        "violates Apple's rule 9.14",
    ),
    "no playlist": (lambda at: (at / "master.m3u8").write_text("hello"), "", "master.m3u8 is not a playlist"),
    "no master": (
        lambda at: shutil.copy(_in(at, "120p/index.m3u8"), at / "master.m3u8"),
        "",
        "it is not a master playlist",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(verify: Verify, ladder: Path, damage: str) -> None:
    harm, where, what = DAMAGES[damage]
    harm(ladder)
    code, answer = verify(ladder)
    assert code == 1
    assert answer["ok"] is False
    (found,) = answer["ladders"]
    errors = {r["name"]: r["error"] for r in found["renditions"] if not r["ok"]}
    if found["error"]:
        errors[""] = found["error"]
    assert set(errors) == {where}, "and nothing else is blamed"
    assert what in errors[where]["message"]
    assert errors[where]["code"] == "OUTPUT_INVALID"
    assert "tqstudio add --force" in errors[where]["hint"]


def test_the_rules_are_listed_with_their_outcomes(verify: Verify, ladder: Path) -> None:
    code, answer = verify(ladder)
    assert code == 0
    rules = {rule["number"]: rule for rule in answer["ladders"][0]["rules"]}
    assert len(rules) > 70
    assert {rule["outcome"] for rule in rules.values()} == {"pass", "note", "warn"}
    assert rules["6.1"]["outcome"] == "pass"
    # The language is unknown, and segments have 2 s.
    assert (rules["8.10"]["outcome"], rules["7.5"]["outcome"]) == ("note", "warn")
    assert all(rule["details"] for rule in rules.values() if rule["outcome"] != "pass")


def test_a_ladder_of_an_earlier_version_is_not_damaged(verify: Verify, ladder: Path) -> None:
    for _ in range(2):
        _change(ladder / "master.m3u8", "#EXT-X-I-FRAME-STREAM-INF.*\n", "")
    for path in ladder.glob("v1/*/iframes.m3u8"):
        path.unlink()
    code, answer = verify(ladder)
    assert (code, answer["ok"]) == (0, True)
    warned = {rule["number"] for rule in answer["ladders"][0]["rules"] if rule["outcome"] == "warn"}
    assert "6.1" in warned


@pytest.fixture(scope="module")
def with_rest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with a little more than two segments."""
    root = tmp_path_factory.mktemp("rest")
    _encoded(root / "clip.mp4", "4.2")
    done = Program(root / "home", **QUICKER)("process", "-i", f"{root}/clip.mp4", "-o", f"{root}", *LADDER)
    assert done.code == 0, done.err
    return root / "clip"


@pytest.mark.more
@pytest.mark.parametrize("names", [("180p", "120p"), ("180p", "120p", "audio-und"), ("120p",)])
def test_a_ladder_whose_end_is_short_is_not_damaged(
    verify: Verify, with_rest: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """As earlier versions published them; one whose quality was made again since has both forms."""
    ladder = shutil.copytree(with_rest, tmp_path / "clip")
    for name in names:
        folder = _in(ladder, name)
        check = split_short_end(folder, video=name[0] != "a")
        assert check.ends_short
        of_each = [(segment.name, iframe) for segment in check.segments for iframe in segment.iframes]
        durations = [segment.duration_s for segment in check.segments]
        names_of = [segment.name for segment in check.segments]
        (folder / "index.m3u8").write_text(media_playlist(durations, names_of, target=2))
        if of_each:
            (folder / "iframes.m3u8").write_text(iframe_playlist(of_each))
            peak, average = iframe_rates(of_each)
            announced = rf"INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+(.*v1/{name}/iframes)"
            rates = rf"INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average}\1"
            _change(ladder / "master.m3u8", announced, rates)
    code, answer = verify(ladder)
    assert (code, answer["ok"]) == (0, True), answer


def test_a_folder_of_ladders_in_words(made: Path, ladder: Path, tmp_path: Path) -> None:
    _in(ladder, "120p/seg_00001.m4s").unlink()
    shutil.copytree(made / "clip", tmp_path / "out" / "good")
    answer = Program(tmp_path / "home")("verify", str(tmp_path / "out"))
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == f"FAIL  {ladder}/master.m3u8"
    assert f"ok    {tmp_path}/out/good/master.m3u8" in lines
    assert re.search(r"180p +320×180, 4 segments, 00:07, \d+ kB", answer.out)
    assert "120p       OUTPUT_INVALID: 120p: seg_00001.m4s is missing" in answer.out
    assert "      Apple 7.5, not kept: target durations are 6 s" in lines
    assert lines[-1] == "2 ladders: 1 damaged"


def test_ladders_are_found_at_the_depth_of_any_template(ladder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("2026/11/film", "near", ".hidden/no"):
        shutil.copytree(ladder, site / name)
    (site / "link").symlink_to(site / "near")
    (site / "round").symlink_to(site)
    answer = Program(tmp_path / "home")("verify", str(site), "--json")
    found = [Path(each["master"]) for each in answer.json()["ladders"]]
    assert found == [site / name / "master.m3u8" for name in ("2026/11/film", "link", "near")]


@pytest.mark.parametrize(("path", "expected"), [("nowhere", "there is no "), (".", "there is no ladder in ")])
def test_where_there_is_no_ladder(path: str, expected: str, tmp_path: Path) -> None:
    answer = Program(tmp_path / "home")("verify", f"{tmp_path}/{path}")
    assert answer.code == 2
    assert answer.err.startswith(f"error: SOURCE_MISSING: {expected}")


@pytest.mark.more
def test_of_a_bucket_its_objects_are_checked_too(ladder: Path, tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    copy = program.home.buckets / "s3" / "films" / "vod" / "good"
    shutil.copytree(ladder, copy)
    with object_storage() as storage:
        storage.configure(program.home)
        answer = program("verify", "s3://films/vod")
    assert answer.code == 1
    assert f"FAIL  {copy}/master.m3u8" in answer.out.splitlines()
    assert "OUTPUT_INVALID: s3://films/vod/good lacks master.m3u8 and " in answer.out
    assert program("verify", str(copy)).code == 0
    unreachable = program("verify", "s3://films/vod")
    assert (unreachable.code, "UPSTREAM: s3://films/vod/good" in unreachable.out) == (1, True)
    assert program("verify", "S3://films").err.startswith("error: BAD_REQUEST: ")
