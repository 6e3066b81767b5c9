"""What clients were sent before a cut, noted where no cut reaches, and compared with what is left."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_OPEN = ("pending", "in_progress", "paused")

# What a job may be once a client got the answer that this was done to it, until the next thing is.
# A control request to a running job is granted by its worker, who may finish, or fail, first.
_AFTER: dict[str, Callable[[str, str], bool]] = {
    "add": lambda status, _control: status != "cancelled",
    "hold": lambda status, _control: status == "paused",
    "pause": lambda status, control: status in ("paused", "done", "failed") or control == "pause",
    "resume": lambda status, control: status not in ("paused", "cancelled") and control != "pause",
    "cancel": lambda status, control: status in ("cancelled", "done", "failed") or control == "cancel",
    "retry": lambda status, _control: status not in ("cancelled", "paused"),
}


@dataclass(slots=True)
class Reported:
    """What was reported of one job."""

    path: str
    last: str | None = None
    """The last thing asked of it that was answered; None when no client can know."""
    asking: str | None = None
    """What is being asked, and has not been answered."""
    priority: int | None = None
    done: bool = False
    segments: dict[str, int] = field(default_factory=dict)
    """By quality: finished segments that a client was sent."""


class Closed(Exception):
    """The power is gone: what comes now was never sent."""


class Ledger:
    """Shared by all clients. None can write here during a cut, so all that is here came before it."""

    def __init__(self) -> None:
        self.jobs: dict[int, Reported] = {}
        self.events: dict[int, tuple[Any, ...]] = {}
        self.backups: list[Path] = []
        self.answers = 0
        self.surprises: list[str] = []
        """What a client was answered while there was power, and no power cut explains."""
        self._lock = threading.Lock()
        self._closed = False

    # Before the cut

    def _open(self) -> threading.Lock:
        if self._closed:
            raise Closed
        return self._lock

    def asking(self, job: int, operation: str) -> None:
        with self._open():
            self.jobs[job].asking = operation

    def answered(self, job: int, operation: str, *, ok: bool, priority: int | None = None) -> None:
        with self._lock:
            self._count()
            reported = self.jobs[job]
            reported.asking = None
            if ok and operation == "priority":
                reported.priority = priority
            elif ok:
                reported.last = operation

    def added(self, job: int | None, path: str, *, held: bool = False) -> None:
        with self._lock:
            self._count()
            if job is not None:
                self.jobs.setdefault(job, Reported(path)).last = "hold" if held else "add"

    def seen(self, job: int, status: str, segments: dict[str, int]) -> None:
        with self._lock:
            self._count()
            reported = self.jobs[job]
            reported.done = reported.done or status == "done"
            reported.segments |= segments

    def event(self, seq: int, data: dict[str, Any]) -> None:
        with self._lock:
            self._count()
            self.events[seq] = tuple(data[key] for key in ("job", "trigger", "source", "target", "actor"))
            if data["target"] == "done":
                self.jobs.setdefault(data["job"], Reported("")).done = True

    def backed_up(self, copy: Path) -> None:
        with self._lock:
            self._count()
            self.backups.append(copy)

    def surprised(self, what: str) -> None:
        with self._lock:
            if not self._closed:
                self.surprises.append(what)

    def _count(self) -> None:
        if self._closed:
            raise Closed
        self.answers += 1

    def close(self, cut: Callable[[], None]) -> None:
        """Cut the power in a moment in which no client is writing here."""
        with self._lock:
            cut()
            self._closed = True

    # After it

    def compare(self, db: sqlite3.Connection, output: Path) -> list[str]:
        """What was reported and is not so, in words."""
        rows = {
            row[0]: row[1:]
            for row in db.execute(
                "SELECT job.id, job.status, job.control, job.priority, job.video_id, publication.job_id,"
                " video.slug FROM job JOIN video ON video.id = job.video_id"
                " LEFT JOIN publication ON publication.job_id = job.id"
            )
        }
        lost = [f"was answered {surprise}" for surprise in self.surprises]
        lost += [f"job {job} was added, and is gone" for job in self.jobs if job not in rows]
        lost += self._events_lost(db)
        lost += self._backups_lost()
        for job, reported in self.jobs.items():
            if job not in rows:
                continue
            status, control, priority, video, publishing, slug = rows[job]
            lost += _state_lost(job, reported, status, control, priority)
            if reported.done and not (output / slug / "master.m3u8").is_file():
                lost.append(f"job {job} was reported done, and {slug} has no master playlist")
            if status in _OPEN and publishing is None:
                lost += _segments_lost(job, reported, video, output)
        return lost

    def _events_lost(self, db: sqlite3.Connection) -> Iterator[str]:
        query = "SELECT seq, job_id, trigger, source, target, actor FROM event"
        there = {row[0]: row[1:] for row in db.execute(query)}
        for seq, event in self.events.items():
            if seq not in there:
                yield f"event {seq} was sent, and is gone: {event}"
            elif there[seq] != event:
                yield f"event {seq} was sent as {event}, and is {there[seq]}"

    def _backups_lost(self) -> Iterator[str]:
        for copy in self.backups:
            if not copy.is_file():
                yield f"backup {copy.name} was made, and is gone"
                continue
            with closing(sqlite3.connect(f"file:{copy}?mode=ro&immutable=1", uri=True)) as db:
                try:
                    [found] = db.execute("PRAGMA integrity_check(1)").fetchone()
                except sqlite3.DatabaseError as error:
                    found = str(error)
            if found != "ok":
                yield f"backup {copy.name}: {found}"

    def reopen(self, db: sqlite3.Connection) -> None:
        """Continue after the comparison: what was asked and not answered is now what the database says."""
        query = "SELECT job.id, video.source FROM job JOIN video ON video.id = job.video_id"
        for job, source in db.execute(query):
            reported = self.jobs.setdefault(job, Reported(""))
            reported.path = Path(source.decode()).name
            if reported.asking is not None:
                reported.asking = reported.last = None
                reported.priority = None
        self.surprises.clear()
        self._closed = False

    def newest(self, path: str) -> int | None:
        """The newest job of a file that any client knows of."""
        with self._lock:
            return max((job for job, reported in self.jobs.items() if reported.path == path), default=None)


def _state_lost(job: int, reported: Reported, status: str, control: str, priority: int) -> Iterator[str]:
    if reported.done and status != "done":
        yield f"job {job} was reported done, and is {status}"
    if reported.asking is not None:
        return
    if reported.last is not None and not _AFTER[reported.last](status, control):
        yield f"job {job} is {status} (control {control}) after {reported.last}"
    if reported.priority is not None and priority != reported.priority:
        yield f"job {job} has priority {priority}, and was reported {reported.priority}"


def _segments_lost(job: int, reported: Reported, video: int, output: Path) -> Iterator[str]:
    for name, count in reported.segments.items():
        streams = output.glob(f".tqstudio/*/segments/{video}/{name}/*")
        there = max((len(list(stream.glob("seg_*.m4s"))) for stream in streams), default=0)
        if there < count:
            yield f"job {job} had {count} segments of {name}, and has {there}"
