"""What is remembered of files."""

from __future__ import annotations

from tqstudio.engine.intake.file_states import MAX_SKIPPED, FileStates

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
