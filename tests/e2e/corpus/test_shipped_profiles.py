"""Ladders of each shipped profile violate none of Apple's rules, whatever the source is like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.engine.media.check.apple import check as rules_of
from tqstudio.engine.media.check.ladder import verify_ladder

from ..studio import Studio
from .cases import CASES

SOURCES = (
    "bt709-hd.mp4",
    "5.1.mkv",
    "languages.mkv",
    "text.mkv",
    "fields.ts",
    "59.94.ts",
    "tall.mp4",
    "silent.mp4",
)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "profile",
    ["web", "apple", *(pytest.param(name, marks=pytest.mark.more) for name in ("fast", "archive"))],
)
def test_no_rule_is_violated(shared: Studio, ffmpeg: str, tmp_path: Path, profile: str) -> None:
    jobs = {}
    for case in CASES:
        if case.name in SOURCES:
            case.make(ffmpeg, tmp_path / case.name)
            jobs[case.name] = shared.add(
                tmp_path / case.name, profile=profile, overrides={"video.preset": "ultrafast"}
            )
    for name, job in jobs.items():
        master = Path(shared.done(job)["video_view"]["generation"]["master"])
        assert verify_ladder(master, every_byte=True).ok
        failed = [each for each in rules_of(master) if each.outcome == "fail"]
        assert not failed, f"{name}: {failed}"
    assert len(jobs) == len(SOURCES)
