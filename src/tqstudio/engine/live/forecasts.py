"""Predicts when jobs and the queue will finish, and records how accurate the predictions were."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from statistics import fmean

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.running_jobs import LiveJob, Prediction, RunningJobs
from tqstudio.engine.live.speed_model import SpeedModel
from tqstudio.engine.live.workload import work_of
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.lists.records import JobRecord
from tqstudio.engine.store.machine import speeds
from tqstudio.errors import TqError
from tqstudio.lifecycle import WAITING, RenditionStatus, Step
from tqstudio.protocol.answers import EtaView

_SAMPLE = 200
"""Waiting jobs that are estimated individually; the others count as their average."""
_KEPT_S = 5.0
"""How long that average is cached; running jobs are always estimated again."""
_TRUST_S = 5.0
"""Predicted seconds of an encode after which its own pace counts as much as the prediction."""


class Forecasts:
    """Predicts durations of jobs and of the queue."""

    def __init__(self, db: Database, running_jobs: RunningJobs) -> None:
        self._db, self._running_jobs = db, running_jobs
        self._mean_s: float | None = None
        self._mean_at = -_KEPT_S
        self.speed_model = SpeedModel()

    async def load(self) -> None:
        """Loads the measurements of earlier supervisors."""
        measured = await self._db.read(speeds.load)
        outcomes = await self._db.read(speeds.last_outcomes)
        self.speed_model = SpeedModel(measured, outcomes)

    # A run

    async def begin(self, live: LiveJob) -> None:
        """Predicts a run when its first command is known, from the work that its qualities still lack."""
        outline = await self._db.read(speeds.outline, live.token.job)
        if outline is None:
            return
        wanted = outline.requested
        if live.renditions is not None:
            wanted = tuple(row["name"] for row in live.renditions if row["status"] != RenditionStatus.SKIPPED)
        left = 1 - live.progress / 100
        encoder = live.encoder or CPU_ENCODER
        work = work_of(outline.facts, outline.profile_json, encoder, wanted=wanted, left=left)
        if work is None:
            return
        seconds = self.speed_model.predict(work)
        self._running_jobs.set_prediction(live.token, Prediction(work, seconds, live.progress))
        # A short run is not stored, because most of its time is the start of ffmpeg.
        if seconds is not None and work.is_measurable:
            with contextlib.suppress(TqError):  # the disk is full: this prediction is not recorded
                await self._db.write(speeds.set_prediction, live.token.job, seconds)

    def run_of(self, token: LeaseToken) -> LiveJob | None:
        """Returns the last report of a lease's run."""
        live = self._running_jobs.jobs.get(token.job)
        return live if live is not None and live.token == token else None

    async def finished(self, token: LeaseToken, live: LiveJob | None, steps: Mapping[str, float]) -> None:
        """Records the accuracy of a finished job's prediction, and updates the speeds by its last run.

        Args:
            live: its last report, from `run_of`.
            steps: seconds of each step of that run.
        """
        outcome = await self._db.read(speeds.outcome, token.job, token.epoch)
        if outcome is None:
            return
        self.speed_model.record_outcome(outcome.predicted_s, outcome.actual_s)
        if live is None or live.prediction is None or live.divided:
            return
        encode_s = {**live.steps, **steps}.get(Step.TRANSCODE.value)
        if encode_s is not None:
            rest_s = max(0.0, outcome.run_s - encode_s - live.quality_s)
            learnt = self.speed_model.learn(live.prediction.work, encode_s, rest_s)
            await self._db.write(speeds.save, learnt, now=now_us())

    # For screens

    def of_running(self, live: LiveJob) -> EtaView | None:
        """Estimates the remaining time of a running job by its prediction, and more and more by its pace."""
        left_s = self._left_s(live)
        return None if left_s is None else self.speed_model.eta(left_s)

    def _left_s(self, live: LiveJob) -> float | None:
        overhead_s, prediction = self.speed_model.overhead_s, live.prediction
        if prediction is None or prediction.seconds is None:
            return None if live.eta_s is None else live.eta_s + overhead_s
        predicted_s = max(0.0, prediction.seconds - overhead_s)
        left = (100 - live.progress) / max(1.0, 100 - prediction.progress)
        encode_s = predicted_s * left if live.step == Step.TRANSCODE else 0.0
        if live.eta_s is not None:
            spent_s = predicted_s * (1 - left)
            encode_s += (live.eta_s - encode_s) * spent_s / (spent_s + _TRUST_S)
        return encode_s + overhead_s

    def of_waiting(self, record: JobRecord) -> EtaView | None:
        """Estimates the duration of a waiting job."""
        if record["status"] not in WAITING:
            return None
        left = 1 - record["progress"] / 100
        work = work_of(
            record["facts"], record["profile_json"], CPU_ENCODER, wanted=record["requested"], left=left
        )
        seconds = None if work is None else self.speed_model.predict(work)
        return None if seconds is None else self.speed_model.eta(seconds)

    async def of_queue(self, *, pending: int, workers: int) -> EtaView | None:
        """Estimates when all waiting and running jobs will be finished.

        Args:
            pending: number of waiting jobs.
            workers: number of workers that accept jobs.
        """
        running = self._running_jobs.jobs.values()
        lefts = [left_s for live in running if (left_s := self._left_s(live)) is not None]
        mean_s = await self._mean_of_waiting() if pending else 0.0
        if mean_s is None or (running and not lefts) or not (running or pending):
            return None
        total_s = sum(lefts) + mean_s * pending
        return self.speed_model.eta(max(total_s / max(1, workers), mean_s, *lefts))

    async def _mean_of_waiting(self) -> float | None:
        """Returns the seconds of an average waiting job; None unless most of them can be estimated."""
        if time.monotonic() - self._mean_at >= _KEPT_S:
            waiting = await self._db.read(speeds.waiting, limit=_SAMPLE)
            works = [
                work_of(job.facts, job.profile_json, CPU_ENCODER, wanted=job.requested) for job in waiting
            ]
            found = [seconds for work in works if work and (seconds := self.speed_model.predict(work))]
            self._mean_s = fmean(found) if found and len(found) * 2 >= len(waiting) else None
            self._mean_at = time.monotonic()
        return self._mean_s
