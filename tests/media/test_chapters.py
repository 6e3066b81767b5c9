"""Chapters of a source are published where they lie in the video."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.warnings import of_source
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.chapters import files, is_valid
from tqstudio.engine.media.source.chapters import MAX_CHAPTERS, within
from tqstudio.engine.media.source.facts import Chapter, SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.errors import WarningCode

from .conftest import MakeClip, run_ffmpeg
from .test_sidecars import late

TITLES = ["Über & <b>", "line\\\nbreak --> x", ""]


@pytest.fixture
def facts(clip: MakeClip) -> SourceFacts:
    return probe(bytes(clip("plain25.mp4")))


def with_chapters(ffmpeg: FFmpeg, clip: Path, path: Path, ends: tuple[float, ...], start: str = "0") -> Path:
    """A copy of a clip that starts at a time, with chapters that follow each other, the first from 0.5 s."""
    text = ";FFMETADATA1\n"
    for number, (begin, end) in enumerate(zip((0.5, *ends), ends, strict=False)):
        text += f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={begin * 1000:.0f}\nEND={end * 1000:.0f}\n"
        text += f"title={TITLES[number]}\n" if TITLES[number] else ""
        text += "language=ger\n"
    named = path.with_suffix(".txt")
    named.write_text(text)
    run_ffmpeg(
        ffmpeg,
        *("-itsoffset", start, "-i", str(clip), "-itsoffset", start, "-i", str(named)),
        *("-map", "0", "-map_metadata", "1", "-c", "copy", str(path)),
    )
    return path


def published(facts: SourceFacts, profile: Profile) -> Mapping[str, bytes]:
    grid = make_grid(facts, profile)
    assert facts.chapters is not None
    return files(within(facts.chapters, grid.zero, grid.length))


@pytest.mark.parametrize(
    ("name", "start", "first"),
    [("a.mkv", "0", "video"), ("a.mp4", "0", "video"), ("a.mkv", "78", "video"), ("a.mkv", "0", "audio")],
)
def test_both_files_have_the_chapters_of_the_source(
    ffmpeg: FFmpeg, clip: MakeClip, small: Profile, tmp_path: Path, name: str, start: str, first: str
) -> None:
    source = clip("plain25.mp4")
    if first == "audio":
        source = late(ffmpeg, tmp_path / "late.mkv", "0", "-itsoffset", "2")
    path = with_chapters(ffmpeg, source, tmp_path / name, (1.0, 2.25, 3.5), start)
    facts = probe(bytes(path))
    entries: list[Any] = json.loads(published(facts, small)["chapters.json"])
    with av.open(str(path)) as container:
        own = container.chapters()
        streams = {"video": container.streams.video, "audio": container.streams.audio}[first]
        begins = min(p.pts * p.time_base for p in container.demux(streams) if p.pts is not None)
    # Encoded sound begins one frame early.
    near = 0.002 if first == "video" else 0.025
    assert [entry["start-time"] for entry in entries] == pytest.approx(
        [float(each["start"] * each["time_base"] - begins) for each in own], abs=near
    )
    assert [entry["start-time"] + entry["duration"] for entry in entries] == pytest.approx(
        [float(each["end"] * each["time_base"] - begins) for each in own], abs=near
    )
    titles = ["Über & <b>", "line break --> x", "Chapter 3"]
    assert [[each["title"] for each in entry["titles"]] for entry in entries] == [[t] for t in titles]
    cues = webvtt.parse(published(facts, small)["chapters.vtt"].decode())
    assert [(cue.begin / 1000, cue.text) for cue in cues] == [
        (entry["start-time"], title)
        for entry, title in zip(
            entries, ["Über &amp; &lt;b&gt;", "line break --&gt; x", "Chapter 3"], strict=True
        )
    ]
    assert of_source(facts, small) == []


def test_matroska_tells_the_language_of_a_title(ffmpeg: FFmpeg, clip: MakeClip, tmp_path: Path) -> None:
    path = with_chapters(ffmpeg, clip("plain25.mp4"), tmp_path / "a.mkv", (1.0,))
    assert [each.language for each in probe(bytes(path)).chapters or ()] == ["de"]


CUT = [
    ((-2, -1), None),
    ((-1, 1), (0, 1)),
    ((3, 9), (3, 4)),
    ((4, 9), None),
    # Without an end.
    ((1, 1), (1, 4)),
]


@pytest.mark.parametrize(("times", "expected"), CUT)
def test_chapters_are_cut_to_the_video(times: tuple[float, float], expected: tuple[float, float]) -> None:
    chapter = Chapter(times[0] + 78, times[1] + 78, "", "und")
    placed = within([chapter], Fraction(78), Fraction(4))
    assert [(each.start_s, each.end_s) for each in placed] == ([expected] if expected else [])


def test_a_chapter_without_an_end_lasts_until_the_next() -> None:
    starts = [Chapter(start, start, "", "und") for start in (0, 1, 2.5)]
    placed = within(starts, Fraction(0), Fraction(4))
    assert [(each.start_s, each.end_s) for each in placed] == [(0, 1), (1, 2.5), (2.5, 4)]


@pytest.mark.parametrize("count", [1, MAX_CHAPTERS + 1])
def test_chapters_that_are_left_out_are_reported(facts: SourceFacts, small: Profile, count: int) -> None:
    there = [Chapter(n / 1000, 4, "", "und") for n in range(count)]
    inside = replace(facts, chapters=tuple(there))
    assert [each.code for each in of_source(inside, small)] == (
        [] if count <= MAX_CHAPTERS else [WarningCode.CHAPTERS_LEFT_OUT]
    )
    outside = replace(facts, chapters=(*there, Chapter(99, 100, "", "und")))
    assert [each.code for each in of_source(outside, small)] == [WarningCode.CHAPTERS_LEFT_OUT]


def test_facts_of_an_earlier_version_are_still_read(facts: SourceFacts) -> None:
    """They have the number of chapters alone; what is published stays valid."""
    record = facts.to_json()
    assert SourceFacts.from_json(json.loads(json.dumps(record))) == facts
    assert SourceFacts.from_json(record | {"chapters": 0}) == facts
    assert SourceFacts.from_json(record | {"chapters": 3}) == replace(facts, chapters=None)


def test_without_chapters_there_are_no_files() -> None:
    assert files([]) == {}
    assert is_valid(files([Chapter(0, 1, "one", "en")])["chapters.json"])
