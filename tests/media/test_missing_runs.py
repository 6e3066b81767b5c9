"""The plan: what must exist minus what does."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.missing_runs import Stored, VideoRun, plan

# 100 fragments, as far as anyone knows.
GRID = Grid(Fraction(25), 50, 150, 0, 5_000, Fraction(0))
WANTED = {"720p": "key-720", "480p": "key-480", "360p": "key-360"}
END = None


def stored(**fragments: int) -> dict[str, Stored]:
    return {f"{name[1:]}p": Stored(f"key-{name[1:]}", count) for name, count in fragments.items()}


@pytest.mark.parametrize(
    ("disk", "runs"),
    [
        ({}, [(0, END, "720p 480p 360p")]),
        (stored(_720=0, _480=0, _360=0), [(0, END, "720p 480p 360p")]),
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
def test_what_is_made(disk: dict[str, Stored], runs: list[tuple[int, int | None, str]]) -> None:
    todo = plan(GRID, WANTED, disk)
    assert todo.runs == tuple(VideoRun(a, b, tuple(names.split())) for a, b, names in runs)
    assert todo.complete == ()


def test_what_ends_on_disk_is_not_made() -> None:
    disk = stored(_720=7, _480=7) | {"360p": Stored("key-360", 80, ended=True)}
    todo = plan(GRID, WANTED, disk)
    assert (todo.complete, todo.runs) == (("360p",), (VideoRun(7, None, ("720p", "480p")),))
    everything = {name: Stored(key, 80, ended=True) for name, key in WANTED.items()}
    assert plan(GRID, WANTED, everything).runs == ()
    assert plan(GRID, WANTED, everything).complete == tuple(WANTED)


def test_media_of_another_key_are_not_continued() -> None:
    disk = stored(_720=7, _480=7) | {"360p": Stored("older", 7, ended=True)}
    todo = plan(GRID, WANTED, disk)
    assert [(run.start, run.stop, run.names) for run in todo.runs] == [
        (0, 7, ("360p",)),
        (7, None, tuple(WANTED)),
    ]


def test_a_run_always_has_a_frame_to_make() -> None:
    # All the estimated fragments are there, but nothing proves that the source ends there.
    (run,) = plan(GRID, {"720p": "key-720"}, stored(_720=100)).runs
    assert run.start == 99
    (run,) = plan(GRID, {"720p": "key-720"}, stored(_720=100), latest=55).runs
    assert run.start == 55


@given(
    made=st.dictionaries(st.sampled_from(list(WANTED)), st.integers(0, 99)),
    ended=st.frozensets(st.sampled_from(list(WANTED))),
)
def test_everything_is_made_once(made: dict[str, int], ended: frozenset[str]) -> None:
    disk = {name: Stored(WANTED[name], count, name in ended) for name, count in made.items()}
    todo = plan(GRID, WANTED, disk)
    assert set(todo.complete) == {name for name in made if name in ended}
    assert all(earlier.stop == later.start for earlier, later in pairwise(todo.runs))
    for name in WANTED:
        runs = [run for run in todo.runs if name in run.names]
        if name in todo.complete:
            assert not runs
            continue
        have = made.get(name, 0)
        assert have - 1 <= runs[0].start <= have
        assert runs[-1].stop is None
        assert all(earlier.stop == later.start for earlier, later in pairwise(runs))
