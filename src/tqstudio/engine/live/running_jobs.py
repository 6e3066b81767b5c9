"""Keeps heartbeats and the progress of running jobs in memory, on the event loop only.

The database gets one flush of all heartbeats per tick, and at most one write per job and second.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.workload import Workload
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.progress import DETAILS, RenditionRow, Report
from tqstudio.lifecycle import Control, RenditionStatus

SAVE_INTERVAL_US = 1_000_000
"""Minimum interval of progress writes per job."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a run when it began."""

    work: Workload
    seconds: float | None
    """Until its end; None while nothing comparable was measured."""
    progress: float
    """That of the job when the run began, 0–100."""


@dataclass(frozen=True, slots=True)
class LiveJob(Report):
    """The newest report of a running job. Times are µs since 1970 in UTC."""

    token: LeaseToken
    worker: str
    copied: float | None = None
    """0–100, of the source, while it is copied to another machine."""
    doing: str | None = None
    """What is shown in place of the step."""
    quality_s: float = 0.0
    """Seconds spent on `video.quality`, which jobs without it do not need."""
    stored: float = 0.0
    """0–100, as stored: never less than in an earlier run, unless finished segments were removed."""
    speed: float | None = None
    eta_s: float | None = None
    at: int = 0
    """When it was reported."""
    moved_at: int = 0
    """Time of the last progress; reports alone only show that the worker is alive."""
    saved_at: int = 0
    unsaved: bool = False
    control: Control = Control.NONE
    hours_over: bool = False
    """Its hours have ended, so its worker has to release it."""
    blocked_s: float = 0.0
    """Seconds for which the worker's main thread was blocked."""
    prediction: Prediction | None = None
    """The prediction for this run when its encode began."""
    divided: bool = False
    """Whether other workers have got ranges of it, so that its time does not measure one of them."""

    @property
    def shown_step(self) -> str | None:
        """The step, what is done within it, or how far its source is copied."""
        return self.doing or (self.step if self.copied is None else f"copy {self.copied:.0f} %")

    @property
    def asked(self) -> str:
        """What its worker is asked to do: a person's request, else `hours` when its hours have ended."""
        return "hours" if self.hours_over and self.control is Control.NONE else self.control.value


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of a worker's process."""

    worker: int
    at: int
    instance: str
    cpu_percent: float | None = None
    memory_bytes: int | None = None


def _timed(report: LiveJob, before: LiveJob) -> Sequence[RenditionRow] | None:
    """Adds to the renditions of a report the times at which this run began and completed them.

    Renditions that were complete in the first report have none: another run encoded them.
    """
    if report.renditions is None:
        return before.renditions
    known = {row["name"]: row for row in before.renditions or ()}
    return tuple(
        _timed_row(row, known.get(row["name"]), at=report.at, before=before.at) for row in report.renditions
    )


def _timed_row(row: RenditionRow, was: RenditionRow | None, *, at: int, before: int) -> RenditionRow:
    """Adds start and end time to a rendition.

    Args:
        at: time of the report with `row`.
        before: time of the report with `was`; a short quality may begin and end between two reports.
    """
    started_at = was["started_at"] if was is not None else None
    completed_at = None
    if row["status"] == RenditionStatus.IN_PROGRESS:
        started_at = started_at or at
    elif row["status"] == RenditionStatus.COMPLETED and was is not None:
        if was["status"] != RenditionStatus.COMPLETED:
            started_at, completed_at = started_at or before, at
        else:
            completed_at = was["completed_at"]
    return {**row, "started_at": started_at, "completed_at": completed_at}


