"""Predicts when jobs and the queue will finish, and records how accurate the predictions were."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.running_jobs import LiveJob, RunningJobs
from tqstudio.engine.live.speed_model import SpeedModel, is_measurable, pace_variance, queue_variance, work_of
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.lists.records import JobRecord
from tqstudio.engine.store.machine import speeds
from tqstudio.errors import TqError
from tqstudio.lifecycle import JobStatus, RenditionStatus, Step
from tqstudio.protocol.answers import EtaView

Bound = Literal["eta_s", "low_s", "high_s"]
_SAMPLE = 200
"""Waiting jobs that are estimated individually; the others count as their average."""
_KEPT_S = 5.0
"""How long that average is cached; running jobs are always estimated again."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The average time of a waiting job in seconds of one worker; None if it cannot be estimated."""

    mean_s: float | None
    variance: float
    at: float


class Forecasts:
    """Predicts durations of jobs and of the queue."""

    def __init__(self, db: Database, running_jobs: RunningJobs) -> None:
        self._db, self._running_jobs = db, running_jobs
        self._waiting = _Waiting(None, 0.0, -_KEPT_S)
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
        renditions = live.renditions or ()
        work = work_of(
            outline.facts,
            outline.profile_json,
            live.encoder or CPU_ENCODER,
            requested=outline.requested,
            kept=[row.name for row in renditions if row.status == RenditionStatus.SKIPPED],
            done=_done(renditions),
        )
        if work is None:
            return
        prediction = self.speed_model.predict(work)
        self._running_jobs.set_prediction(live.token, prediction)
        # A short run is not stored, because most of its time is the start of ffmpeg.
        if prediction.seconds is not None and is_measurable(work):
            with contextlib.suppress(TqError):  # the disk is full: this prediction is not recorded
                await self._db.write(speeds.set_prediction, live.token.job, prediction.seconds)

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
            rest_s = max(0.0, outcome.run_s - encode_s)
            learnt = self.speed_model.learn(live.prediction.work, encode_s, rest_s)
            await self._db.write(speeds.save, learnt, now=now_us())

    # For screens

    def of_running(self, live: LiveJob) -> EtaView | None:
        """Estimates the remaining time of a running job by its pace, at first by its prediction."""
        spent_s = _spent_s(live.steps)
        if live.eta_s is not None:
            return self._view(live.eta_s, pace_variance(spent_s))
        prediction = live.prediction
        if prediction is None or prediction.seconds is None:
            return None
        return self._view(max(0.0, prediction.seconds - spent_s), prediction.variance)

    def of_waiting(self, record: JobRecord) -> EtaView | None:
        """Estimates the duration of a waiting job."""
        if record.status not in (JobStatus.PENDING, JobStatus.PAUSED):
            return None
        done = _done(record.renditions)
        work = work_of(record.facts, record.profile_json, CPU_ENCODER, requested=record.requested, done=done)
        prediction = None if work is None else self.speed_model.predict(work)
        if prediction is None or prediction.seconds is None:
            return None
        return self._view(prediction.seconds, prediction.variance)

    def _view(self, eta_s: float, variance: float) -> EtaView:
        low, high = self.speed_model.range_s(eta_s, variance)
        return {"eta_s": eta_s, "low_s": low, "high_s": high}

    async def of_queue(self, *, pending: int, workers: int) -> EtaView | None:
        """Estimates when all waiting and running jobs will be finished.

        Args:
            pending: number of waiting jobs.
            workers: number of workers that accept jobs.
        """
        running = [view for live in self._running_jobs.jobs.values() if (view := self.of_running(live))]
        waiting = await self._of_waiting() if pending else None
        if (
            (pending and waiting is None)
            or (self._running_jobs.jobs and not running)
            or not (running or pending)
        ):
            return None

        # The errors of estimates are correlated, so their ranges add up.
        def until_finished(bound: Bound) -> float:
            all_s = [view[bound] for view in running]
            longest_s = max(all_s, default=0.0)
            return max(
                (sum(all_s) + (waiting[bound] * pending if waiting else 0.0)) / max(1, workers), longest_s
            )

        return {
            "eta_s": until_finished("eta_s"),
            "low_s": until_finished("low_s"),
            "high_s": until_finished("high_s"),
        }

    async def _of_waiting(self) -> EtaView | None:
        """Estimates an average waiting job."""
        if time.monotonic() - self._waiting.at >= _KEPT_S:
            self._waiting = await self._mean_of_waiting()
        mean_s = self._waiting.mean_s
        return None if mean_s is None else self._view(mean_s, self._waiting.variance)

    async def _mean_of_waiting(self) -> _Waiting:
        waiting = await self._db.read(speeds.waiting, limit=_SAMPLE)
        found: list[tuple[float, float]] = []
        for job in waiting:
            work = work_of(job.facts, job.profile_json, CPU_ENCODER, requested=job.requested)
            prediction = None if work is None else self.speed_model.predict(work)
            if prediction is not None and prediction.seconds is not None:
                found.append((prediction.seconds, prediction.variance))
        if not found:
            return _Waiting(None, 0.0, time.monotonic())
        total_s = sum(seconds for seconds, _ in found)
        variance = sum(seconds * variance for seconds, variance in found) / total_s if total_s else 0.0
        variance += queue_variance(len(found), len(waiting) - len(found))
        return _Waiting(total_s / len(found), variance, time.monotonic())


def _spent_s(steps: Mapping[str, float]) -> float:
    """Sums the seconds of a run, without the poster, which is created in parallel."""
    return sum(seconds for step, seconds in steps.items() if step != Step.THUMBNAIL)


def _done(renditions: Iterable[RenditionRow]) -> dict[str, float]:
    """Returns the finished share of each quality."""
    return {row.name: row.segments_done / row.segments_total for row in renditions if row.segments_total}
