"""The plan: what must exist minus what does."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.media.encode.missing_runs import VideoRun, plan
from tqstudio.engine.media.plan.grid import Grid

# 100 fragments, as far as anyone knows.
GRID = Grid(Fraction(25), 50, 150, 0, 5_000, Fraction(0))
END = None


def stored(_720: int = 0, _480: int = 0, _360: int = 0) -> dict[str, int]:
    return {"720p": _720, "480p": _480, "360p": _360}


@pytest.mark.parametrize(
    ("disk", "runs"),
    [
        (stored(), [(0, END, "720p 480p 360p")]),
        (stored(_720=7, _480=7, _360=7), [(7, END, "720p 480p 360p")]),
        # Killed between two of them: the one fragment is made again, and dropped.
        (stored(_720=7, _480=8, _360=8), [(7, END, "720p 480p 360p")]),
        # One that the disk lost: what lags behind makes up for it alone.
        (stored(_720=40, _480=3, _360=41), [(3, 40, "480p"), (40, END, "720p 480p 360p")]),
        (stored(_720=40, _480=40), [(0, 40, "360p"), (40, END, "720p 480p 360p")]),
        (
            stored(_720=40, _480=20, _360=3),
            [(3, 20, "360p"), (20, 40, "480p 360p"), (40, END, "720p 480p 360p")],
        ),
        (stored(_720=4, _480=5, _360=6), [(4, 6, "720p 480p"), (6, END, "720p 480p 360p")]),
    ],
)
def test_what_is_made(disk: dict[str, int], runs: list[tuple[int, int | None, str]]) -> None:
    assert plan(GRID, disk) == [VideoRun(a, b, tuple(names.split())) for a, b, names in runs]


def test_nothing_is_made_of_nothing() -> None:
    assert plan(GRID, {}) == []


def test_a_run_always_has_a_frame_to_make() -> None:
    # All the estimated fragments are there, but nothing proves that the source ends there.
    (run,) = plan(GRID, {"720p": 100})
    assert run.start == 99
    (run,) = plan(GRID, {"720p": 100}, latest=55)
    assert run.start == 55


@given(st.dictionaries(st.sampled_from(list(stored())), st.integers(0, 99)))
def test_everything_is_made_once(disk: dict[str, int]) -> None:
    planned = plan(GRID, disk)
    assert all(earlier.stop == later.start for earlier, later in pairwise(planned))
    for name, have in disk.items():
        runs = [run for run in planned if name in run.names]
        assert have - 1 <= runs[0].start <= have
        assert runs[-1].stop is None
        assert all(earlier.stop == later.start for earlier, later in pairwise(runs))
