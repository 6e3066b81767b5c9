"""Follows jobs until they end, and collects the result of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tqstudio.cli.terminal import printing
from tqstudio.events import EventKind
from tqstudio.paths import readable
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from tqstudio.cli.follow.interrupt import Interrupt
    from tqstudio.protocol.answers import ErrorView, EventView, JobDetail, JobRow, WarningView
    from tqstudio.protocol.client import Client

POLL_S = 0.4
ROWS_S = 1.0
"""Interval of reading the running jobs' rows; starts and ends are seen with every poll."""
BLOCKED_S = 3.0
"""Interval of checking why no job is running."""
_PAGE = 200
_SETTLED = ("done", "failed", "cancelled")


@dataclass(slots=True)
class Video:
    """One source of a run, and its state."""

    name: str
    source: str
    """Its path as in the API; `name` is made safe to print."""
    source_b64: str
    status: str
    """A job's status, or `cached` or `rejected`."""
    job: int | None = None
    slug: str | None = None
    master: str | None = None
    master_b64: str | None = None
    renditions: list[dict[str, Any]] = field(default_factory=list)
    error: ErrorView | None = None
    warnings: list[WarningView] = field(default_factory=list)
    held: bool = False
    """Paused before the run started, so the run does not wait for it."""

    @property
    def waited_for(self) -> bool:
        return self.status in ("pending", "in_progress") or (self.status == "paused" and not self.held)

    @property
    def settled(self) -> bool:
        """Whether its job has ended."""
        return self.status in _SETTLED

    @property
    def log(self) -> str:
        """Path of the failed attempt's log; empty if there is none."""
        return str(self.error.get("log") or "") if self.error is not None else ""

    def take(self, detail: JobDetail) -> None:
        """Copy the results from its job."""
        view = detail["video_view"]
        generation = view["generation"]
        self.slug = view["slug"]
        self.master = generation["master"] if generation else None
        self.master_b64 = generation["master_b64"] if generation else None
        self.error = detail["error"]
        self.warnings = detail["warnings"]
        self.renditions = [
            {key: rendition[key] for key in ("name", "status", "segments_done", "segments_total")}
            for rendition in detail["renditions"]
        ]

    def report(self) -> dict[str, Any]:
        keys = ("source", "source_b64", "slug", "status", "master", "master_b64", "renditions")
        return {key: getattr(self, key) for key in (*keys, "error", "warnings")}


class Display:
    """Shows the progress of a run; what a display ignores does nothing."""

    def began(self, video: Video, row: JobRow) -> None: ...

    def moving(self, videos: list[Video], running: list[JobRow]) -> None: ...

    def ended(self, video: Video) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


def last_seq(at: Client) -> int:
    """The newest event number; following from here misses no later event."""
    return at.send(calls.events(limit=1))["last_seq"]


class Follower:
    """Follows the jobs of some videos by the event log and the list of running jobs."""

    def __init__(self, at: Client, videos: list[Video], display: Display, *, after: int) -> None:
        self._at = at
        self._videos = videos
        self._display = display
        self._seq = after
        self._by_job = {video.job: video for video in videos if video.job is not None}
        self._began: set[int] = set()
        self._rows_at = 0.0
        self._blocked_at = time.monotonic() + BLOCKED_S
        self._reported: set[str] = set()

    def until_all_ended(self, interrupt: Interrupt, at_most: int | None) -> bool:
        """Wait until no job is open, or `at_most` have ended, or until an interrupt, which returns True.

        Then the videos have the current status of their jobs.
        """
        while True:
            # Read before the poll, which then sees everything up to the interrupt.
            interrupted = interrupt.requested
            self.poll()
            if interrupted or not any(video.waited_for for video in self._videos):
                return interrupted
            if at_most is not None and sum(video.settled for video in self._videos) >= at_most:
                return False
            time.sleep(POLL_S)

    def poll(self) -> None:
        """Poll once: ended jobs, started jobs, and progress of the running ones."""
        if not self._read_events() and time.monotonic() < self._rows_at:
            return
        self._rows_at = time.monotonic() + ROWS_S
        rows = self._at.send(calls.jobs("state:running", limit=_PAGE))["jobs"]
        running = [row for row in rows if row["id"] in self._by_job]
        for row in running:
            video = self._by_job[row["id"]]
            video.status = row["status"]
            if row["id"] not in self._began:
                self._began.add(row["id"])
                self._display.began(video, row)
        self._display.moving(self._videos, running)
        if not running and time.monotonic() > self._blocked_at:
            self._blocked_at = time.monotonic() + BLOCKED_S
            self._report_blocked()

    def _read_events(self) -> bool:
        """Process new events; returns whether any concerns these jobs."""
        concerned = False
        while True:
            page = self._at.send(calls.events(after=self._seq, limit=_PAGE))["events"]
            for event in page:
                self._seq = max(self._seq, event["seq"])
                if event["trigger"] == EventKind.PRUNED:
                    self._reread(event)
                    concerned = True
                video = self._by_job.get(event["job"] or 0)
                if video is None:
                    continue
                concerned = True
                if event["trigger"] == EventKind.VIEWABLE:
                    self._report_viewable(video, event["detail"] or "")
                status = _status_by(event, video)
                if status is None or status == video.status:
                    continue
                self._change(video, status, event)
            if len(page) < _PAGE:
                return concerned

    def _reread(self, pruned: EventView) -> None:
        """Reread all open jobs, as their events may have been pruned before they were read."""
        for video in self._videos:
            if video.job is None or not video.waited_for:
                continue
            job = self._at.send(calls.job(video.job))
            status = "cancelled" if job["deleted_at"] else job["status"]
            if status != video.status:
                self._change(video, status, pruned)

    def _change(self, video: Video, status: str, event: EventView) -> None:
        video.status = status
        job = video.job or 0
        if status in _SETTLED:
            video.take(self._at.send(calls.job(job)))
            self._display.ended(video)
        elif status == "paused":
            self._display.note(f"{video.name}: paused; resume it with: tqstudio job resume {job}")
        elif status == "pending" and event["source"] == "in_progress":
            # Its next start gets a line of its own.
            self._began.discard(job)
            parts = (event["code"], event["detail"]) if event["job"] == job else ()
            why = ": ".join(part for part in parts if part)
            self._display.note(f"{video.name}: requeued{f' ({why})' if why else ''}")

    def _report_viewable(self, video: Video, quality: str) -> None:
        generation = self._at.send(calls.job(video.job or 0))["video_view"]["generation"]
        if generation is not None:
            playlist = f"{printing.ARROW} {readable(generation['master'])}"
            self._display.note(f"{video.name}: {quality} plays {playlist}")

    def _report_blocked(self) -> None:
        if not any(video.status == "pending" for video in self._videos):
            return
        status = self._at.send(calls.status())
        reasons = [
            f"the queue is blocked: {printing.gate_reason(gate)}; {gate['hint']}" for gate in status["gates"]
        ]
        if not any(worker["enabled"] for worker in status["workers"]):
            reasons.append("no worker is enabled; see: tqstudio worker list")
        if status["jobs"]["in_progress"]:
            reasons.append("waiting for other running jobs; see: tqstudio job list")
        for reason in reasons:
            if reason not in self._reported:
                self._reported.add(reason)
                self._display.note(reason)


def _status_by(event: EventView, video: Video) -> str | None:
    """The new status of a video after an event of its job; None if it is unchanged."""
    if event["trigger"] != EventKind.DELETED:
        return event["target"]
    # Deleting an ended job changes nothing; an open one will not be encoded.
    return None if video.settled or video.status == "cached" else "cancelled"
