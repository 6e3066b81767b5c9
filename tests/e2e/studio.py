"""A supervisor that encodes small clips quickly, with what end-to-end tests ask and do through its API."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from harness import LiveSupervisor, lives
from pacing import paced_ffmpeg
from tqstudio.engine.host import failpoints
from tqstudio.errors import TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls, running
from tqstudio.protocol.calls import StreamEvent
from tqstudio.protocol.client import Client
from waiting import until

QUICK = {
    "PROFILE": "tiny",
    "WORKERS": "1",
    "GPU": "false",
    "SETTLE_S": "0.3",
    "RESCAN_S": "2",
    "HEARTBEAT_S": "1",
    "LEASE_S": "20",
    "LEASE_SCAN_S": "2",
    "BACKOFF_S": "0.2",
    "BACKOFF_MAX_S": "1",
    "DRAIN_S": "0.3",
    "DISK_RESERVE_BYTES": "1000000",
}

PROFILE = """
extends = "web"
description = "For tests: qualities that small clips have"

[video]
preset = "ultrafast"
crf = 30
segment_s = 2
gop_s = 1
rungs = [
    { short_side = 360, maxrate_kbps = 800 },
    { short_side = 180, maxrate_kbps = 400 },
    { short_side = 120, maxrate_kbps = 250 },
    { short_side = 90, maxrate_kbps = 150 },
]
"""


def seconds_between(began: str, ended: str) -> float:
    """Seconds from one time of the API to another."""
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


class Watch:
    """Follows the event stream on a thread, as a screen does."""

    def __init__(self, socket: Path, after: int | None = None) -> None:
        self._client = Client(socket)
        self.seen: list[StreamEvent] = []
        self._thread = threading.Thread(target=self._run, args=(after,), daemon=True)
        self._thread.start()

    def _run(self, after: int | None) -> None:
        with contextlib.suppress(TqError):
            for event in self._client.stream(after):
                self.seen.append(event)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def stored(self, job: int | None = None) -> list[dict[str, Any]]:
        """The stored events so far, of one job or of all."""
        events = [event.data for event in list(self.seen) if event.name == "event"]
        return [event for event in events if job is None or event["job"] == job]

    def wait_for(self, what: str, match: Callable[[StreamEvent], bool]) -> StreamEvent:
        def found() -> StreamEvent | None:
            return next((event for event in list(self.seen) if match(event)), None)

        event = until(found, f"{what} in the event stream")
        assert event is not None
        return event

    def target(self, job: int, status: str) -> dict[str, Any]:
        """Wait until the stream says that the job has this status."""
        event = self.wait_for(
            f"job {job} {status}",
            lambda e: e.name == "event" and e.data["job"] == job and e.data["target"] == status,
        )
        return event.data


class Studio(LiveSupervisor):
    """A home, an output and a supervisor whose ffmpeg can be slowed down.

    Args:
        real_ffmpeg: the supervisor gets a script that runs it, see `paced`.
        before: words before the command, such as a `setpriv`.
        settings: by their key in `config.Settings`, in place of the quick ones.
    """

    def __init__(
        self, root: Path, real_ffmpeg: str, *, before: Sequence[str] = (), **settings: str | float
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.out = root / "out"
        self._pace = root / "pace"
        ffmpeg = paced_ffmpeg(root / "ffmpeg", real_ffmpeg, self._pace)
        chosen = {**QUICK, "FFMPEG": str(ffmpeg)}
        chosen |= {key.upper(): str(value) for key, value in settings.items()}
        super().__init__(
            root / "home", before=before, **{f"TQSTUDIO_{key}": value for key, value in chosen.items()}
        )
        self.fail_point = ""
        """Where the next supervisor kills itself, see `tqstudio.engine.host.failpoints`."""
        self.write_profile("tiny", PROFILE)

    def write_profile(self, name: str, text: str) -> None:
        (self.home.profiles / f"{name}.toml").write_text(text)

    # Life

    def launch(self, **environment: str) -> subprocess.Popen[bytes]:
        return super().launch(**{failpoints.VARIABLE: self.fail_point} | environment)

    def up(self) -> Studio:
        """Start a supervisor and wait until its workers take jobs."""
        self.start()

        def ready() -> bool:
            workers = self.status()["workers"]
            return bool(workers) and all(worker["status"] in ("idle", "busy") for worker in workers)

        until(ready, "the workers are up")
        return self

    def down(self) -> None:
        """Stop the supervisor; nothing of it may be left, and no log may report an error."""
        if self.started:
            self.stop()
            found = self.complaints()
            assert not found, "\n".join(found)

    def complaints(self) -> list[str]:
        """What no log may contain, whatever a test did; with the lines after it."""
        logs = [self.home.supervisor_log, *self.home.logs.glob("worker-*.log"), self.output]
        complaints = []
        for log in logs:
            lines = log.read_text().splitlines() if log.exists() else []
            for number, line in enumerate(lines):
                if "level=error" in line or "Traceback" in line:
                    complaints += [f"{log.name}:", *lines[number : number + 30]]
        return complaints + self.lines_that_name(self.root)

    def lines_that_name(self, folder: Path) -> list[str]:
        """Lines of any log in the home that contain the path of a folder; people attach logs to reports."""
        return [
            f"{log.relative_to(self.home.logs)}: {line}"
            for log in self.home.logs.rglob("*.log")
            for line in log.read_text().splitlines()
            if str(folder) in line
        ]

    def died(self) -> None:
        """Wait until the supervisor has killed itself at its fail point, and its worker has ended with it."""
        assert self.ended() == -signal.SIGKILL
        self.fail_point = ""
        self.until_gone()

    def last_words(self) -> str:
        """The last line that the supervisor printed."""
        return self.output.read_text().splitlines()[-1]

    # Pace

    @contextlib.contextmanager
    def paced(self, times_real_time: float) -> Iterator[None]:
        """Hold every run of qualities that starts in here to this speed, so that a test can step in."""
        self._pace.write_text(f"{times_real_time}")
        try:
            yield
        finally:
            self._pace.unlink(missing_ok=True)

    def let_work(self) -> None:
        """Let the queue and every worker continue, whoever held them up."""
        state = self.status()
        if any(gate["kind"] == "user" for gate in state["gates"]):
            self.client.send(calls.resume_queue())
        for worker in state["workers"]:
            if worker["status"] in ("disabled", "draining"):
                self.client.send(calls.worker_action(worker["name"], "enable"))

    # Asking

    def status(self) -> Any:
        return self.client.send(calls.status())

    def job(self, job: int) -> Any:
        return self.client.send(calls.job(job))

    def video_of(self, job: int) -> Any:
        return self.job(job)["video_view"]

    def stored_status(self, job: int) -> str:
        """What the database itself says of a job; also when no supervisor runs."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home.database}?mode=ro", uri=True)) as db:
            (status,) = db.execute("SELECT status FROM job WHERE id = ?", (job,)).fetchone()
        return str(status)

    def events(self, job: int) -> list[dict[str, Any]]:
        return self.client.send(calls.events(job_id=job, after=0, limit=500))["events"]  # type: ignore[return-value]

    def watch(self, after: int | None = None) -> Watch:
        return Watch(self.home.socket, after)

    def last_seq(self) -> int:
        return int(self.client.send(calls.events(limit=1))["last_seq"])

    def offer(self, *paths: Path | bytes, **options: Any) -> list[Any]:
        """Add files; what became of each."""
        options = {"output_b64": encode(self.out)} | options
        return self.client.send(calls.add([encode(path) for path in paths], **options))["results"]  # type: ignore[return-value]

    def add(self, path: Path | bytes, **options: Any) -> int:
        """Add a file that makes a new job."""
        (result,) = self.offer(path, **options)
        assert result["error"] is None, result
        assert result["job"] is not None, result
        return int(result["job"])

    def act(self, operation: str, job: int, **more: Any) -> Any:
        (result,) = self.client.send(calls.act(operation, [job], **more))["results"]
        return result

    def do(self, operation: str, job: int, **more: Any) -> Any:
        """An operation that is not refused."""
        result = self.act(operation, job, **more)
        assert result["ok"], result
        return result

    def wait(self, job: int, *statuses: str) -> Any:
        """Wait until the job has one of the statuses; ends early when it never will."""

        def there() -> Any:
            detail = self.job(job)
            if detail["status"] in statuses:
                return detail
            assert detail["status"] not in ("done", "failed", "cancelled"), (
                f"job {job} is {detail['status']}: {detail['error']}"
            )
            return None

        return until(there, f"job {job} is {' or '.join(statuses)}")

    def done(self, job: int) -> Any:
        return self.wait(job, "done")

    # Processes, as the status names them.

    def worker(self, name: str = "cpu-0") -> Any:
        return next(worker for worker in self.status()["workers"] if worker["name"] == name)

    def encoders(self, worker: str = "cpu-0") -> list[int]:
        """The running ffmpegs of a worker."""
        pid = self.worker(worker)["pid"]
        if pid is None:
            return []
        try:
            children = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children if lives(child.pid)]

    def running(self, job: int, segments: int = 1) -> list[int]:
        """Wait until ffmpeg works on the job and has finished some segments; the pids of the ffmpegs."""

        def there() -> list[int]:
            detail = self.job(job)
            assert detail["status"] in ("pending", "in_progress"), detail["error"] or detail["status"]
            made = [row["segments_done"] for row in detail["renditions"] if row["status"] == "in_progress"]
            if detail["status"] == "in_progress" and made and min(made) >= segments:
                return self.encoders(detail["worker"])
            return []

        return until(there, f"job {job} has made {segments} segments")

    def has_locked_output(self) -> bool:
        """Whether its output is locked, which it is some seconds after the first work there."""
        return any(running.is_locked(lock) for lock in self.out.glob(".tqstudio/*/lock"))

    def stored_segments(self, video: int) -> list[Path]:
        """Segments of unfinished work of a video."""
        return sorted(self.out.glob(f".tqstudio/*/segments/{video}/*/*/*.m4s"))


