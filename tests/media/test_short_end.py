"""A last piece of less than half a second joins the one before: hls.js stops before one of one picture."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import av
import pytest

from tqstudio.engine.media.check import digests
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import Duplicate, RenditionState
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.segments.playlists import target_duration
from tqstudio.engine.media.segments.store import COMPLETE_NAME, SegmentStore

from .conftest import MakeClip, MakeEncode, leave, part_short_end, run_to_end

SHORT_S = 0.5


@pytest.fixture
def one(small: Profile) -> Profile:
    """One quality, in segments of two fragments of a second."""
    return replace(small, rungs=(RungSpec(90, 120),))


@pytest.fixture
def source(clip: MakeClip, tmp_path: Path) -> Path:
    """One picture more than two segments, with a file of subtitles."""
    path = Path(shutil.copyfile(clip("rest.mp4", seconds=4.04), tmp_path / "rest.mp4"))
    path.with_suffix(".en.srt").write_text("1\n00:00:01,000 --> 00:00:04,030\nHello\n")
    return path


def frames_of(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def frames_in(state: RenditionState, tmp_path: Path) -> int:
    """The pictures of a stored stream, decoded as a player would."""
    names = ("init.mp4", *SegmentStore(state.directory).listing())
    joined = tmp_path / "joined.mp4"
    joined.write_bytes(b"".join((state.directory / name).read_bytes() for name in names))
    return frames_of(joined)


def lengths(encode: LadderEncode) -> dict[str, list[float]]:
    """Seconds of the segments of each rendition, after checking that its files are these and no others."""
    assert (encode.state, encode.error, encode.warnings) == ("done", None, [])
    found = {}
    for state in encode.renditions:
        assert state.check is not None
        names = [segment.name for segment in state.check.segments]
        assert names == sorted(path.name for path in state.directory.glob("seg_*"))
        found[state.name] = [segment.duration_s for segment in state.check.segments]
    return found


@pytest.mark.parametrize(
    ("seconds", "pictures", "sounds"),
    [
        (4.04, [2, 2.04], 2),
        (2.04, [2.04], 1),
        # With frames of sound, one of this length would be longer than 2.5 s.
        (2.48, [2.48], 2),
        pytest.param(4.48, [2, 2.48], 2, marks=pytest.mark.slow),
        pytest.param(4.52, [2, 2, 0.52], 3, marks=pytest.mark.slow),
        pytest.param(4, [2, 2], 2, marks=pytest.mark.slow),
        pytest.param(1.2, [1.2], 1, marks=pytest.mark.slow),
        (0.08, [0.08], 1),
    ],
)
def test_a_short_rest_joins_the_segment_before(
    clip: MakeClip,
    encode: MakeEncode,
    one: Profile,
    tmp_path: Path,
    seconds: float,
    pictures: list[float],
    sounds: int,
) -> None:
    source = Path(shutil.copyfile(clip(f"{seconds}.mp4", seconds=seconds), tmp_path / "a.mp4"))
    source.with_suffix(".en.srt").write_text("1\n00:00:00,010 --> 00:00:04,500\nHello\n")
    made = encode(source, one)
    run_to_end(made)
    found = lengths(made)
    assert found["90p"] == found["sub-en"] == pictures
    sound = found["audio-und"]
    assert len(sound) == sounds
    assert sum(sound) == pytest.approx(seconds, abs=0.045)
    for each in found.values():
        assert len(each) == 1 or each[-1] >= SHORT_S
        assert target_duration(each) == min(2, target_duration([seconds]))
    [state] = [each for each in made.renditions if each.kind == "video"]
    assert state.segments_total == state.segments_done == len(pictures)
    assert frames_in(state, tmp_path) == frames_of(source) == round(seconds * 25)
    assert state.check is not None
    [*_, last] = state.check.listed
    assert [frame.duration_s for frame in last.iframes][-1] >= min(SHORT_S, seconds)
    assert sum(frame.duration_s for frame in last.iframes) == pytest.approx(last.duration_s)


def as_before(made: LadderEncode) -> None:
    """Make of a complete ladder what the version before would have stored."""
    for state in made.renditions:
        if state.kind == "subtitles":
            shutil.rmtree(state.directory)
        else:
            part_short_end(state.directory)


@pytest.mark.parametrize(
    ("left", "runs"),
    [
        ("complete", ["audio-und", "sub-en"]),
        ("without proof", ["audio-und", "sub-en"]),
        ("without the rest", ["audio-und", "sub-en", "video-90p"]),
        pytest.param("without the last", ["audio-und", "sub-en", "video-90p"], marks=pytest.mark.slow),
    ],
)
def test_what_an_earlier_version_has_not_finished_is_continued(
    source: Path, encode: MakeEncode, one: Profile, tmp_path: Path, left: str, runs: list[str]
) -> None:
    first = encode(source, one, poster=False)
    run_to_end(first)
    whole = lengths(first)
    as_before(first)
    [video] = [each for each in first.renditions if each.kind == "video"]
    if left != "complete":
        for state in first.renditions:
            (state.directory / COMPLETE_NAME).unlink(missing_ok=True)
    if left == "without the rest":
        (video.directory / "seg_00002.m4s").unlink()
    if left == "without the last":
        leave(video.directory, 1, 1)
    kept = (video.directory / "seg_00000.m4s").stat().st_ino

    again = encode(source, one, poster=False)
    run_to_end(again)
    assert lengths(again) == whole == {**whole, "90p": [2, 2.04]}
    assert sorted(run.label for run in again.runs) == runs
    [state] = [each for each in again.renditions if each.kind == "video"]
    assert (state.settings_hash, state.stream_key) == (video.settings_hash, video.stream_key)
    assert (state.directory / "seg_00000.m4s").stat().st_ino == kept
    assert frames_in(state, tmp_path) == frames_of(source) == 101


@pytest.mark.slow
def test_what_an_earlier_version_published_of_the_same_source_is_joined(
    source: Path, encode: MakeEncode, one: Profile, tmp_path: Path
) -> None:
    made = encode(source, one, store_root=tmp_path / "of-another")
    run_to_end(made)
    whole = lengths(made)
    as_before(made)
    folder = tmp_path / "v1"
    for state in made.renditions:
        if state.kind != "subtitles":
            shutil.copytree(state.directory, folder / state.name)
            (folder / state.name / COMPLETE_NAME).unlink()
    sums = {str(path.relative_to(folder)): digests.of_file(path) for path in sorted(folder.glob("*/*"))}
    (folder / digests.SUMS_NAME).write_text(digests.text_of(sums))
    keys = {state.name: (state.settings_hash, state.stream_key) for state in made.renditions}

    again = encode(source, one, poster=False)
    again.look_up()
    again.take_over(Duplicate(5, folder, keys), lambda: None)
    run_to_end(again)
    assert lengths(again) == whole
    assert {state.name for state in again.renditions if state.duplicate} == {"90p", "audio-und"}
    assert sums == {name: digests.of_file(folder / name) for name in sums}, "what is published stays"
