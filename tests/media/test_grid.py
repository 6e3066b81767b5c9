"""The grid: numbers that every run of a source must agree on."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import Grid, make_grid
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

WEB = profiles.load("web")


def facts(fps: Fraction, first_pts: Fraction = Fraction(0), seconds: float = 60.0) -> SourceFacts:
    video = VideoTrack(
        index=0,
        codec="h264",
        profile="High",
        width=1920,
        height=1080,
        coded_width=1920,
        coded_height=1080,
        rotation=0,
        pix_fmt="yuv420p",
        bit_depth=8,
        fps=fps,
        vfr=False,
        color_primaries=2,
        color_transfer=2,
        color_space=2,
        color_range=0,
        first_pts_s=first_pts,
        duration_s=seconds,
        own_duration=True,
        interlaced=False,
        bitrate=0,
        dv_profile=0,
        dv_compatibility=0,
    )
    return SourceFacts("mov", seconds, float(first_pts), 0, 1, video)


@pytest.mark.parametrize(
    ("fps", "gop", "seg_frames", "hls_time"),
    [
        (Fraction(24), 48, 144, "1.999999"),
        (Fraction(25), 50, 150, "1.999999"),
        (Fraction(30000, 1001), 60, 180, "2.001999"),
        (Fraction(24000, 1001), 48, 144, "2.001999"),
        (Fraction(60000, 1001), 120, 360, "2.001999"),
        (Fraction(25, 2), 25, 75, "1.999999"),
        (Fraction(1, 4), 1, 3, "3.999999"),
    ],
)
def test_all_are_cut_between_frames(fps: Fraction, gop: int, seg_frames: int, hls_time: str) -> None:
    grid = make_grid(facts(fps), WEB)
    assert (grid.gop, grid.seg_frames, grid.hls_time) == (gop, seg_frames, hls_time)


@pytest.mark.parametrize(
    ("frames", "fps", "lengths"),
    [
        (301, Fraction(25), [150, 151]),
        (312, Fraction(25), [150, 162]),
        (313, Fraction(25), [150, 150, 13]),
        (300, Fraction(25), [150, 150]),
        (151, Fraction(25), [151]),
        (1, Fraction(25), [1]),
        (149, Fraction(25), [149]),
        (374, Fraction(60000, 1001), [374]),
        (389, Fraction(60000, 1001), [389]),
        (390, Fraction(60000, 1001), [360, 30]),
        (156, Fraction(24), [144, 12]),
    ],
)
def test_a_short_rest_joins_the_last_segment(frames: int, fps: Fraction, lengths: list[int]) -> None:
    grid = replace(make_grid(facts(fps), WEB), total_frames=frames)
    assert [end - begin for begin, end in pairwise(grid.edges)] == lengths
    assert max(round(length / fps) for length in lengths) <= 6


def test_a_transport_stream_starts_where_its_first_picture_is() -> None:
    grid = make_grid(facts(Fraction(30000, 1001), Fraction(12809, 9000)), WEB)
    assert grid.g0 == 43
    assert grid.output_offset + grid.g0 / grid.fps == pytest.approx(10, abs=1e-6)
    assert grid.zero == Fraction(12809, 9000)


@given(
    start=st.integers(0, 900_000),
    count=st.integers(1, 20_000),
    fps=st.sampled_from([Fraction(24000, 1001), Fraction(25), Fraction(60)]),
)
def test_every_picture_of_a_measured_source_has_a_frame(start: int, count: int, fps: Fraction) -> None:
    """Also if it starts halfway between two frames, as MPEG program streams do."""
    first = Fraction(start, 90_000)
    made = facts(fps, first)
    last, end = (float(first + pictures / fps) for pictures in (count - 1, count))
    grid = make_grid(replace(made, video=replace(made.video, last_s=last, end_s=end)), WEB)
    assert (grid.total_frames, grid.head, grid.tail) == (count, 0, 0)


@given(total=st.integers(1, 100_000), gop=st.integers(1, 400), per_segment=st.integers(1, 15))
def test_every_frame_is_in_a_fragment_and_a_segment(total: int, gop: int, per_segment: int) -> None:
    grid = Grid(Fraction(25), gop, gop * per_segment, 0, total, Fraction(0))
    assert len(grid.fragments_of(0)) == per_segment
    assert 0 < total - (grid.fragment_count - 1) * gop <= gop
    *full, last = [end - begin for begin, end in pairwise(grid.edges)]
    assert (len(full) + 1, grid.edges[0], grid.edges[-1]) == (grid.segment_count, 0, total)
    assert set(full) <= {grid.seg_frames}
    for frame in (0, total // 2, total - 1):
        fragment = grid.fragment_at(frame)
        segment = grid.segment_of(fragment)
        assert grid.fragment_start(fragment) <= frame < grid.fragment_start(fragment + 1)
        assert grid.segment_start(segment) <= frame < grid.segment_start(segment + 1)
        assert fragment in grid.fragments_of(segment)
    # Half a second has 12.5 frames; no profile has shorter segments.
    assume(grid.seg_frames > 12)
    assert 12 < last <= grid.seg_frames + 12 or (not full and last == total)
    assert grid.may_be_last(0, last)
    assert not grid.may_be_last(0, grid.seg_frames + 13)


@given(
    frame=st.integers(0, 900_000), fps=st.sampled_from([Fraction(24), Fraction(30000, 1001), Fraction(60)])
)
def test_a_decode_time_belongs_to_one_frame_only(frame: int, fps: Fraction) -> None:
    grid = make_grid(facts(fps, Fraction(7, 5)), WEB)
    timescale = 90_000
    assert grid.on_grid(frame, grid.tfdt(frame, timescale), timescale)
    assert not grid.on_grid(frame, grid.tfdt(frame, timescale) + round(timescale / fps), timescale)
    assert not grid.on_grid(frame + 1, grid.tfdt(frame, timescale), timescale)


@pytest.mark.parametrize(("one_of", "pictures"), [(2, 480), (2, 481), (4, 960), (3, 721)])
def test_ladders_of_a_high_rate_stay_current(one_of: int, pictures: int) -> None:
    """Of facts that an earlier version measured, whose last picture lasts for a whole frame."""
    made, rate = facts(Fraction(60)), 60 * one_of
    last = (pictures - 1) / rate
    measured = [
        replace(made, video=replace(made.video, one_of=one_of, last_s=last, end_s=float(last + end)))
        for end in (Fraction(1, 60), Fraction(1, rate))
    ]
    before, now = (make_grid(each, WEB).total_frames for each in measured)
    assert before == round(Fraction(pictures - 1, one_of) + Fraction(1, 100)) + 1
    assert now in (before, before - 1)
    assert abs(now - pictures / one_of) < 0.7
