"""The plan: what must exist minus what does."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.ladder import ABOVE_SOURCE, Rung
from tqstudio.engine.media.plan import plan

GRID = Grid(Fraction(25), 50, 150, 0, 1500, "5.999999", Fraction(0))
RUNGS = (Rung("720p", 1280, 720, 3500), Rung("480p", 854, 480, 1600), Rung("360p", 640, 360, 800))


def test_nothing_on_disk_means_everything_from_the_start() -> None:
    todo = plan(GRID, RUNGS, {}, frozenset())
    assert (todo.resume_at, todo.rungs, todo.finished) == (0, RUNGS, ())


def test_unfinished_renditions_resume_together_at_the_smallest_prefix() -> None:
    todo = plan(GRID, RUNGS, {"720p": 4, "480p": 5, "360p": 9}, frozenset({"360p"}))
    assert todo.resume_at == 4
    assert [rung.name for rung in todo.rungs] == ["720p", "480p"]
    assert [rung.name for rung in todo.finished] == ["360p"]


def test_whole_renditions_only() -> None:
    todo = plan(GRID, RUNGS, {"720p": 4, "480p": 5}, frozenset({"360p"}), resume_segments=False)
    assert todo.resume_at == 0
    assert len(todo.rungs) == 2


def test_a_run_always_has_a_frame_to_make() -> None:
    # All ten estimated segments are there, but nothing proves that the source ends there.
    assert plan(GRID, RUNGS[:1], {"720p": 10}, frozenset()).resume_at == 9


def test_skipped_rungs_and_finished_ladders_need_nothing() -> None:
    skipped = Rung("1080p", 0, 0, 6000, skipped_reason=ABOVE_SOURCE)
    todo = plan(GRID, (skipped, *RUNGS), {}, frozenset({"720p", "480p", "360p"}))
    assert todo.nothing_to_do


@given(
    prefixes=st.dictionaries(st.sampled_from([rung.name for rung in RUNGS]), st.integers(0, 10)),
    complete=st.frozensets(st.sampled_from([rung.name for rung in RUNGS])),
)
def test_no_segment_is_left_out_and_no_finished_rendition_is_made(
    prefixes: dict[str, int], complete: frozenset[str]
) -> None:
    todo = plan(GRID, RUNGS, prefixes, complete)
    assert {rung.name for rung in todo.rungs} | complete == {rung.name for rung in RUNGS}
    assert not {rung.name for rung in todo.rungs} & complete
    assert all(todo.resume_at <= prefixes.get(rung.name, 0) for rung in todo.rungs)
