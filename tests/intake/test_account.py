"""What is remembered of files."""

from __future__ import annotations

from tqstudio.engine.intake.account import MAX_SKIPPED, Account


def test_a_file_is_left_out_by_its_kind_only_while_it_is_of_that_kind() -> None:
    account = Account(b"/drop")
    account.begin_anew(set(), {b"/drop/a.mp4": "a FIFO", b"/drop/b.mp4": "a FIFO"})
    account.leave_out([b"/drop/a.mp4"], {})
    assert account.skipped() == (("b.mp4", "a FIFO"),)


def test_refusals_are_named_first_and_only_so_many_files() -> None:
    account = Account(b"/drop/")
    account.begin_anew(set(), {b"/drop/%d.iso" % number: "not a video" for number in range(500)})
    account.failed(b"/drop/z.mp4", "could not be queued")
    assert account.skipped()[0] == ("z.mp4", "could not be queued")
    assert len(account.skipped()) == MAX_SKIPPED
