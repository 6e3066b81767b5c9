"""The life of a worker: claiming, reporting how a job ended, and ending itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.engine.worker import session as session_module
from tqstudio.engine.worker.program import main, take_identity
from tqstudio.engine.worker.reporting import retry_delay
from tqstudio.engine.worker.reporting.outcome import Done, Failed, Lost, Outcome, Stopped
from tqstudio.engine.worker.session import WorkerIdentity, WorkerSession
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.protocol.requests import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    RegisterRequest,
    ReleaseRequest,
)
from tqstudio.protocol.worker_answers import ClaimedJob

from .conftest import MakeJob, RecordingLine

AWAY = TqError(ErrorCode.NO_SUPERVISOR, "no supervisor answers")
FULL = TqError(ErrorCode.DISK_LOW, "the database cannot be written")
WRONG_TOKEN = TqError(ErrorCode.UNAUTHORIZED, "the token is wrong")
TERMS = {
    "worker": 1,
    "name": "cpu-0",
    "heartbeat_s": 10.0,
    "long_poll_s": 20.0,
    "reuse_segments": True,
    "ffmpeg_nice": 10,
    "stall_s": 120.0,
    "time_limit_factor": 20.0,
    "time_limit_min_s": 300.0,
    "time_limit_max_s": 43200.0,
    "disk_reserve_bytes": 0,
    "disk_factor": 1.5,
}


@pytest.fixture
def line() -> RecordingLine:
    """After one job the token is no longer good, which ends the session."""
    return RecordingLine(
        {
            "register": [TERMS],
            "heartbeat": [{"controls": {}, "lost": [], "enabled": True}],
            "progress": [{"control": "none"}],
            "claim": [WRONG_TOKEN],
            **{verb: [{"job": 7, "status": verb}] for verb in ("complete", "fail", "release")},
        }
    )


@pytest.fixture
def session(line: RecordingLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerSession]:
    monkeypatch.setattr(retry_delay, "FIRST_S", 0.001)
    monkeypatch.setattr(retry_delay, "LAST_S", 0.001)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield WorkerSession(
        WorkerIdentity("cpu-0", WorkerKind.CPU, Path("nowhere"), "token", "ffmpeg"), lambda _: line
    )
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch, line: RecordingLine, make_job: MakeJob, tmp_path: Path) -> Any:
    """Lets one job be claimed whose work ends in a given way."""

    def set_outcome(outcome: Outcome | Exception) -> None:
        def work(job: ClaimedJob, *_: object) -> Outcome:
            assert job["job"] == 7
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(session_module.pipeline, "run", work)
        monkeypatch.setattr(session_module, "locate", lambda _: None)
        line.answers["claim"] = [{"job": make_job(tmp_path / "x.mp4", epoch=4), "test": False}, WRONG_TOKEN]

    return set_outcome


def reported(line: RecordingLine) -> list[tuple[str, dict[str, Any]]]:
    return [(verb, body) for verb, body in line.sent if verb in ("complete", "fail", "release")]


DONE = Done(
    {"renditions": [], "keep": ["360p"], "poster": None, "settings_hash": "s", "warnings": []}, "full"
)


def test_done_is_reported(session: WorkerSession, line: RecordingLine, ends_with: Any) -> None:
    ends_with(DONE)
    assert session.run() == 1
    RegisterRequest(**line.sent[0][1])
    ClaimRequest(**next(body for verb, body in line.sent if verb == "claim"))
    [(verb, body)] = reported(line)
    assert (verb, CompleteRequest(**body).epoch, body["full_hash"]) == ("complete", 4, "full")


def test_failed_is_reported(session: WorkerSession, line: RecordingLine, ends_with: Any) -> None:
    ends_with(Failed(ErrorCode.NO_MEDIA, "x.mp4 holds no video", "remove it"))
    session.run()
    [(verb, body)] = reported(line)
    assert (verb, FailRequest(**body).code) == ("fail", "NO_MEDIA")


@pytest.mark.parametrize("reason", ["pause", "cancel", "restart", "shutdown"])
def test_stopped_is_reported(
    session: WorkerSession, line: RecordingLine, ends_with: Any, reason: Any
) -> None:
    ends_with(Stopped(reason))
    session.run()
    [(verb, body)] = reported(line)
    assert (verb, ReleaseRequest(**body).reason) == ("release", reason)


def test_lost_is_not_reported(session: WorkerSession, line: RecordingLine, ends_with: Any) -> None:
    ends_with(Lost("gone"))
    session.run()
    assert reported(line) == []
    assert line.verbs().count("claim") == 2


def test_a_crash_of_the_pipeline_is_reported(
    session: WorkerSession, line: RecordingLine, ends_with: Any
) -> None:
    ends_with(KeyError("surprise"))
    session.run()
    [(verb, body)] = reported(line)
    assert (verb, FailRequest(**body).code) == ("fail", "INTERNAL")


@pytest.mark.fault(
    "A worker reports an outcome that cannot be stored",
    "It repeats the report until it is stored",
    area="database",
)
def test_it_is_reported_until_it_is_heard(
    session: WorkerSession, line: RecordingLine, ends_with: Any
) -> None:
    ends_with(DONE)
    line.answers["complete"] = [AWAY, FULL, {"job": 7, "status": "done"}]
    session.run()
    bodies = [body for _, body in reported(line)]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("code", [ErrorCode.LOST_LEASE, ErrorCode.NOT_FOUND])
def test_a_job_that_is_gone_is_left_alone(
    session: WorkerSession, line: RecordingLine, ends_with: Any, code: ErrorCode
) -> None:
    ends_with(DONE)
    line.answers["complete"] = [TqError(code, "gone")]
    session.run()
    assert [verb for verb, _ in reported(line)] == ["complete"]


def test_a_result_that_is_not_accepted_is_a_failure(
    session: WorkerSession, line: RecordingLine, ends_with: Any
) -> None:
    ends_with(DONE)
    line.answers["complete"] = [TqError(ErrorCode.PUBLISH_FAILED, "cannot write to /out")]
    session.run()
    assert [verb for verb, _ in reported(line)] == ["complete", "fail"]
    assert reported(line)[1][1]["code"] == "PUBLISH_FAILED"


def test_a_release_that_is_not_accepted_ends_nothing(
    session: WorkerSession, line: RecordingLine, ends_with: Any
) -> None:
    ends_with(Stopped("pause"))
    line.answers["release"] = [TqError(ErrorCode.INTERNAL, "oops")]
    session.run()
    assert line.verbs().count("claim") == 2


def test_it_waits_for_a_supervisor(session: WorkerSession, line: RecordingLine) -> None:
    line.answers["register"] = [AWAY, AWAY, TERMS]
    line.answers["claim"] = [
        AWAY,
        {"job": None, "test": False},
        TqError(ErrorCode.INTERNAL, "oops"),
        WRONG_TOKEN,
    ]
    assert session.run() == 1
    assert line.verbs().count("register") == 3
    assert line.verbs().count("claim") == 4


def test_a_refused_registration_ends_it(session: WorkerSession, line: RecordingLine) -> None:
    line.answers["register"] = [WRONG_TOKEN]
    assert session.run() == 1
    assert line.verbs() == ["register"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_worker_at_once(
    session: WorkerSession, line: RecordingLine, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    release = threading.Event()
    send = line.send

    def block(call: Any, *, timeout_s: float | None = None) -> Any:
        if call.path.endswith("/claim"):
            # As a long poll does: nothing arrives but the signal.
            threading.Thread(target=os.kill, args=(os.getpid(), number)).start()
            release.wait(30)
            pytest.fail("the claim was not broken off")
        return send(call, timeout_s=timeout_s)

    monkeypatch.setattr(line, "send", block)
    assert session.run() == 0
    assert reported(line) == []


def test_no_ffmpeg_inherits_the_token() -> None:
    environment = {
        "TQSTUDIO_WORKER_TOKEN": "secret",
        "TQSTUDIO_WORKER_NAME": "gpu-0",
        "TQSTUDIO_WORKER_KIND": "gpu",
        "TQSTUDIO_WORKER_SOCKET": "/run/s.sock",
        "TQSTUDIO_WORKER_FFMPEG": "/opt/ffmpeg",
        "TQSTUDIO_WORKER_ENCODER": "h264_nvenc",
        "TQSTUDIO_WORKER_DEVICE": "1",
        "TQSTUDIO_WORKER_DECODES": "h264 hevc",
    }
    identity = take_identity(environment)
    assert identity == WorkerIdentity(
        *("gpu-0", WorkerKind.GPU, Path("/run/s.sock"), "secret", "/opt/ffmpeg", "h264_nvenc", "1"),
        decodes="h264 hevc",
    )
    assert "secret" not in environment.values()


def test_started_by_hand_it_reports_that(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TQSTUDIO_WORKER_TOKEN", raising=False)
    monkeypatch.setattr("tqstudio.engine.worker.program.die_with_parent", lambda _: True)
    assert main() == 2
    assert "started by the supervisor" in capfd.readouterr().err


@pytest.mark.parametrize("kind", [WorkerKind.CPU, WorkerKind.GPU])
def test_a_worker_that_cannot_confine_ffmpeg_claims_nothing_where_that_is_required(
    kind: WorkerKind, line: RecordingLine, tmp_path: Path
) -> None:
    """A script cannot be confined, nor can an encode on a GPU."""
    script = tmp_path / "ffmpeg"
    script.write_text(f'#!/bin/sh\nexec "{locate().path}" "$@"\n')
    script.chmod(0o755)
    line.answers["register"] = [TERMS | {"confined": True}]
    path = str(script) if kind is WorkerKind.CPU else locate().path
    worker = WorkerSession(WorkerIdentity("w", kind, Path("nowhere"), "token", path), lambda _: line)
    assert worker.run() == 1
    assert [verb for verb, _ in line.sent] == ["register"]


def test_a_worker_that_can_confine_ffmpeg_works_where_that_is_required(line: RecordingLine) -> None:
    line.answers["register"] = [TERMS | {"confined": True}]
    worker = WorkerSession(
        WorkerIdentity("w", WorkerKind.CPU, Path("nowhere"), "token", locate().path), lambda _: line
    )
    worker.run()
    assert "claim" in [verb for verb, _ in line.sent]


def test_a_worker_claims_nothing_while_it_rests(line: RecordingLine, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[float, list[str]]] = []
    rests = iter([300.0, 0.0])

    def sleep(seconds: float) -> None:
        waits.append((seconds, [verb for verb, _ in line.sent]))

    monkeypatch.setattr(session_module.time, "sleep", sleep)
    identity = WorkerIdentity("far", WorkerKind.CPU, Path("nowhere"), "token", "ffmpeg")
    WorkerSession(identity, lambda _: line, between_jobs=lambda: next(rests)).run()
    [(_, before)] = [each for each in waits if each[0] == 300.0]
    assert before[0] == "register"
    assert "claim" not in before
    assert "claim" in [verb for verb, _ in line.sent]
