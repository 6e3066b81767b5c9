"""What a finished job teaches, and which of them an estimate is judged by."""

from __future__ import annotations

import asyncio

import pytest

from store.conftest import supervisor_of
from tqstudio.engine.host.clock import MICROSECOND, RunningClock, now_us
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.running_jobs import LiveJob, RunningJobs
from tqstudio.engine.live.speed_model import is_measurable
from tqstudio.engine.live.workload import Workload, workload
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, outcomes
from tqstudio.engine.store.jobs.claims import Claimant, LeaseToken
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.machine import speeds, workers

from .test_speed_model import FAST, TINY, facts


def finish(
    opened: Database, forecasts: Forecasts, work: Workload, seconds: float, *, divided: bool = False
) -> float | None:
    """Predict a run and have it take so long; answers what was predicted."""
    prediction = forecasts.speed_model.predict(work)
    predicted_s = prediction.seconds if is_measurable(work) and not divided else None
    token = opened.write_now(_run, seconds + 1, predicted_s)
    steps = {"thumbnail": 9.0, "transcode": seconds, "finalize": 1.0}
    live = LiveJob(token, "cpu-0", steps=steps, prediction=prediction, divided=divided)
    asyncio.run(forecasts.finished(token, live, {}))
    return prediction.seconds


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
    normal = workload(facts(), FAST, "libx264")
    assert finish(opened, forecasts, normal, 30.0) is None
    assert finish(opened, forecasts, normal, 31.0) is not None
    before = forecasts.speed_model.error, forecasts.speed_model.predict(normal)
    for source, taken in TINY.values():
        assert finish(opened, forecasts, workload(source, FAST, "libx264"), taken) is not None
    assert forecasts.speed_model.judged == 1
    assert (forecasts.speed_model.error, forecasts.speed_model.predict(normal)) == before
    asyncio.run(forecasts.load())
    assert forecasts.speed_model.predict(normal) == before[1], "nor does the next supervisor know of them"


def test_the_poster_is_made_beside_the_rest_and_takes_no_time_of_its_own(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    work = workload(facts(), FAST, "libx264")
    finish(opened, forecasts, work, 30.0)
    prediction = finish(opened, forecasts, work, 30.0)
    assert prediction == pytest.approx(31.0)
    assert forecasts.speed_model.error == pytest.approx(0)


def test_a_job_of_several_workers_teaches_nothing(opened: Database) -> None:
    forecasts = Forecasts(opened, RunningJobs(Leases(1, 1, 1, RunningClock(1))))
    work = workload(facts(), FAST, "libx264")
    finish(opened, forecasts, work, 30.0)
    before = forecasts.speed_model.judged, forecasts.speed_model.predict(work)
    finish(opened, forecasts, work, 15.0, divided=True)
    assert (forecasts.speed_model.judged, forecasts.speed_model.predict(work)) == before
