"""Which CRFs are tried for a quality, and which one is taken."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from media.test_grid import facts
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.grid import make_grid
from tqstudio.engine.media.plan.video_codecs import CODECS
from tqstudio.wings.quality.search import Found, find, samples

WEB = profiles.load("web")


class Film:
    """A film whose VMAF falls with the CRF, as those that were measured, and stays below a limit.

    Args:
        at_22: what VMAF lacks of 101 with CRF 22.
        rise: by which factor that grows with each CRF.
    """

    def __init__(self, at_22: float, rise: float = 1.12, limit: float = 100.0) -> None:
        self.at_22, self.rise, self.limit = at_22, rise, limit
        self.tried: list[list[int]] = []

    def vmaf(self, crf: int) -> float:
        return min(self.limit, max(0.0, 101 - self.at_22 * self.rise ** (crf - 22)))

    def probe(self, crfs: Sequence[int]) -> dict[int, float]:
        self.tried.append([*crfs])
        return {crf: self.vmaf(crf) for crf in crfs}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at_22", [1.5, 3, 8, 13, 20, 35])
def test_the_quality_is_reached(codec: str, at_22: float) -> None:
    film = Film(at_22)
    found = find(codec, 93, film.probe)
    assert found.reached
    assert film.vmaf(found.crf) == pytest.approx(93, abs=0.6)
    assert found.vmaf == pytest.approx(film.vmaf(found.crf), abs=0.4)


def test_two_probes_if_the_answer_is_between_them_and_one_more_if_not() -> None:
    within, easy = Film(8), Film(2.6)
    assert find("h264", 93, within.probe).reached
    assert within.tried == [[18, 26]]
    assert find("h264", 93, easy.probe).reached
    assert len(easy.tried) == 2
    assert easy.tried[1][0] > 26


def test_no_bits_are_spent_beyond_the_limit_of_the_bit_rate() -> None:
    film = Film(4, limit=88.1)
    assert find("h264", 93, film.probe) == Found(26, 88.1, reached=False)
    assert film.tried == [[18, 26]]


def test_lower_crfs_that_are_worse_are_not_taken() -> None:
    found = find("av1", 93, lambda crfs: {crf: 82.0 + crf / 100 for crf in crfs})
    assert (found.crf, found.reached) == (33, False)


def test_the_limits_of_the_codec() -> None:
    hard, still = Film(3000), Film(1e-9)
    assert not find("h264", 93, hard.probe).reached
    assert min(crf for crfs in hard.tried for crf in crfs) >= 1
    assert find("h264", 93, still.probe) == Found(51, 100.0, reached=True)
    assert max(crf for crfs in still.tried for crf in crfs) <= 51


@pytest.mark.parametrize("fps", [Fraction(25), Fraction(24000, 1001)])
@pytest.mark.parametrize("seconds", [61, 600, 7200])
def test_samples_are_spread_over_the_video(seconds: float, fps: Fraction) -> None:
    grid = make_grid(facts(fps, seconds=seconds), WEB)
    found = samples(grid, seeks=True)
    assert 4 <= len(found) <= 8
    assert all(stop - start == 2 and 0 <= start < stop < grid.fragment_count for start, stop in found)
    gaps = {after[0] - before[0] for before, after in itertools.pairwise(found)}
    assert max(gaps) - min(gaps) <= 1
    early = samples(grid, seeks=False)
    assert early[-1][1] * 2 <= 120


def test_samples_are_spread_over_a_video_that_is_cut_at_the_key_frames_of_its_source() -> None:
    """Whose fragments have other lengths: here 1.04 s."""
    regular = make_grid(facts(Fraction(25), seconds=624), WEB)
    starts, heads = tuple(range(0, 624 * 25 + 1, 26)), tuple(range(0, 601, 6))
    grid = replace(regular, starts=starts, heads=heads)
    found = samples(grid, seeks=True)
    assert all(3 <= stop - start <= 4 for start, stop in found)
    assert found[-1][0] > 0.9 * grid.fragment_count
    assert samples(grid, seeks=False)[-1][1] * 1.04 <= 120


def test_gops_may_be_longer_than_a_sample() -> None:
    grid = make_grid(facts(Fraction(25), seconds=61), replace(WEB, gop_s=30, segment_s=30))
    found = samples(grid, seeks=True)
    assert found
    assert all(math.isclose(stop - start, 1) and stop <= grid.fragment_count for start, stop in found)


def test_a_wide_gap_is_looked_into() -> None:
    tried: list[list[int]] = []

    def vmaf(crf: int) -> float:
        return 99 - max(0, crf - 25) ** 1.9 / 30

    def probe(crfs: Sequence[int]) -> dict[int, float]:
        tried.append([*crfs])
        return {crf: vmaf(crf) for crf in crfs}

    found = find("h264", 93, probe)
    assert [len(crfs) for crfs in tried] == [2, 1, 1]
    assert tried[1][0] > tried[2][0] > 26
    assert vmaf(found.crf) == pytest.approx(93, abs=0.6)
