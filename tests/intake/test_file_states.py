"""What is remembered of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tqstudio.engine.intake.file_states import MAX_SKIPPED, FileStates
from tqstudio.engine.intake.problems import NamedOtherwise
from tqstudio.engine.intake.settling import FileStat

FIFO = ("UNSUPPORTED", "a FIFO", "remove it")
NAME = ("NO_MEDIA", "not a video", "rename it")
LATER = ("INTERNAL", "could not be queued", "look at the log")


def test_a_file_is_left_out_by_its_kind_only_while_it_is_of_that_kind() -> None:
    states = FileStates(b"/drop")
    states.after_scan(set(), {b"/drop/a.mp4": FIFO, b"/drop/b.mp4": FIFO})
    states.update_odd([b"/drop/a.mp4"], {})
    assert states.skipped() == (("b.mp4", FIFO),)


def test_refusals_are_named_first_and_only_so_many_files() -> None:
    states = FileStates(b"/drop/")
    states.after_scan(set(), {b"/drop/%d.iso" % number: NAME for number in range(500)})
    states.failed(b"/drop/z.mp4", LATER)
    assert states.skipped()[0] == ("z.mp4", LATER)
    assert len(states.skipped()) == MAX_SKIPPED


@pytest.mark.parametrize("goes", ["nothing", "removed", "replaced"])
def test_a_second_name_of_a_file_is_done_while_the_first_one_is_there(tmp_path: Path, goes: str) -> None:
    first, second = tmp_path / "first.mp4", tmp_path / "second.mp4"
    first.write_bytes(b"a film")
    os.link(first, second)
    path, look = os.fsencode(second), FileStat.of(second.stat())
    states = FileStates(os.fsencode(tmp_path))
    states.not_queued(path, look, NamedOtherwise(os.fsencode(first)))
    assert states.skipped() == (), "nothing is left out"
    assert states.named_by([os.fsencode(first)]) == [path]
    if goes != "nothing":
        first.unlink()
    if goes == "replaced":
        first.write_bytes(b"another film")
    assert states.is_done(path, look.stamp) == (goes == "nothing")
    assert not states.is_done(path, (1, 1))
    states.offered(path, look.stamp)
    assert states.is_done(path, look.stamp)
    assert states.named_by([os.fsencode(first)]) == []
