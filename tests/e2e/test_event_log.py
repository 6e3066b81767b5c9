"""The log alone reports the whole history of a job; the database agrees with it at every step."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tqstudio.lifecycle import TRANSITIONS, JobStatus
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio

_ALLOWED = {(t.source, t.target) for t in TRANSITIONS}


def rebuilt(events: Iterable[dict[str, Any]]) -> list[str]:
    """The statuses a job had, from its events; each must follow from the one before."""
    history: list[str] = []
    for event in events:
        if event["target"] is None:
            # A control request, a new priority: the status stays.
            assert event["source"] in (None, history[-1])
            continue
        assert event["source"] == (history[-1] if history else None), (event, history)
        if event["trigger"] in ("deleted", "undeleted"):
            assert event["target"] == event["source"]
            continue
        source = None if event["source"] is None else JobStatus(event["source"])
        assert (source, JobStatus(event["target"])) in _ALLOWED, event
        history.append(event["target"])
    return history


def _agree(studio: Studio, job: int, *expected: str) -> None:
    """Events, database and API say the same while nothing moves."""
    history = rebuilt(studio.events(job))
    assert history == list(expected)
    assert history[-1] == studio.stored_status(job) == studio.job(job)["status"]


@pytest.mark.slow
def test_the_history_of_a_job_from_its_events(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio().up()
    source = copy(clip(seconds=12), "steered.mp4")
    job = studio.add(source, hold=True)
    so_far = ["paused"]
    _agree(studio, job, *so_far)

    studio.do("priority", job, priority=3)
    studio.do("delete", job)
    studio.do("undelete", job)
    _agree(studio, job, *so_far)

    with studio.paced(1):
        studio.do("resume", job)
        studio.running(job)
        studio.do("pause", job)
        studio.wait(job, "paused")
        so_far += ["pending", "in_progress", "paused"]
        _agree(studio, job, *so_far)

        studio.do("resume", job)
        studio.running(job)
        studio.do("cancel", job)
        studio.wait(job, "cancelled")
        so_far += ["pending", "in_progress", "cancelled"]
        _agree(studio, job, *so_far)

        content = source.read_bytes()
        source.unlink()
        studio.do("retry", job)
        studio.wait(job, "failed")
        so_far += ["pending", "in_progress", "failed"]
        _agree(studio, job, *so_far)

        source.write_bytes(content)
        studio.do("retry", job)
        studio.running(job)
        studio.do("restart", job)
        so_far += ["pending", "in_progress", "pending"]
        until(lambda: rebuilt(studio.events(job))[: len(so_far)] == so_far, "it was started over")
        studio.running(job)
        studio.terminate()
    studio.until_gone()
    assert studio.stored_status(job) == "pending"

    studio.up()
    studio.done(job)
    _agree(studio, job, *so_far, "in_progress", "pending", "in_progress", "done")
    numbers = [event["seq"] for event in studio.events(job)]
    assert numbers == sorted(set(numbers))
    triggers = {event["trigger"] for event in studio.events(job)}
    assert triggers >= {
        "create_held",
        "priority_changed",
        "deleted",
        "undeleted",
        "pause_requested",
        "cancel_requested",
    }
    assert triggers >= {"restart_requested", "restart", "aborted:shutdown", "complete"}


@pytest.mark.slow
def test_the_log_can_be_taken_along(shared: Studio, clip: MakeClip, copy) -> None:
    studio = shared
    job = studio.add(copy(clip(), "logged.mp4"))
    studio.done(job)
    exported = studio("events", "--job", str(job), "--csv")
    assert exported.code == 0
    assert exported.out.splitlines()[0].split(",")[0] == "seq"
    assert len(exported.out.splitlines()) == 1 + len(studio.events(job))
    lines = studio("events", "--job", str(job), "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [event["seq"] for event in studio.events(job)]