class RunningJobs:
    """The running jobs and the workers' heartbeats, by id.

    Args:
        idle_after_us: time without progress after which a running job counts as stalled.
        on_end: called when a job is no longer running.
    """

    def __init__(
        self,
        leases: Leases,
        idle_after_us: int = 30_000_000,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._idle_after_us = idle_after_us
        self.jobs: dict[int, LiveJob] = {}
        self.heartbeats: dict[int, Heartbeat] = {}
        self._last_contact: dict[int, int] = {}
        """When each worker registered or sent its last heartbeat, by the clock of the leases."""
        self.leases = leases
        self._on_end = on_end
        self._touched_jobs: set[int] = set()
        self._fresh_heartbeats: dict[int, Heartbeat] = {}

    def begin(
        self,
        token: LeaseToken,
        worker: str,
        now: int,
        control: Control = Control.NONE,
        stored: float = 0.0,
        *,
        term_us: int | None = None,
    ) -> None:
        """Adds a claimed job and begins its lease.

        Args:
            stored: its progress so far, 0–100.
            term_us: how long the lease lasts, by default as after a heartbeat.
        """
        live = LiveJob(token, worker, stored=stored, at=now, moved_at=now, saved_at=now, control=control)
        self.jobs[token.job] = live
        self.leases.begin(token, term_us)
        self._touched_jobs.add(token.job)

    def report(self, token: LeaseToken, report: LiveJob, *, significant: bool) -> LiveJob:
        """Merges a worker's report; progress never decreases, and missing values are kept."""
        before = self.jobs.get(token.job)
        if before is None or before.token != token:
            before = LiveJob(token, report.worker, moved_at=report.at)
        left_out = [name for name in ("warnings", *DETAILS) if getattr(report, name) is None]
        was, now = ((each.step, each.copied, each.doing) for each in (before, report))
        moved = report.progress > before.progress or was != now
        merged = replace(
            report,
            progress=max(before.progress, report.progress),
            stored=before.stored,
            renditions=_timed(report, before),
            **{name: getattr(before, name) for name in left_out},
            moved_at=report.at if moved else before.moved_at,
            saved_at=before.saved_at,
            unsaved=before.unsaved or significant,
            control=before.control,
            hours_over=before.hours_over,
            prediction=before.prediction,
            divided=before.divided,
        )
        self.jobs[token.job] = merged
        self._touched_jobs.add(token.job)
        return merged

    def control(self, job: int, control: Control) -> None:
        """Sets the control request of a running job."""
        if (live := self.jobs.get(job)) is not None:
            self.jobs[job] = replace(live, control=control)
            self._touched_jobs.add(job)

    def end_hours(self, over: Container[int]) -> None:
        """Sets of which running jobs the hours have ended."""
        self.jobs = {job: replace(live, hours_over=job in over) for job, live in self.jobs.items()}

    def set_prediction(self, token: LeaseToken, prediction: Prediction) -> None:
        live = self.jobs.get(token.job)
        if live is not None and live.token == token:
            self.jobs[token.job] = replace(live, prediction=prediction)
            self._touched_jobs.add(token.job)

    def divide(self, job: int) -> bool:
        """Records that a running job is divided; False if that was known."""
        live = self.jobs[job]
        self.jobs[job] = replace(live, divided=True)
        return not live.divided

    def end(self, job: int) -> LiveJob | None:
        """Removes a job that is no longer running."""
        self.leases.end(job)
        self._touched_jobs.discard(job)
        ended = self.jobs.pop(job, None)
        self._on_end()
        return ended

    def saved(self, job: int, now: int, stored: float | None) -> None:
        """Records a stored report; `stored` is the stored progress, None if the lease was lost."""
        if (live := self.jobs.get(job)) is not None:
            stored = live.stored if stored is None else stored
            # What was reported while it was stored has to be stored too.
            unsaved = live.unsaved and live.at > now
            self.jobs[job] = replace(live, saved_at=now, unsaved=unsaved, stored=stored)

    def due(self, now: int, *, everything: bool = False) -> list[LiveJob]:
        """Returns the reports that have to be stored."""

        def is_due(live: LiveJob) -> bool:
            saved_at = live.saved_at if live.saved_at <= now else 0  # the wall clock was set back
            return (live.unsaved and now - saved_at >= SAVE_INTERVAL_US) or (
                everything and live.at > saved_at
            )

        return [live for live in self.jobs.values() if is_due(live)]

    def record_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Records a heartbeat."""
        self.heartbeats[heartbeat.worker] = self._fresh_heartbeats[heartbeat.worker] = heartbeat
        self.record_contact(heartbeat.worker)

    def record_contact(self, worker: int) -> None:
        """Records that a worker has sent something."""
        self._last_contact[worker] = self.leases.clock.now_us()

    def since_contact_s(self, worker: int) -> float:
        """Returns the seconds since a worker last sent something, without those in which this process was
        suspended; 0 if it never did."""
        now = self.leases.clock.now_us()
        return (now - self._last_contact.get(worker, now)) / MICROSECOND

    def offline_workers(self, offline_s: float) -> list[int]:
        """Returns the workers that have sent nothing for `offline_s`."""
        return [worker for worker in self._last_contact if self.since_contact_s(worker) >= offline_s]

    def take_heartbeats(self) -> list[Heartbeat]:
        """Returns the last heartbeat of every worker with one since the last call."""
        fresh, self._fresh_heartbeats = list(self._fresh_heartbeats.values()), {}
        return fresh

    def idle_s(self, job: int, now: int) -> float | None:
        """Returns the seconds since the last progress of a stalled job; None if it is not stalled."""
        live = self.jobs.get(job)
        idle_us = now - live.moved_at if live is not None else 0
        return idle_us / 1e6 if idle_us >= self._idle_after_us else None

    def touch_idle(self, now: int) -> None:
        """Publishes stalled jobs too, so that clients can show for how long."""
        self._touched_jobs |= {job for job in self.jobs if self.idle_s(job, now) is not None}

    def take_touched(self) -> list[LiveJob]:
        """Returns the jobs that changed or were touched since the last call."""
        touched, self._touched_jobs = self._touched_jobs, set()
        return [self.jobs[job] for job in touched if job in self.jobs]
