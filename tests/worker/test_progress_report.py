"""What is posted while a job runs."""

from __future__ import annotations

import pytest

from tqstudio.engine.worker.reporting.progress_report import Pace, Report
from tqstudio.lifecycle import Step
from tqstudio.protocol.requests import ProgressRequest


def test_it_has_the_shape_that_the_supervisor_checks() -> None:
    report = Report()
    report.begin(Step.TRANSCODE)
    report.end(Step.PROBE, 0.12345)
    report.advance(12.34567, speed=float("inf"), eta_s=3.21)
    report.show([{"name": "360p", "status": "in_progress", "progress": 50.0, "width": 640, "height": 360}])
    report.add(facts={"size": 1}, content_id="abc", argv=[["ffmpeg", "-y"]], resumed_from=0, encoder=None)
    message = ProgressRequest(instance="i" * 8, epoch=2, **report.request())
    assert (message.step, message.progress, message.speed) == (Step.TRANSCODE, 12.346, None)
    assert message.steps == {Step.PROBE: 0.123}
    assert message.renditions is not None
    assert message.argv == [["ffmpeg", "-y"]]


def test_progress_never_goes_back() -> None:
    report = Report()
    for value in (10, 5, 40, 200, 39):
        report.advance(value)
    assert report.progress == 100


def test_news_are_repeated_until_they_are_delivered() -> None:
    report = Report()
    report.add(argv=[["a"]], content_id="c")
    first = report.request()
    assert report.request()["argv"] == [["a"]]
    report.add(argv=[["a"], ["b"]])  # while the first was on its way
    report.delivered(first)
    second = report.request()
    assert second["argv"] == [["a"], ["b"]]
    assert "content_id" not in second
    report.delivered(second)
    assert "argv" not in report.request()


def test_a_step_is_announced_at_once() -> None:
    seen: list[str] = []
    report = Report(on_step=lambda: seen.append(report.request()["step"]))
    report.begin(Step.PROBE)
    report.begin(Step.TRANSCODE)
    assert seen == ["probe", "transcode"]


def test_the_pace_follows_the_last_half_minute() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    assert pace.eta_s(0.5) is None  # what was there before says nothing about the pace
    now = 10
    assert pace.eta_s(0.6) == pytest.approx(40)
    stuck = []
    while now < 60:
        now += 10
        stuck.append(pace.eta_s(0.6))
    assert stuck[-1] is None  # nothing moved within the window
    now = 70
    assert pace.eta_s(0.9) == pytest.approx(10, abs=1)
