"""What is known of a marked job that is off the screen."""

from __future__ import annotations

import pytest

from tqstudio.lifecycle import Control, JobStatus
from tqstudio.ui.data.job_window import JobWindow
from tqstudio.ui.data.marks import Marks
from tqstudio.ui.data.query import query_of
from tqstudio.ui.data.target import Target

from .samples import event, job_row, rendition


def marked(*rows: object) -> Marks:
    marks = Marks()
    for row in rows:
        marks.toggle(Target.of(row))  # type: ignore[arg-type]
    return marks


def test_events_move_it() -> None:
    marks = marked(job_row(7, "a.mp4"))
    marks.take_event(event(1, "claim", 7, 0, source="pending", target="in_progress"))
    assert marks[7].status is JobStatus.IN_PROGRESS
    marks.take_event(event(2, "pause_requested", 7, 0, source="in_progress"))
    assert (marks[7].status, marks[7].control) == (JobStatus.IN_PROGRESS, Control.PAUSE)
    marks.take_event(event(3, "pause", 7, 0, source="in_progress", target="paused"))
    assert (marks[7].status, marks[7].control) == (JobStatus.PAUSED, Control.NONE)
    marks.take_event(event(4, "deleted", 8, 0))
    assert 7 in marks
    marks.take_event(event(5, "deleted", 7, 0, source="paused", target="paused"))
    assert not marks


@pytest.mark.parametrize("trigger", ["restart", "work_removed"])
def test_its_finished_segments_are_counted(trigger: str) -> None:
    marks = marked(job_row(7, "a.mp4"))
    moved = job_row(7, "a.mp4", "in_progress", renditions=[rendition("720p", 3), rendition("480p", 4)])
    marks.take_progress([moved])
    assert marks[7].segments_done == 7
    marks.take_event(event(1, trigger, 7, 0))
    assert marks[7].segments_done == 0


def test_only_what_the_filter_hides_is_hidden() -> None:
    rows = [job_row(7, "shown.mp4"), job_row(8, "Elsewhere [1].mp4"), job_row(9, "b.mp4", "failed")]
    marks, window = marked(*rows), JobWindow()
    page = {"jobs": rows[:1], "total": 3, "before": None, "after": "8"}
    window.show(page)  # type: ignore[arg-type]
    assert marks.hidden(window) == [], "on another page"
    window.query = query_of("state:pending")
    assert marks.hidden(window) == [9]
    window.query = query_of("mp4 elsewhere")
    assert marks.hidden(window) == [9]
    window.show(page | {"after": None, "total": 1})  # type: ignore[arg-type]
    assert marks.hidden(window) == [8, 9], "this is all that the filter shows"
