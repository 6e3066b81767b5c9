"""Beats and reports, and what their answers do."""

from __future__ import annotations

import threading

import pytest

from tqstudio.engine.worker.heartbeat import HeartbeatThread
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.engine.worker.reporting.outcome import Lost, Stopped
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.requests import HeartbeatRequest, ProgressRequest
from waiting import until

from .conftest import RecordingLine

AWAY = TqError(ErrorCode.NO_SUPERVISOR, "no supervisor answers")


class Setup:
    def __init__(self) -> None:
        self.now = 0.0
        self.refused = 0
        self.line = RecordingLine(
            {"heartbeat": [{"controls": {}, "lost": [], "enabled": True}], "progress": [{"control": "none"}]}
        )
        self.lease = Lease(7, 2, 60, clock=lambda: self.now)
        self.report = Report()
        self.heartbeats = HeartbeatThread(self.line, "instance-1", 10, lambda: (12.5, 1000), self.refuse)

    def refuse(self) -> None:
        self.refused += 1


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_beat_names_the_job_that_is_held(setup: Setup) -> None:
    setup.heartbeats.beat()
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.heartbeats.beat()
    setup.heartbeats.detach()
    setup.heartbeats.beat()
    beats = [HeartbeatRequest(**body) for _, body in setup.line.sent]
    assert [[(beat.job, beat.epoch) for beat in message.jobs] for message in beats] == [[], [(7, 2)], []]
    assert beats[0].cpu_percent == 12.5


def test_a_beat_brings_control_requests_and_losses(setup: Setup) -> None:
    setup.line.answers["heartbeat"] = [
        {"controls": {"7": "pause"}, "lost": [], "enabled": True},
        {"controls": {}, "lost": [7], "enabled": True},
    ]
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.heartbeats.beat()
    assert setup.lease.ended == Stopped("pause")
    setup.heartbeats.beat()
    assert isinstance(setup.lease.ended, Lost)


def test_progress_brings_control_requests(setup: Setup) -> None:
    setup.line.answers["progress"] = [{"control": "cancel"}]
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.heartbeats.post()
    assert setup.lease.ended == Stopped("cancel")
    ProgressRequest(**setup.line.sent[0][1])


@pytest.mark.parametrize("code", [ErrorCode.LOST_LEASE, ErrorCode.NOT_FOUND])
def test_an_answer_that_the_job_is_gone(setup: Setup, code: ErrorCode) -> None:
    setup.line.answers["progress"] = [TqError(code, "gone")]
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.heartbeats.post()
    assert setup.lease.ended == Lost("gone")


def test_what_was_not_heard_is_sent_again(setup: Setup) -> None:
    setup.line.answers["progress"] = [AWAY, {"control": "none"}]
    setup.report.add(content_id="abc")
    setup.heartbeats.attach(setup.lease, setup.report)
    for _ in range(3):
        setup.heartbeats.post()
    assert [body.get("content_id") for _, body in setup.line.sent] == ["abc", "abc", None]


def test_only_answered_beats_renew_the_lease(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqstudio.engine.worker.heartbeat.since_boot", lambda: setup.now)
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.now = 30
    setup.heartbeats.beat()
    setup.now = 50
    setup.heartbeats.post()
    setup.line.answers["heartbeat"] = [AWAY]
    setup.heartbeats.beat()
    setup.now = 89
    assert setup.lease.ended is None
    setup.now = 90
    assert isinstance(setup.lease.ended, Lost)


def test_an_outage_is_logged_once_and_warned_of_once(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.line.answers["heartbeat"] = [AWAY] * 9 + [{"controls": {}, "lost": [], "enabled": True}]
    for _ in range(12):
        setup.heartbeats.beat()
    output = capsys.readouterr().out
    assert output.count("reporting to the supervisor failed") == 1
    assert output.count("reporting to the supervisor still fails") == 1
    assert output.count("answers again") == 1


def test_a_token_that_is_no_longer_good(setup: Setup) -> None:
    setup.line.answers["heartbeat"] = [TqError(ErrorCode.UNAUTHORIZED, "who are you?")]
    setup.heartbeats.beat()
    assert setup.refused == 1


def test_the_last_report_is_sent_and_none_after_it(setup: Setup) -> None:
    setup.heartbeats.attach(setup.lease, setup.report)
    setup.report.advance(99)
    setup.heartbeats.flush()
    setup.heartbeats.post()
    assert [body["progress"] for verb, body in setup.line.sent if verb == "progress"] == [99]


def test_a_main_thread_that_waits_is_reported_and_one_that_runs_is_not(setup: Setup) -> None:
    def reported() -> list[float]:
        return [ProgressRequest(**body).blocked_s for verb, body in setup.line.sent if verb == "progress"]

    def wait_for_one_that_was_quiet() -> None:
        """On another thread, as this one would run to look."""
        since = len(reported())

        def look() -> None:
            with setup.line.changed:
                setup.line.changed.wait_for(lambda: max(reported()[since:], default=0) > 0, 30)

        looking = threading.Thread(target=look)
        looking.start()
        looking.join()
        assert max(reported()[since:]) > 0

    setup.heartbeats.attach(setup.lease, setup.report)
    setup.heartbeats.start()
    try:
        wait_for_one_that_was_quiet()
        since = len(reported())
        until(lambda: 0 in reported()[since:], "one that ran")
        wait_for_one_that_was_quiet()
    finally:
        setup.heartbeats.stop()
    # What comes at the end is no longer the work.
    setup.heartbeats.flush()
    assert reported()[-1] == 0


def test_the_thread_posts_at_once_what_is_nudged(setup: Setup) -> None:
    setup.heartbeats.start()
    try:
        with setup.line.changed:
            assert setup.line.changed.wait_for(lambda: setup.line.verbs() == ["heartbeat"], 5)
        setup.heartbeats.attach(setup.lease, setup.report)
        with setup.line.changed:
            assert setup.line.changed.wait_for(lambda: "progress" in setup.line.verbs(), 5)
        # The lease has run since the claim was sent.
        assert setup.line.verbs()[:2] == ["heartbeat", "heartbeat"]
    finally:
        setup.heartbeats.stop()
