"""What a job will take is predicted from what earlier ones took here, and held against the outcome."""

from __future__ import annotations

import pytest

from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import seconds_between

LARGE = "1280x720"
"""A size of which a few seconds are enough work to be measured."""


@pytest.mark.more
def test_the_second_job_is_predicted_from_the_first(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio().up()
    assert studio.status()["eta_error"] == {"median": None, "jobs": 0}
    with studio.paced(2):
        first = studio.done(studio.add(copy(clip(seconds=6, size=LARGE), "first.mp4")))
        assert (first["predicted_s"], first["eta"]) == (None, None)
        until(lambda: studio.job(first["id"])["actual_s"], "what it took is logged")
        second = studio.add(copy(clip(seconds=9, size=LARGE), "second.mp4"))
        studio.running(second)
        eta = until(lambda: studio.job(second)["eta"], "a range is reported")
        assert 0 <= eta["low_s"] <= eta["eta_s"] <= eta["high_s"]
        studio.done(second)
    done = until(lambda: (job := studio.job(second))["actual_s"] and job, "what it took is logged")
    assert done["predicted_s"] > 0
    [attempt] = done["attempts_log"]
    steps = attempt["steps"]
    assert steps["extras"] > 0
    assert steps["finalize"] > 0
    span_s = seconds_between(attempt["started_at"], attempt["ended_at"])
    # Only the poster is made beside another step.
    assert span_s / 2 < sum(steps.values()) - steps["extras"] < span_s + 1
    error = abs(done["predicted_s"] - done["actual_s"]) / done["actual_s"]
    assert studio.status()["eta_error"] == {"median": pytest.approx(error), "jobs": 1}

    tiny = studio.add(copy(clip(seconds=1), "tiny.mp4"))
    studio.done(tiny)
    assert until(lambda: studio.job(tiny)["actual_s"], "it is logged")
    assert studio.job(tiny)["predicted_s"] is None, "so little is no judgement of an estimate"
    assert studio.status()["eta_error"]["jobs"] == 1

    studio.down()
    studio.up()
    assert studio.status()["eta_error"]["jobs"] == 1, "it is remembered"
    with studio.paced(2):
        third = studio.add(copy(clip(seconds=6, size=LARGE), "third.mp4"))
        studio.done(third)
    assert until(lambda: studio.job(third)["actual_s"], "it is logged")
    assert studio.job(third)["predicted_s"] > 0


@pytest.mark.more
def test_a_job_is_judged_by_what_was_predicted_at_its_start(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    """It dies near its end, and again in mid-publish: another supervisor finishes it."""
    studio = make_studio().up()
    with studio.paced(2):
        first = studio.done(studio.add(copy(clip(seconds=6, size=LARGE), "first.mp4")))
        assert first["actual_s"] > 0
        job = studio.add(copy(clip(seconds=12, size=LARGE), "killed.mp4"))
        studio.running(job)
        predicted = studio.job(job)["predicted_s"]
        assert predicted > 0
        assert studio.job(job)["actual_s"] is None, "it is not done"
        studio.kill()
        studio.fail_point = "publish.pointed"
        studio.launch()
        studio.died()
        studio.up()
    done = studio.done(job)
    *earlier, last = done["attempts_log"]
    assert earlier
    assert done["predicted_s"] == predicted, "not what was left for the last run"
    assert done["actual_s"] > sum(last["steps"].values()), "the first run counts too"
    error = abs(predicted - done["actual_s"]) / done["actual_s"]
    assert studio.status()["eta_error"] == {"median": pytest.approx(error), "jobs": 1}


@pytest.mark.more
def test_the_range_of_the_queue_holds_what_a_busy_machine_takes(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    """What is predicted from one short job is reported so: the next one is held to a third of its speed."""
    studio = make_studio().up()
    with studio.paced(3):
        first = studio.done(studio.add(copy(clip(seconds=9, size=LARGE), "first.mp4")))
    until(lambda: studio.job(first["id"])["actual_s"], "what it took is logged")
    second = studio.add(copy(clip(seconds=9, size=LARGE), "second.mp4"), hold=True)
    eta = until(lambda: studio.job(second)["eta"], "a job that waits is predicted")
    with studio.paced(1):
        studio.do("resume", second)
        studio.running(second)
        queue = until(lambda: studio.status()["eta"], "the queue is predicted")
        assert queue["low_s"] <= queue["eta_s"] <= queue["high_s"]
        studio.done(second)
    taken = until(lambda: studio.job(second)["actual_s"], "what it took is logged")
    assert eta["low_s"] <= taken <= eta["high_s"]
    # A bound that no load moves: the range says something.
    assert eta["high_s"] < 600

    # A clip of 2 s moves no estimate by more than its share of the work.
    third = studio.add(copy(clip(seconds=12, size=LARGE), "third.mp4"), hold=True)
    before = until(lambda: studio.job(third)["eta"], "it is predicted")
    with studio.paced(1):
        tiny = studio.done(studio.add(copy(clip(seconds=2, size=LARGE), "tiny.mp4")))
    until(lambda: studio.job(tiny["id"])["actual_s"], "what it took is logged")
    after = studio.job(third)["eta"]
    assert before["eta_s"] / 1.5 < after["eta_s"] < before["eta_s"] * 1.5
