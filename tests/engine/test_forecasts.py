"""What a finished job teaches, and which of them an estimate is judged by."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from store.conftest import supervisor_of
from tqstudio.engine.host.clock import MICROSECOND, RunningClock, now_us
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.running_jobs import LiveJob, Prediction, RunningJobs
from tqstudio.engine.live.workload import Workload
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, outcomes
from tqstudio.engine.store.jobs.claims import Claimant, LeaseToken
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.machine import speeds, workers

from .test_speed_model import FAST, TINY, facts, work


def finish(
    opened: Database, forecasts: Forecasts, of: Workload, seconds: float, *, divided: bool = False
) -> float | None:
    """Predict a run and have it take so long; answers what was predicted."""
    predicted_s = forecasts.speed_model.predict(of)
    recorded_s = predicted_s if of.is_measurable and not divided else None
    token = opened.write_now(_run, seconds + 1, recorded_s)
    steps = {"extras": 9.0, "transcode": seconds, "finalize": 1.0}
    live = LiveJob(token, "cpu-0", steps=steps, prediction=Prediction(of, predicted_s, 0.0), divided=divided)
    asyncio.run(forecasts.finished(token, live, {}))
    return predicted_s


def _run(db: Connection, seconds: float, predicted_s: float | None) -> LeaseToken:
    """A job that one run of so many seconds has done."""
    began = now_us() - int(seconds * MICROSECOND)
    source = b"/in/%d.mp4" % began
    video = videos.create(db, videos.NewVideo(source, b"/out", "a.mp4", "a", "a", 1, 1, "hash"), now=began)
    jobs.create(
        db,
        jobs.NewJob(video=video, profile="fast", profile_json="{}", prefer_gpu=False),
        now=began,
        actor="test",
    )
    worker = workers.ensure(db, "cpu-0", "cpu", device=None)
    who = Claimant(worker.id, "cpu-0", "cpu", "an instance")
    workers.register(
        db,
        worker.id,
        instance=who.instance,
        pid=1,
        pid_started=1.0,
        encoder=None,
        capabilities={},
        metadata={},
        now=began,
    )
    lease = claims.claim(db, who, supervisor=supervisor_of(db), now=began, idle_gpus=0, gpu_grace_us=0)
    assert lease is not None
    if predicted_s is not None:
        speeds.set_prediction(db, lease.job, predicted_s)
    assert outcomes.complete(
        db, lease.token, now=began + int(seconds * MICROSECOND), worker="cpu-0", detail=""
    )
    return lease.token


def test_estimates_are_not_judged_by_jobs_with_next_to_nothing_to_do(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    normal = work(facts())
    assert finish(opened, forecasts, normal, 30.0) is None
    assert finish(opened, forecasts, normal, 31.0) is not None
    before = forecasts.speed_model.error, forecasts.speed_model.predict(normal)
    for source, taken in TINY.values():
        assert finish(opened, forecasts, work(source), taken) is not None
    assert forecasts.speed_model.judged == 1
    assert (forecasts.speed_model.error, forecasts.speed_model.predict(normal)) == before
    asyncio.run(forecasts.load())
    assert forecasts.speed_model.predict(normal) == before[1], "nor does the next supervisor know of them"


def test_the_poster_is_made_beside_the_rest_and_takes_no_time_of_its_own(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    normal = work(facts())
    finish(opened, forecasts, normal, 30.0)
    prediction = finish(opened, forecasts, normal, 30.0)
    assert prediction == pytest.approx(31.0)
    assert forecasts.speed_model.error == pytest.approx(0)


def test_a_job_of_several_workers_teaches_nothing(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    normal = work(facts())
    finish(opened, forecasts, normal, 30.0)
    before = forecasts.speed_model.judged, forecasts.speed_model.predict(normal)
    finish(opened, forecasts, normal, 15.0, divided=True)
    assert (forecasts.speed_model.judged, forecasts.speed_model.predict(normal)) == before


ONE = LeaseToken(1, 1, "an instance")


def left_s(forecasts: Forecasts, live: LiveJob) -> float | None:
    view = forecasts.of_running(live)
    return view and view["eta_s"]


def test_a_running_job_is_estimated_by_its_prediction_and_then_by_its_pace(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    live = LiveJob(ONE, "cpu-0", step="transcode")
    assert left_s(forecasts, live) is None, "no grounds yet"
    assert left_s(forecasts, replace(live, eta_s=9.0)) == 9
    forecasts.speed_model.learn(work(facts()), 30.0, 2.0)
    predicted = replace(live, prediction=Prediction(work(facts()), 102.0, 0.0))
    assert left_s(forecasts, predicted) == pytest.approx(102)
    assert left_s(forecasts, replace(predicted, eta_s=500.0)) == pytest.approx(102), "nothing is done yet"
    # It takes twice as long as predicted, and its pace is known after 2 %.
    seen = [
        left_s(forecasts, replace(predicted, progress=done, eta_s=2.0 * (100 - done) if done > 2 else None))
        for done in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 90.0)
    ]
    assert seen[:2] == [pytest.approx(101), pytest.approx(100)], "without a pace it falls too"
    assert seen[3:] == sorted(seen[3:], reverse=True)
    assert seen[-2:] == [pytest.approx(102, rel=0.1), pytest.approx(22, rel=0.1)]
    resumed = replace(predicted, prediction=Prediction(work(facts()), 52.0, 50.0), progress=75.0)
    assert left_s(forecasts, resumed) == pytest.approx(27)
    assert left_s(forecasts, replace(predicted, step="finalize", progress=98.0)) == pytest.approx(2)


def _wait(db: Database, number: int, source: SourceFacts | None) -> None:
    """Add a job that waits; without facts its source is not probed yet."""

    def add(db: Connection) -> None:
        new = videos.NewVideo(b"/in/%d.mp4" % number, b"/out", str(number), "a", "a", 1, 1, "hash")
        video = videos.create(db, new, now=1)
        if source is not None:
            videos.set_facts(db, video, json.loads(json.dumps(source.to_json())), quick_hash=None)
        text = json.dumps(FAST.to_json())
        jobs.create(
            db,
            jobs.NewJob(video=video, profile="fast", profile_json=text, prefer_gpu=False),
            now=1,
            actor="a",
        )

    db.write_now(add)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_queue_ends_when_its_workers_have_done_everything(opened: Database, workers: int) -> None:
    running = RunningJobs(Leases(1, 1, 1, RunningClock(1)))
    forecasts = Forecasts(opened, running)
    assert asyncio.run(forecasts.of_queue(pending=0, workers=workers)) is None, "there is nothing to do"
    for number in range(3):
        _wait(opened, number, facts())
    assert asyncio.run(forecasts.of_queue(pending=3, workers=workers)) is None, "nothing was measured"
    forecasts = Forecasts(opened, running)
    forecasts.speed_model.learn(work(facts()), 30.0, 2.0)
    running.jobs[9] = LiveJob(LeaseToken(9, 1, "i"), "cpu-0", step="transcode", eta_s=18.0)
    view = asyncio.run(forecasts.of_queue(pending=3, workers=workers))
    assert view is not None
    assert view["eta_s"] == pytest.approx(max((20 + 3 * 32) / workers, 32))
    assert view["low_s"] < view["eta_s"] < view["high_s"]


def test_a_queue_of_mostly_unknown_jobs_has_no_estimate(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    forecasts.speed_model.learn(work(facts()), 30.0, 2.0)
    for number, source in enumerate([facts(), None, None]):
        _wait(opened, number, source)
    assert asyncio.run(forecasts.of_queue(pending=3, workers=1)) is None
