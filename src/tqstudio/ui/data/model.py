"""The UI's model of the supervisor and its queue; independent of any terminal library."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from tqstudio.ui.data.job_window import JobWindow
from tqstudio.ui.data.marks import Marks
from tqstudio.ui.data.tips import Tips

if TYPE_CHECKING:
    from tqstudio.protocol import answers

MAX_EVENTS = 2_000
"""Maximal number of events kept; the supervisor has older ones."""

LOADS = 120
"""Samples of the load that are kept."""


class Link(Enum):
    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"


@dataclass(slots=True)
class ConnectionState:
    """State of the connection to the supervisor.

    `reason` explains why an answer cannot be used; `unresponsive`: a supervisor runs but does not answer.
    """

    link: Link = Link.CONNECTING
    reason: str = ""
    unresponsive: bool = False


class Model:
    """The data that every view reads."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.connection = ConnectionState()
        self.remote = ""
        """Name of the studio if it runs on another machine."""
        self.status: answers.StatusView | None = None
        self.jobs = JobWindow()
        self.marks = Marks()
        self.acted_on_last: int | None = None
        """The job that an action of the user changed last; of several the first."""
        self.bulk: asyncio.Event | None = None
        """Stops the action on many jobs that is running, after its present slice."""
        self.just_deleted = frozenset[int]()
        """The jobs that the user deleted last."""
        self.workers: dict[str, answers.WorkerView] = {}
        self.folders: list[answers.FolderView] | None = None
        self.events: deque[answers.EventView] = deque(maxlen=MAX_EVENTS)
        self.last_seq: int | None = None
        self.detail: answers.JobDetail | None = None
        self._detail_at: datetime | None = None
        self.notes: list[str] = []
        self.tips = Tips()
        self._dismissed: set[tuple[int, str]] = set()
        self.generations: dict[int, answers.GenerationView | None] = {}
        """The published generation of each video that was requested."""
        self.load: answers.LoadView = {"interval_s": 10.0, "speed": [], "cpu_percent": []}
        """The course of speed and processor use, continued with each status."""
        self._load_at: datetime | None = None
        self.last_contact: datetime | None = None
        """When the supervisor last answered."""

    def record_contact(self) -> None:
        """Record that the supervisor has just answered."""
        self.last_contact = self.now()

    def take_status(self, status: answers.StatusView) -> None:
        self.status = status
        self.record_contact()
        self.workers = {worker["name"]: worker for worker in status["workers"]}

        if self._load_at is None or (self.now() - self._load_at).total_seconds() >= self.load["interval_s"]:
            self._load_at = self.now()
            self.load["speed"] = [*self.load["speed"], status["speed"] or 0.0][-LOADS:]
            self.load["cpu_percent"] = [*self.load["cpu_percent"], self.cpu_percent][-LOADS:]

    def take_load(self, load: answers.LoadView) -> None:
        """Replace the course of the load by what the supervisor recorded."""
        self.load, self._load_at = load, self.now()

    @property
    def cpu_percent(self) -> float:
        """Processor use of all workers together, in percent of one core."""
        return sum(worker["cpu_percent"] or 0.0 for worker in self.workers.values())

    def take_progress(self, updates: Sequence[answers.JobLive]) -> None:
        self.marks.take_progress(updates)
        detail = self.detail
        for update in updates:
            self.jobs.patch(update["id"], update)
            if detail is not None and update["id"] == detail["id"]:
                merged = {**detail, **update, "renditions": _merged(detail, update)}
                self.detail = cast("answers.JobDetail", merged)

    def take_detail(self, detail: answers.JobDetail | None) -> None:
        """Store the details of the job that is shown."""
        self.detail, self._detail_at = detail, self.now()

    def take_workers(self, workers: Iterable[answers.WorkerView]) -> None:
        self.workers |= {worker["name"]: worker for worker in workers}

    def take_event(self, event: answers.EventView) -> None:
        seq = event["seq"]
        if self.last_seq is None or seq > self.last_seq:
            self.last_seq = seq
            self.events.append(event)
            self.marks.take_event(event)
            if event["video"] is not None:
                self.generations.pop(event["video"], None)

    def take_events(self, events: Iterable[answers.EventView], last_seq: int) -> None:
        """Replace the history."""
        self.events.clear()
        self.events.extend(events)
        self.generations.clear()
        self.last_seq = last_seq
        if self.marks:
            # The state of the marked jobs is unknown; an action must not rely on a guess.
            self.marks.clear()
            self.notes.append(
                "marks removed: too many events were missed while the supervisor was unreachable"
            )

    def take_result(self, result: answers.ActionResult) -> None:
        """Apply the answer to an action, which also a refusal has; the event of a change follows it."""
        status, control, row = result["status"], result["control"], self.job(result["job"])
        # The word of a row that is up to date may say more: retry, held.
        if status is not None and (row is None or (row["status"], row["control"]) != (status, control)):
            self.patch_job(result["job"], {"status": status, "control": control, "word": result["word"]})

    def patch_job(self, job: int, fields: dict[str, Any]) -> None:
        """Replace some fields of a job wherever it is shown."""
        self.jobs.patch(job, fields)
        self.marks.patch(job, fields)
        if self.detail is not None and self.detail["id"] == job:
            self.detail = cast("answers.JobDetail", {**self.detail, **fields})

    def job(self, job: int | None) -> answers.JobRow | None:
        row = self.jobs.row(job)
        if row is None and self.detail is not None and self.detail["id"] == job:
            return self.detail
        return row

    @property
    def up(self) -> bool:
        return self.connection.link is Link.UP

    @property
    def gates(self) -> list[answers.GateView]:
        """What blocks the queue."""
        return self.status["gates"] if self.status else []

    @property
    def paused(self) -> bool:
        """Whether the user has paused the queue."""
        return any(gate["kind"] == "user" for gate in self.gates)

    def unread(self, *, read: bool) -> str:
        """The placeholder of a list that has not been read yet; empty once it has."""
        if read:
            return ""
        if self.up:
            return "reading…"
        connecting = self.connection.link is Link.CONNECTING
        return "connecting to the supervisor…" if connecting else "nothing loaded yet"

    @property
    def stale(self) -> bool:
        """Whether the data may be outdated."""
        return not self.up and self.last_contact is not None

    @property
    def since_contact_s(self) -> float:
        """Seconds since the supervisor last answered; 0 if it never did."""
        return (self.now() - self.last_contact).total_seconds() if self.last_contact else 0.0

    @property
    def rows_age_s(self) -> float:
        """Seconds since the job list was read, to subtract from its countdowns."""
        read_at = self.jobs.read_at
        return (self.now() - read_at).total_seconds() if read_at else 0.0

    @property
    def detail_age_s(self) -> float:
        """Seconds since the detail was read."""
        return (self.now() - self._detail_at).total_seconds() if self._detail_at else 0.0

    @property
    def folder_problems(self) -> list[answers.FolderView]:
        """Enabled folders that cannot be watched."""
        return [each for each in self.folders or () if each["problem"] and each["enabled"]]

    @property
    def folder_news(self) -> list[answers.FolderView]:
        """Folders with problems that the user has not dismissed."""
        return [each for each in self.folder_problems if _problem_key(each) not in self._dismissed]

    def dismiss_notices(self) -> bool:
        """Dismiss the notices; a folder's notice returns when its problem changes."""
        dismissed = bool(self.notes or self.folder_news)
        self.notes.clear()
        self._dismissed = {_problem_key(each) for each in self.folder_problems}
        return dismissed


def _merged(detail: answers.JobDetail, update: answers.JobLive) -> list[dict[str, Any]]:
    """The live qualities, with the times that only the detail contains; before there are any, its own."""
    if "renditions" not in update:
        return cast("list[dict[str, Any]]", detail["renditions"])
    known = {rendition["name"]: rendition for rendition in detail["renditions"]}
    unknown = {"started_at": None, "completed_at": None}
    return [{**unknown, **known.get(live["name"], {}), **live} for live in update["renditions"]]


def _problem_key(folder: answers.FolderView) -> tuple[int, str]:
    problem = folder["problem"]
    return folder["id"], problem["message"] if problem else ""
