"""The tables of states and operations, against the ones written down in the tests."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from store.matrix import MATRIX, NAMES_OF
from tqstudio.lifecycle import (
    OPERATIONS,
    QUEUE_ORDER,
    TRANSITIONS,
    Control,
    Effect,
    JobStatus,
    Operation,
    Trigger,
    VideoStatus,
    WorkerStatus,
    claim_word,
    decide,
    job_word,
    sources_of,
    target_of,
    video_status,
    worker_status,
)

_EFFECTS = {"asked": Effect.CONTROL, "same": Effect.NOTHING, "new": Effect.NEW_JOB, "no": None}

_ALLOWED = {
    "none → pending: create",
    "none → paused: create_held",
    "pending → in_progress: claim",
    "pending → paused: pause",
    "pending → cancelled: cancel",
    "paused → pending: resume, restart",
    "paused → cancelled: cancel",
    "in_progress → done: complete",
    "in_progress → pending: fail_retryable, worker_lost, release, restart",
    "in_progress → failed: fail_final",
    "in_progress → paused: pause",
    "in_progress → cancelled: cancel",
    "failed → pending: retry, restart, autorestart",
    "failed → cancelled: cancel",
    "cancelled → pending: retry, restart, uncancel",
    "cancelled → paused: uncancel_paused",
    "cancelled → failed: uncancel_failed",
}


def test_the_transitions_are_those_of_the_design() -> None:
    found: dict[str, set[str]] = {}
    for transition in TRANSITIONS:
        source = transition.source or "none"
        found.setdefault(f"{source} → {transition.target}", set()).add(transition.trigger)
    wanted = {}
    for line in _ALLOWED:
        change, _, triggers = line.partition(": ")
        wanted[change] = set(triggers.split(", "))
    assert found == wanted


def test_done_is_never_left() -> None:
    assert not [t for t in TRANSITIONS if t.source is JobStatus.DONE]


@pytest.mark.parametrize("trigger", get_args(Trigger))
def test_a_trigger_leads_to_one_status(trigger: Trigger) -> None:
    targets = {t.target for t in TRANSITIONS if t.trigger is trigger}
    assert targets == {target_of(trigger)}
    assert sources_of(trigger) == {t.source for t in TRANSITIONS if t.trigger is trigger} - {None}


@pytest.mark.parametrize("operation", list(Operation))
def test_every_operation_answers_for_every_status(operation: Operation) -> None:
    assert set(OPERATIONS[operation]) == set(JobStatus)


@pytest.mark.parametrize(("operation", "status"), list(MATRIX))
def test_the_matrix(operation: Operation, status: JobStatus) -> None:
    cell = MATRIX[operation, status]
    decision = decide(status, operation)
    assert decision.effect is _EFFECTS.get(cell, Effect.NOW)
    if decision.allowed:
        assert decision.reason == ""
    else:
        assert any(name in decision.reason for name in NAMES_OF[status]), "the status is named"
        assert "; " in decision.reason, "the remedy, or why there is none, is named"


@pytest.mark.parametrize(
    ("status", "operation", "first", "then"),
    [
        (JobStatus.PENDING, Operation.RESTART, Operation.CANCEL, JobStatus.CANCELLED),
        (JobStatus.IN_PROGRESS, Operation.PRIORITY, Operation.PAUSE, JobStatus.PAUSED),
        (JobStatus.IN_PROGRESS, Operation.CHANGE, Operation.PAUSE, JobStatus.PAUSED),
        (JobStatus.FAILED, Operation.CHANGE, Operation.RETRY, JobStatus.PENDING),
        (JobStatus.CANCELLED, Operation.CHANGE, Operation.RETRY, JobStatus.PENDING),
        (JobStatus.PENDING, Operation.RETRANSCODE, Operation.CHANGE, JobStatus.DONE),
        (JobStatus.DONE, Operation.PRIORITY, Operation.RETRANSCODE, JobStatus.PENDING),
    ],
)
def test_a_refusal_names_what_makes_it_possible(
    status: JobStatus, operation: Operation, first: Operation, then: JobStatus
) -> None:
    """Whatever the job has behind it: one that waits may have started before, and have finished segments."""
    reason = decide(status, operation).reason
    assert first.value in reason.partition("; ")[2]
    assert decide(status, first).allowed
    assert decide(then, operation).allowed


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_what_is_not_running_comes_back_from_deletion(status: JobStatus) -> None:
    assert decide(status, Operation.UNDELETE).allowed is (status is not JobStatus.IN_PROGRESS)


@pytest.mark.parametrize(
    ("control", "operation", "effect"),
    [
        (Control.PAUSE, Operation.PAUSE, Effect.NOTHING),
        (Control.PAUSE, Operation.RESUME, Effect.CONTROL),
        (Control.PAUSE, Operation.CANCEL, Effect.CONTROL),
        (Control.PAUSE, Operation.RESTART, Effect.CONTROL),
        (Control.RESTART, Operation.PAUSE, Effect.CONTROL),
        (Control.RESTART, Operation.RESUME, Effect.NOTHING),
        (Control.RESTART, Operation.CANCEL, Effect.CONTROL),
        (Control.RESTART, Operation.RESTART, Effect.NOTHING),
        (Control.CANCEL, Operation.PAUSE, None),
        (Control.CANCEL, Operation.RESUME, None),
        (Control.CANCEL, Operation.CANCEL, Effect.NOTHING),
        (Control.CANCEL, Operation.RESTART, None),
    ],
)
def test_a_stronger_control_request_replaces_a_weaker_one(
    control: Control, operation: Operation, effect: Effect | None
) -> None:
    decision = decide(JobStatus.IN_PROGRESS, operation, control)
    assert decision.effect is effect
    if effect is None:
        assert "being cancelled; wait for it" in decision.reason


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not JobStatus.IN_PROGRESS])
@pytest.mark.parametrize("operation", list(Operation))
def test_a_control_request_counts_for_running_jobs_only(status: JobStatus, operation: Operation) -> None:
    for control in Control:
        assert decide(status, operation, control) == decide(status, operation)


def test_words_of_jobs() -> None:
    running = JobStatus.IN_PROGRESS
    assert [job_word(running, control) for control in Control] == [
        "running",
        "pausing…",
        "cancelling…",
        "restarting…",
    ]
    assert job_word(JobStatus.PENDING, Control.NONE) == "pending"
    assert job_word(JobStatus.PENDING, Control.NONE, retrying=True) == "retry"
    assert [job_word(s, Control.NONE) for s in QUEUE_ORDER if s is not running] == [
        "pending",
        "paused",
        "failed",
        "cancelled",
        "done",
    ]


def test_words_of_claims() -> None:
    assert claim_word(JobStatus.PENDING) == "unclaimed"
    assert claim_word(JobStatus.PENDING, attempts=1) == "retrying"
    assert claim_word(JobStatus.IN_PROGRESS) == "claimed"
    assert claim_word(JobStatus.IN_PROGRESS, expired=True) == "expired"
    assert claim_word(JobStatus.DONE) == "completed"
    assert claim_word(JobStatus.FAILED, attempts=3) == "failed"
    assert claim_word(JobStatus.PAUSED, attempts=2) == "unclaimed"
    assert claim_word(JobStatus.CANCELLED) == "unclaimed"


@pytest.mark.parametrize("job", [None, *JobStatus])
def test_a_ready_video_stays_ready(job: JobStatus | None) -> None:
    assert video_status(has_generation=True, job=job) is VideoStatus.READY


def test_words_of_videos_without_a_ladder() -> None:
    words = {job: video_status(has_generation=False, job=job) for job in (None, *JobStatus)}
    assert words == {
        None: VideoStatus.IDLE,
        JobStatus.PENDING: VideoStatus.PENDING,
        JobStatus.PAUSED: VideoStatus.PENDING,
        JobStatus.IN_PROGRESS: VideoStatus.PROCESSING,
        JobStatus.FAILED: VideoStatus.FAILED,
        JobStatus.CANCELLED: VideoStatus.IDLE,
        JobStatus.DONE: VideoStatus.IDLE,
    }


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, WorkerStatus.IDLE),
        ({"busy": True}, WorkerStatus.BUSY),
        ({"registered": False}, WorkerStatus.STARTING),
        ({"draining": True}, WorkerStatus.DISABLED),
        ({"draining": True, "busy": True}, WorkerStatus.DRAINING),
        ({"enabled": False}, WorkerStatus.DISABLED),
        ({"enabled": False, "busy": True}, WorkerStatus.DRAINING),
        ({"enabled": False, "beat_age_s": None}, WorkerStatus.DISABLED),
        ({"beat_age_s": None}, WorkerStatus.OFFLINE),
        ({"beat_age_s": 60.0}, WorkerStatus.IDLE),
        ({"beat_age_s": 60.1}, WorkerStatus.OFFLINE),
        ({"beat_age_s": 60.1, "busy": True}, WorkerStatus.OFFLINE),
        ({"beat_age_s": 60.1, "registered": False}, WorkerStatus.OFFLINE),
    ],
)
def test_words_of_workers(changes: dict[str, object], status: WorkerStatus) -> None:
    facts: dict[str, object] = {
        "enabled": True,
        "draining": False,
        "beat_age_s": 1.0,
        "offline_s": 60.0,
        "registered": True,
        "busy": False,
    }
    assert worker_status(**(facts | changes)) is status  # type: ignore[arg-type]


def test_the_vocabulary_loads_nothing_of_others() -> None:
    code = "import sys, tqstudio.lifecycle, tqstudio.errors; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert not {"pydantic", "sqlalchemy", "textual", "httpx"} & set(loaded.split())
