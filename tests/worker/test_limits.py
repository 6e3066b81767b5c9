"""How long an attempt may take, and how much memory ffmpeg gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.worker.job.limits import Deadline, TimeLimit, memory_limit
from tqstudio.errors import ErrorCode, TqError

HD = Rung("720p", 1280, 720, 3500)
FULL_HD = Rung("1080p", 1920, 1080, 6000)
SMALL = Rung("90p", 160, 90, 100)


@pytest.fixture
def lasting(clip: Path) -> Callable[[float], SourceFacts]:
    facts = probe(bytes(clip))
    return lambda seconds: replace(facts, duration_s=seconds)


@pytest.mark.parametrize(
    ("seconds", "rungs", "encoder", "limit_s"),
    [
        (600, [HD, SMALL], "libx264", 12_000),
        (600, [FULL_HD, HD], "libx264", 27_000),
        (600, [SMALL], "libx264", 6_000),
        (600, [HD], "h264_nvenc", 6_000),
        (3, [HD], "libx264", 300),
        (36_000, [HD], "libx264", 43_200),
        (0, [HD], "libx264", 43_200),
        (600, [], "libx264", 6_000),
    ],
)
def test_the_time_follows_length_size_and_encoder(
    lasting: Callable[[float], SourceFacts],
    seconds: float,
    rungs: list[Rung],
    encoder: str,
    limit_s: float,
) -> None:
    assert TimeLimit().of(lasting(seconds), rungs, encoder) == limit_s


def test_the_deadline_says_what_to_do() -> None:
    now = [100.0]
    deadline = Deadline(300, lambda: now[0])
    now[0] = 400
    deadline.check()
    now[0] = 400.1
    with pytest.raises(TqError) as caught:
        deadline.check()
    assert caught.value.code is ErrorCode.TIMEOUT
    assert "time_limit_factor" in caught.value.hint


def test_the_memory_limit_is_above_what_was_measured_and_below_what_the_machine_has() -> None:
    assert memory_limit(2_000_000_000) > 4_800_000_000
    assert 48_000_000_000 <= memory_limit(64_000_000_000) < 64_000_000_000
