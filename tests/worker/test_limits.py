"""How long an attempt may take, and how much memory ffmpeg gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.worker.job.limits import Deadline, TimeLimit, memory_limit, require_length
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


def test_work_that_advances_is_not_ended() -> None:
    now = [0.0]
    deadline = Deadline(300, lambda: now[0])
    for made in range(1, 20):
        now[0] += 299
        deadline.check()
        deadline.advance(made)
    now[0] += 299
    deadline.advance(3)
    deadline.advance(19)
    deadline.check()
    now[0] += 2
    with pytest.raises(TqError, match="no new segment for 300 s"):
        deadline.check()


@pytest.mark.fault(
    "A source of a few kB is said to last for weeks",
    "`UNSUPPORTED`, naming the setting `max_duration_s`",
    area="security",
)
def test_a_source_that_is_too_long_is_refused(lasting: Callable[[float], SourceFacts]) -> None:
    require_length(lasting(48 * 3600), b"/films/f.mkv", 48 * 3600)
    with pytest.raises(TqError, match=r"f\.mkv lasts 337\.1 h, and max_duration_s allows 48\.0 h") as caught:
        require_length(lasting(337.1 * 3600), b"/films/f.mkv", 48 * 3600)
    assert caught.value.code is ErrorCode.UNSUPPORTED
    assert "max_duration_s" in caught.value.hint


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
