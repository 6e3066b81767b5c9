"""Estimates learn what a machine does, say how far off they were, and never pretend to know."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.estimates import OVERHEAD, Estimates, work_of
from tqstudio.engine.media import profiles
from tqstudio.engine.media.facts import SourceFacts, VideoTrack
from tqstudio.engine.media.workload import Workload, source_class, workload


def facts(width: int = 1920, height: int = 1080, *, seconds: float = 60, codec: str = "h264") -> SourceFacts:
    video = VideoTrack(
        index=0,
        codec=codec,
        profile="High",
        width=width,
        height=height,
        coded_width=width,
        coded_height=height,
        rotation=0,
        pix_fmt="yuv420p",
        bit_depth=8,
        fps=Fraction(30),
        vfr=False,
        color_primaries=1,
        color_transfer=1,
        color_space=1,
        color_range=1,
        first_pts_s=Fraction(0),
        duration_s=seconds,
        own_duration=True,
        interlaced=False,
        bitrate=1,
        dv_profile=0,
        dv_compatibility=0,
    )
    return SourceFacts("mov", seconds, 0.0, 1, 1, video)


def at_fps(source: SourceFacts, fps: Fraction) -> SourceFacts:
    return replace(source, video=replace(source.video, fps=fps))


FAST = profiles.load("fast")
WEB = profiles.load("web")


def test_the_work_is_what_is_missing() -> None:
    whole = workload(facts(), FAST, "libx264")
    assert [piece.key for piece in whole.encode] == [
        f"libx264 h264 veryfast 1080p {rung}" for rung in ("720p", "480p", "360p")
    ]
    assert whole.encode[0].megapixels == pytest.approx(1280 * 720 * 1800 / 1e6)
    assert whole.decode.megapixels == pytest.approx(1920 * 1080 * 1800 / 1e6)
    half = workload(facts(), FAST, "libx264", done={"720p": 0.5, "480p": 0.5, "360p": 1.0})
    assert [piece.key[-4:] for piece in half.encode] == ["720p", "480p"]
    assert half.encode[0].megapixels == pytest.approx(whole.encode[0].megapixels / 2)
    assert half.decode.megapixels == pytest.approx(whole.decode.megapixels / 2)
    chosen = workload(facts(), FAST, "libx264", requested={"360p", "480p"}, kept={"480p"})
    assert [piece.key[-4:] for piece in chosen.encode] == ["360p"]
    nothing = workload(facts(), FAST, "libx264", kept={"720p", "480p", "360p"})
    assert nothing.pieces == ()


def test_sources_are_measured_by_class() -> None:
    assert source_class(facts(1920, 1080)) == source_class(facts(1080, 1920)) == "1080p"
    assert source_class(facts(1920, 1088)) == "1440p"
    assert source_class(facts(100, 100)) == "360p"
    assert source_class(facts(16000, 9000)) == "4320p"


def test_nothing_is_said_before_something_comparable_was_measured() -> None:
    estimates = Estimates()
    work = workload(facts(), FAST, "libx264")
    assert estimates.foretell(work).seconds is None
    estimates.learn(work, 30, 2)
    assert estimates.foretell(work).seconds == pytest.approx(32)
    longer = workload(facts(seconds=120), FAST, "libx264")
    assert estimates.foretell(longer).seconds == pytest.approx(62)
    other = workload(facts(), WEB, "libx264")
    assert estimates.foretell(other).seconds is not None, "the same encoder was measured"
    assert estimates.foretell(workload(facts(), FAST, "h264_nvenc")).seconds is None


def test_what_was_measured_is_kept_for_the_next_supervisor() -> None:
    work = workload(facts(), FAST, "libx264")
    first = Estimates()
    learnt = first.learn(work, 30, 2)
    assert Estimates(learnt).foretell(work).seconds == first.foretell(work).seconds


def _true_seconds(work: Workload, rng: random.Random) -> float:
    """A machine whose costs no one knows: by quality, with a fixed price for decoding, and noise."""
    cost = {"720p": 0.006, "480p": 0.008, "360p": 0.011, "1080p": 0.005}
    encode = sum(cost[piece.key.rpartition(" ")[2]] * piece.megapixels for piece in work.encode)
    return (encode + 0.0015 * work.decode.megapixels) * rng.uniform(0.95, 1.05)


def test_different_ladders_of_one_machine_are_foretold_after_a_while() -> None:
    rng = random.Random(7)
    estimates = Estimates()
    errors = []
    for _ in range(60):
        source = facts(seconds=rng.uniform(20, 600))
        wanted = rng.choice([None, {"720p"}, {"360p"}, {"480p", "360p"}])
        work = workload(source, FAST, "libx264", requested=wanted)
        taken = _true_seconds(work, rng)
        foretold = estimates.foretell(work).seconds
        if foretold is not None:
            errors.append(abs(foretold - taken) / taken)
            estimates.came_true(foretold, taken)
        estimates.learn(work, taken, 0)
    assert median(errors[30:]) < 0.1
    assert estimates.error is not None
    assert estimates.error < 0.15


def test_a_machine_that_became_slower_is_noticed() -> None:
    work = workload(facts(), FAST, "libx264")
    estimates = Estimates()
    for _ in range(20):
        estimates.learn(work, 30, 0)
    for _ in range(12):
        estimates.learn(work, 60, 0)
    assert estimates.encode_s(work) == pytest.approx(60, rel=0.1)


def test_one_strange_run_does_not_spoil_everything() -> None:
    work = workload(facts(), FAST, "libx264")
    estimates = Estimates()
    for _ in range(9):
        estimates.learn(work, 30, 0)
    estimates.learn(work, 40_000, 0)
    seconds = estimates.encode_s(work)
    assert seconds is not None
    assert seconds < 60


TINY = {
    "one frame": (facts(320, 180, seconds=1 / 30), 0.56),
    "17 frames": (facts(seconds=17 / 30), 2.4),
    "8 frames at 0.5 fps": (at_fps(facts(320, 240, seconds=16), Fraction(1, 2)), 0.7),
}


@pytest.mark.parametrize("measured", [False, True], ids=["first", "later"])
def test_runs_with_next_to_nothing_to_do_teach_nothing(measured: bool) -> None:
    normal = workload(facts(), FAST, "libx264")
    estimates, untroubled = Estimates(), Estimates()
    if measured:
        estimates.learn(normal, 30, 2)
        untroubled.learn(normal, 30, 2)
    for source, taken in TINY.values():
        assert estimates.learn(workload(source, FAST, "libx264"), taken, 9) == []
    assert estimates.foretell(normal) == untroubled.foretell(normal)
    estimates.learn(normal, 31, 2)
    untroubled.learn(normal, 31, 2)
    assert estimates.foretell(normal) == untroubled.foretell(normal)


def test_the_little_that_a_resumed_run_had_left_teaches_nothing() -> None:
    left = workload(facts(), FAST, "libx264", done=dict.fromkeys(("720p", "480p", "360p"), 0.995))
    estimates = Estimates()
    assert estimates.learn(left, 3, 2) == []
    assert estimates.learn(workload(facts(), FAST, "libx264", kept={"720p", "480p", "360p"}), 0, 2) == []


def test_a_run_that_is_over_at_once_teaches_only_what_is_done_beside_it() -> None:
    learnt = Estimates().learn(workload(facts(seconds=5), FAST, "libx264"), 1.9, 0.5)
    assert [(speed.key, speed.value) for speed in learnt] == [(OVERHEAD, 0.5)]


def test_the_range_is_as_wide_as_the_errors_were() -> None:
    unknown = Estimates()
    assert unknown.error is None
    assert unknown.range_s(100) == (pytest.approx(66.7, abs=0.1), 150)
    known = Estimates(errors=[0.1, 0.2, 0.3])
    assert (known.error, known.judged) == (0.2, 3)
    assert known.range_s(120) == (pytest.approx(100), pytest.approx(144))
    exact = Estimates(errors=[0.0] * 10)
    assert exact.range_s(100)[1] == pytest.approx(105), "nobody foretells to the second"


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0, 1e6))
def test_the_estimate_lies_in_its_range(errors: list[float], eta_s: float) -> None:
    low, high = Estimates(errors=errors).range_s(eta_s)
    assert 0 <= low <= eta_s <= high


def test_facts_of_another_version_say_nothing() -> None:
    text = '{"name": "x"}'
    assert work_of(None, text, "libx264") is None
    assert work_of({"video": {}}, text, "libx264") is None