def done_to(studio: Studio, jobs: Sequence[int]) -> list[tuple[int, str]]:
    """What people did to these jobs since they were added."""
    return [
        (job, event["trigger"])
        for job in jobs
        for event in studio.events(job)
        if event["actor"] == "user" and not event["trigger"].startswith("create")
    ]


def video_runs(attempt: Mapping[str, Any]) -> list[list[str]]:
    """The ffmpeg commands of an attempt that encode video."""
    return [argv for argv in attempt["argv"] if "hls" in argv and "-c:v" in " ".join(argv)]


def audio_runs(attempt: Mapping[str, Any]) -> list[list[str]]:
    return [argv for argv in attempt["argv"] if "hls" in argv and "-c:a" in " ".join(argv)]


def mark(path: Path) -> int:
    """What distinguishes a segment from a later one of the same content: when it was encoded.

    A hard link has it too, and a segment that a short end has joined.
    """
    return path.stat().st_mtime_ns


def marks(paths: Iterable[Path]) -> set[int]:
    """The marks of stored segments, without sound, whose last piece may have joined the one before."""
    return {mark(path) for path in paths if not path.parts[-3].startswith("audio")}


def published_marks(job: Mapping[str, Any], rendition: str = "*") -> set[int]:
    """The marks of the segments that a job's current generation plays."""
    generation = job["video_view"]["generation"]
    folder = Path(generation["master"]).parent / f"v{generation['number']}"
    return {mark(path) for path in folder.glob(f"{rendition}/*.m4s")}


WORDS = """words=
for word in "$@"; do
    case $word in file:/proc/self/fd/*) word=$(readlink "${word#file:}") ;; esac
    words="$words $word"
done
"""
"""For a script in the place of ffmpeg: its arguments as one text, with the path of the source, which it is
handed as a descriptor."""


def write_script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
