"""The settling rule by itself, with the clock in the test's hand."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.intake.settling import BUSY_RETRY_S, FileStat, Settling

PATH = b"/drop/a.mp4"


def look(version: int) -> FileStat:
    return FileStat(device=1, inode=2, size=version, mtime_ns=version, ctime_ns=version)


_steps = st.lists(
    st.tuples(st.floats(0.01, 8), st.sampled_from(["write", "look", "busy", "touch"])), max_size=40
)


@given(settle_s=st.sampled_from([0.0, 0.5, 5.0]), steps=_steps)
def test_settled_means_unchanged_over_two_looks(settle_s: float, steps: list[tuple[float, str]]) -> None:
    """Whatever happens, a file settles exactly when the first look at its state is long enough ago."""
    settling = Settling(settle_s)
    now, version, first_look = 100.0, 1, None
    for pause, step in steps:
        now += pause
        if step in ("write", "touch"):
            version += 1
            first_look = None
            continue
        if first_look is None:
            first_look = now
        settled = settling.see(PATH, look(version), now)
        assert settled == (now >= first_look + settle_s)
        if settled and step == "busy":
            settling.hold(PATH, now)
            assert settling.next_due() == now + max(settle_s, BUSY_RETRY_S)


@given(settle_s=st.floats(0.01, 60), start=st.floats(0, 1e6))
def test_a_quiet_file_settles_at_the_look_that_is_asked_for(settle_s: float, start: float) -> None:
    settling = Settling(settle_s)
    assert not settling.see(PATH, look(1), start)
    due = settling.next_due()
    assert due <= start + settle_s
    assert settling.due(due) == [PATH]
    assert settling.see(PATH, look(1), due)
    settling.forget(PATH)
    assert settling.next_due() == math.inf
    assert PATH not in settling


def test_every_part_of_the_stat_tuple_counts() -> None:
    first = look(1)
    for name in FileStat._fields:
        settling = Settling(5)
        settling.see(PATH, first, 0)
        assert not settling.see(PATH, first._replace(**{name: 9}), 5), name
        assert settling.see(PATH, first._replace(**{name: 9}), 10), name


def test_a_file_renamed_into_place_has_settled_and_stays_so_while_it_is_held_open() -> None:
    settling = Settling(60)
    assert settling.see(PATH, look(1), 0, complete=True)
    settling.hold(PATH, 0)
    assert settling.due(1) == []
    assert settling.see(PATH, look(1), 1)
    assert not settling.see(PATH, look(2), 2)


def test_only_kept_files_are_waited_for() -> None:
    settling = Settling(5)
    settling.see(b"/a", look(1), 0)
    settling.see(b"/b", look(1), 1)
    settling.keep({b"/b", b"/c"})
    assert len(settling) == 1
    assert settling.next_due() == 6
