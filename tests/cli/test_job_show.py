"""What `job list` and `job show` print of a job, and a run of one that failed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tqstudio.cli.commands.jobs import show
from tqstudio.cli.follow.follower import Video
from tqstudio.cli.follow.progress_lines import ProgressLines, ending_text
from tqstudio.cli.terminal import printing
from tqstudio.paths import encode
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from ui.samples import error, job_detail, job_row, rendition

LOST = error("WORKER_LOST", "cpu-0 died", "it is tried again", log="/home/logs/7-1.log")


@pytest.mark.parametrize(
    ("before", "now", "added"),
    [
        ("", "a\n", "a\n"),
        ("a\n", "a\nb\n", "b\n"),
        ("x" * 3_000 + "end\n", "x" * 2_500 + "end\nmore\n", "more\n"),
        ("a\n", "another attempt\n", "another attempt\n"),
    ],
)
def test_what_a_log_gained_is_found_in_its_end(before: str, now: str, added: str) -> None:
    assert show._added(before, now) == added


class Door:
    """Answers with one job, and that nothing blocks the queue."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def send(self, call: Call[Any]) -> Any:
        return {"gates": []} if call == calls.status() else self.job


def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: str, **more: Any
) -> list[str]:
    """The lines of `job show`, up to its first table."""
    job = job_detail(job_row(7, "a.mp4", status, **more))
    monkeypatch.setattr(show, "client", lambda: Door(job))
    assert show.show([7]) == 0
    return capsys.readouterr().out.partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    ("status", "more", "label"),
    [
        ("failed", {"attempts": 3}, "error"),
        (
            "done",
            {"attempts": 1, "actual_s": 28.0, "predicted_s": 510.0},
            "last error",
        ),
    ],
)
def test_all_values_stand_in_one_column(
    status: str,
    more: dict[str, Any],
    label: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, *lines = shown(monkeypatch, capsys, status, error=LOST, **more)
    fields = {line[2:13].strip(): line[13:] for line in lines}
    assert all(line[12] == " " != line[13] for line in lines), lines
    assert fields[label] == "WORKER_LOST: cpu-0 died"
    assert [line[13:] for line in lines[-2:]] == [
        f"{printing.ARROW} it is tried again",
        "log: /home/logs/7-1.log",
    ]
    if status == "done":
        assert fields["took"] == "00:28; estimated 08:30"


def test_a_quality_says_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [rendition("720p", 120, status="completed"), rendition("360p", 3, status="in_progress")]
    job = job_detail(job_row(7, "a.mp4", "in_progress", renditions=made))
    monkeypatch.setattr(show, "client", lambda: Door(job))
    assert show.show([7]) == 0
    head, whole, part = capsys.readouterr().out.split("\n\n")[1].splitlines()
    column = slice(head.index("SEGMENTS") + len("SEGMENTS"), head.index("TOOK") + len("TOOK"))
    assert [line[column].strip() for line in (whole, part)] == ["31:20", ""]


def test_the_workers_that_help_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = [{"worker": "box-2", "first": 16, "end": 19, "done": 1}]
    division = {"renditions": ["720p"], "missing": [(4, 19)], "ranges": ranges}
    for more, workers in (({}, "cpu-0"), ({"division": division}, "cpu-0 with box-2")):
        row = job_row(7, "a.mp4", "in_progress", **more)
        assert f"  worker     {workers}" in shown(monkeypatch, capsys, "in_progress", **more)
        video = Video("a.mp4", "/films/a.mp4", encode("/films/a.mp4"), "in_progress")
        ProgressLines(sys.stdout).began(video, row)
        assert capsys.readouterr().out == f"a.mp4: job 7 runs on {workers}\n"


def test_what_fails_for_good_does_not_say_that_nothing_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for attempts, expected in ((0, "failed, not retried"), (3, "3 of 3 failed")):
        lines = shown(monkeypatch, capsys, "failed", attempts=attempts, error=LOST)
        assert f"  failures   {expected}" in lines


def test_a_failed_video_says_where_the_log_is() -> None:
    video = Video("a.mp4", "/films/a.mp4", encode("/films/a.mp4"), "failed", error=LOST)
    assert ending_text(video).splitlines() == [
        "a.mp4: failed",
        "error: WORKER_LOST: cpu-0 died",
        f"  {printing.ARROW} it is tried again",
        "  log: /home/logs/7-1.log",
    ]
    # Of a file that made no job there is none.
    video.error = {"code": "SOURCE_EMPTY", "message": "a.mp4 is empty", "hint": "copy it again"}
    assert "log" not in ending_text(video)


CHANGES = [
    {"what": "size", "before": "1000000", "after": "2000000"},
    {"what": "modified", "before": "2026-11-01T10:00:00.000+00:00", "after": "2026-11-02T11:30:00.000+00:00"},
    {"what": "crf", "before": "22", "after": None},
    {"what": "subtitles", "before": None, "after": None},
]


def test_what_changed_and_who_added_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"kind": "changed", "word": "changed", "changes": CHANGES, "owner": "token:ana"}
    lines = shown(monkeypatch, capsys, "pending", **more)
    assert "changed  a.mp4" in lines[0]
    fields = {line[2:13].strip(): line[13:] for line in lines[1:]}
    times = "modified 2026-11-01 10:00:00 to 2026-11-02 11:30:00"
    assert fields["changed"] == f"size 1.0 MB to 2.0 MB, {times}, crf 22 to none, subtitles"
    assert fields["owner"] == "the token ana"
    row = show._line(job_row(7, "a.mp4", **more))
    assert row[1].endswith(" changed")
    assert row[6] == "a.mp4  size, modified, crf, subtitles"
