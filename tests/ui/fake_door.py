"""A supervisor in memory: it answers the calls of the client, so that the UI is tested without processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tqstudio import paths
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import QUEUE_ORDER, Control, JobStatus, Operation, decide, job_word
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call, StreamEvent

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
"""The frozen clock of all UI tests."""

LADDER = {"2160p": 3840, "1440p": 2560, "1080p": 1920, "720p": 1280, "480p": 854, "360p": 640}


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def rendition(name: str, done: int = 0, total: int | None = 120, status: str = "pending", **more: Any) -> Any:
    height = int(name.removesuffix("p"))
    progress = 0.0 if not total else 100.0 if status == "completed" else done / total * 100
    return {
        "name": name,
        "status": status,
        "reason": None,
        "required": True,
        "width": LADDER[name],
        "height": height,
        "encoder": "libx264",
        "progress": progress,
        "segments_done": done,
        "segments_total": total,
        "speed": 2.1 if status == "in_progress" else None,
        "eta_s": 220.0 if status == "in_progress" else None,
        "settings_hash": None,
        "stream_key": None,
        "error": None,
        "started_at": ago(2000) if status in ("in_progress", "completed") else None,
        "completed_at": ago(120) if status == "completed" else None,
    } | more


def job_row(job: int, name: str, status: str = "pending", **more: Any) -> Any:
    running = status == "in_progress"
    return {
        "id": job,
        "video": job,
        "batch": None,
        "name": name,
        "path": f"/srv/upload/{name}",
        "path_b64": paths.encode(f"/srv/upload/{name}"),
        "kind": "new",
        "status": status,
        "word": job_word(JobStatus(status), Control.NONE),
        "claim": "claimed" if running else "unclaimed",
        "control": "none",
        "idle_s": None,
        "step": "transcode" if running else None,
        "profile": "web",
        "priority": 0,
        "progress": 0.0,
        "speed": None,
        "eta_s": None,
        "eta": None,
        "predicted_s": 290.0 if status == "done" else None,
        "actual_s": 310.0 if status == "done" else None,
        "attempts": 0,
        "max_attempts": 3,
        "crashes": 0,
        "max_crashes": 3,
        "retry_in_s": None,
        "worker": "cpu-0" if running else None,
        "error": None,
        "warnings": [],
        "source": {
            "width": 1920,
            "height": 1080,
            "fps": 24.0,
            "duration_s": 720.0,
            "size": 812_000_000,
            "problem": None,
        },
        "renditions": [],
        "created_at": ago(3600),
        "started_at": ago(300) if running else None,
        "completed_at": None,
        "last_progress_at": None,
        "deleted_at": None,
    } | more


def source(width: int, height: int, fps: float, duration_s: float, size: int) -> Any:
    return {
        "width": width,
        "height": height,
        "fps": fps,
        "duration_s": duration_s,
        "size": size,
        "problem": None,
    }


def error(code: str, message: str, hint: str, **more: Any) -> Any:
    return {"code": code, "message": message, "hint": hint, "exhausted": True, "log": None} | more


def sample_jobs() -> list[Any]:
    """One job in every state, and the names that break columns."""
    running = [
        rendition("2160p", status="skipped", total=None, reason="above source", width=None, height=None),
        rendition("1080p", 74, status="in_progress"),
        rendition("720p", 75, status="in_progress"),
        rendition("480p", 76, status="in_progress"),
    ]
    slow = [
        rendition(name, 12 - at, 400, "in_progress", speed=0.6, eta_s=2280.0)
        for at, name in enumerate(LADDER)
    ]
    half = [
        rendition("720p", 60, status="completed", progress=100.0),
        rendition("480p", 41),
        rendition("360p", 40),
    ]
    made = [rendition(name, 120, status="completed") for name in ("1080p", "720p", "480p")]
    lost = error(
        "SOURCE_TRUNCATED",
        "upload-17.mp4 says it lasts 60 s and ends after 30 s",
        "copy the whole file again, then retry",
        log="/home/ada/.local/share/tqstudio/logs/jobs/316/attempt-1.log",
    )
    exit_error = error(
        "ENCODER_EXIT", "ffmpeg ended with status 187", "read the log of the attempt", exhausted=False
    )
    cam = source(1920, 1080, 25.0, 3600.0, 4_100_000_000)
    upright = source(720, 1280, 30.0, 62.0, 48_000_000)
    return [
        job_row(
            *(319, "holiday-2026.mp4", "in_progress"),
            progress=62.0,
            speed=2.1,
            eta_s=220.0,
            eta={"eta_s": 220.0, "low_s": 190.0, "high_s": 270.0},
            renditions=running,
        ),
        job_row(
            *(320, "interview-raw.mkv", "in_progress"),
            progress=3.0,
            speed=0.6,
            eta_s=2280.0,
            renditions=slow,
            worker="cpu-1",
            source=source(3840, 2160, 50.0, 2400.0, 21_000_000_000),
            priority=5,
        ),
        job_row(
            321,
            "cam1/2026-11-20.ts",
            word="retry",
            retry_in_s=40.0,
            attempts=1,
            source=cam,
            error=exit_error,
            progress=71.0,
            renditions=half,
            claim="retrying",
        ),
        job_row(
            322, "wedding-part-2.mov", eta_s=4200.0, source=source(3840, 2160, 30.0, 1800.0, 9_000_000_000)
        ),
        job_row(323, "screen.webm", eta_s=120.0, source=upright),
        job_row(324, "[red]x.mp4", eta_s=240.0, priority=2),
        job_row(325, "夏の旅行、海辺の町で過ごした三日間の記録映像その二.mp4", source=upright),
        job_row(326, "cafe\u0301-re\u0301sume\u0301.mp4"),
        job_row(
            318,
            "lecture-04-the-chapter-about-everything-that-was-left-out-before.mp4",
            "paused",
            progress=71.0,
            renditions=half,
            started_at=ago(4000),
        ),
        job_row(327, "archive-1998.avi", "paused", word="held"),
        job_row(316, "upload-17.mp4", "failed", attempts=1, error=lost, completed_at=ago(900)),
        job_row(315, "old-demo.mp4", "cancelled", progress=71.0, completed_at=ago(7200), renditions=half),
        job_row(
            317, "trailer.mp4", "done", progress=100.0, renditions=made, completed_at=ago(1260), attempts=1
        ),
        job_row(
            314,
            "intro.mp4",
            "done",
            progress=100.0,
            renditions=made,
            completed_at=ago(86_400 * 3),
            attempts=1,
        ),
    ]


def many_jobs(count: int) -> list[Any]:
    """A long queue; rows share their parts, as they are only read."""
    shared = [rendition("720p"), rendition("480p"), rendition("360p")]
    return [job_row(number, f"clip-{number:06d}.mp4", renditions=shared) for number in range(1, count + 1)]


def worker(name: str, status: str = "idle", **more: Any) -> Any:
    busy = status == "busy"
    return {
        "id": 1,
        "name": name,
        "kind": "cpu",
        "type": "local",
        "status": status,
        "enabled": status != "disabled",
        "draining": False,
        "encoder": "libx264",
        "device": None,
        "pid": 4711,
        "registered_at": ago(86_400 * 3),
        "last_heartbeat_at": ago(2),
        "job": 319 if busy else None,
        "step": "transcode" if busy else None,
        "speed": 2.1 if busy else None,
        "cpu_percent": 187.0 if busy else None,
        "memory_bytes": 610 << 20,
        "note": None,
        "quarantine": None,
        "capabilities": {"encoders": "libx264"},
        "metadata": {},
    } | more


def sample_workers() -> list[Any]:
    return [
        worker("cpu-0", "busy"),
        worker("cpu-1", "busy", job=320, speed=0.6, cpu_percent=160.0),
        worker("gpu-0", "idle", kind="gpu", encoder="h264_nvenc", device="L4"),
        worker(
            *("gpu-1", "disabled"),
            kind="gpu",
            encoder="h264_nvenc",
            device="L4",
            memory_bytes=None,
            pid=None,
            note="in quarantine: it failed 3 different jobs in a row; tqstudio worker enable gpu-1",
            quarantine="it failed 3 different jobs in a row, the last one with ENCODER_EXIT",
        ),
    ]


def sample_folders() -> list[Any]:
    shared = {
        "output_root": "/srv/streams",
        "output_root_b64": paths.encode("/srv/streams"),
        "profile": "web",
        "enabled": True,
        "recursive": True,
        "patterns": [],
        "autorestart": 0,
        "autorestart_delay_s": 60.0,
    }
    more = {"settle_s": 5.0, "priority": 0, "problem": None, "path_b64": "L3Nydg=="}
    return [
        shared
        | more
        | {
            "id": 1,
            "path": "/srv/upload",
            "watch": "inotify",
            "settling": 2,
            "checking": 0,
            "done_today": 31,
            "failed_today": 1,
            "skipped": [
                {
                    "name": "notes.mp4",
                    "code": "UNSUPPORTED",
                    "reason": "a symbolic link; only files themselves are taken",
                    "hint": "move or hard-link the file into the folder",
                }
            ],
        },
        shared
        | more
        | {
            "id": 2,
            "path": "/mnt/nas/cam1",
            "watch": "polling",
            "settling": 0,
            "checking": 0,
            "done_today": 96,
            "failed_today": 0,
            "skipped": [],
            "profile": "fast",
        },
    ]


def missing_folder() -> Any:
    """A drop folder whose disk is not mounted."""
    problem = {
        "code": "SOURCE_MISSING",
        "message": "the folder /mnt/usb is gone (no such file or directory)",
        "hint": "mount or create it again; it is then taken up by itself",
    }
    there = sample_folders()[1]
    return there | {"id": 3, "path": "/mnt/usb", "done_today": 0, "profile": "web", "problem": problem}


def event(seq: int, trigger: str, job: int, seconds: float, **more: Any) -> Any:
    return {
        "seq": seq,
        "at": ago(seconds),
        "trigger": trigger,
        "job": job,
        "video": job,
        "worker": None,
        "source": None,
        "target": None,
        "actor": "supervisor",
        "code": None,
        "detail": None,
    } | more


def sample_events() -> list[Any]:
    lost = {"source": "in_progress", "target": "pending", "code": "ENCODER_EXIT", "worker": "cpu-0"}
    return [
        event(
            901, "create", 319, 3600, target="pending", actor="intake", detail="/srv/upload/holiday-2026.mp4"
        ),
        event(
            902,
            "fail_final",
            316,
            900,
            source="in_progress",
            target="failed",
            code="SOURCE_TRUNCATED",
            worker="cpu-0",
            detail="says it lasts 60 s and ends after 30 s",
        ),
        event(903, "claim", 319, 300, source="pending", target="in_progress", worker="cpu-0"),
        event(904, "fail_retryable", 321, 20, detail="ffmpeg ended with status 187", **lost),
        event(905, "pause", 318, 12, source="in_progress", target="paused", actor="user"),
        event(906, "complete", 317, 5, source="in_progress", target="done", worker="cpu-0"),
    ]


def job_detail(row: Any) -> Any:
    argv = ["ffmpeg", "-nostdin", "-i", f"file:{row['path']}", "-c:v", "libx264", "-f", "hls", "index.m3u8"]
    steps = {"probe": 0.4, "thumbnail": 1.2}
    attempt = {
        "number": 1,
        "epoch": 1,
        "worker": "cpu-0",
        "encoder": "libx264",
        "argv": [argv],
        "resumed_from": 0,
        "resumed_at_s": 0.0,
        "steps": steps,
        "started_at": ago(2000),
        "ended_at": ago(1500),
        "last_progress_at": ago(1500),
        "outcome": "lost",
        "log": None,
        "error_code": "WORKER_LOST",
        "error": "the worker died",
    }
    ended = {"done": "done", "failed": "failed", "cancelled": "cancelled"}.get(row["status"], "paused")
    second = attempt | {
        "number": 2,
        "epoch": 2,
        "started_at": ago(300),
        "ended_at": None if row["status"] == "in_progress" else ago(20),
        "last_progress_at": ago(20),
        "outcome": "running" if row["status"] == "in_progress" else ended,
        "error_code": row["error"]["code"] if row["error"] else None,
        "error": row["error"]["message"] if row["error"] else None,
        "resumed_from": 30,
        "resumed_at_s": 184.0,
    }
    published = [
        {
            "name": name,
            "kind": "video",
            "width": LADDER[name],
            "height": int(name[:-1]),
            "codecs": "avc1.640028",
            "duration_s": 720.0,
            "average_bps": 4_100_000,
            "peak_bps": 5_900_000,
            "size": 360_000_000,
            "settings_hash": "a" * 16,
        }
        for name in ("1080p", "720p")
    ]
    generation = {
        "number": 1,
        "settings_hash": "c" * 16,
        "retired_at": None,
        "published_at": ago(86_400),
        "master": (master := "/srv/streams/holiday-2026/master.m3u8"),
        "master_b64": paths.encode(master),
        "poster": (poster := "/srv/streams/holiday-2026/v1/poster.jpg"),
        "poster_b64": paths.encode(poster),
        "renditions": published,
    }
    view = {
        "id": row["video"],
        "name": row["name"],
        "path": row["path"],
        "path_b64": row["path_b64"],
        "slug": "holiday-2026",
        "output_root": "/srv/streams",
        "output_root_b64": paths.encode("/srv/streams"),
        "title": "holiday-2026",
        "size": row["source"]["size"],
        "mtime_ns": 1_780_000_000_000_000_000,
        "quick_hash": "b" * 32,
        "full_hash": None,
        "status": "processing",
        "generation": generation,
        "job": row["id"],
        "error": None,
        "deleted_at": None,
        "facts": {
            "container": "mov,mp4",
            "duration_s": 720.041,
            "start_time_s": 0.0,
            "bitrate": 9_022_000,
            "size": row["source"]["size"],
            "video": {
                "index": 0,
                "codec": "h264",
                "profile": "High",
                "width": 1920,
                "height": 1080,
                "coded_width": 1920,
                "coded_height": 1080,
                "rotation": 0,
                "pix_fmt": "yuv420p",
                "bit_depth": 8,
                "fps": "24000/1001",
                "vfr": False,
                "color_primaries": 1,
                "color_transfer": 1,
                "color_space": 1,
                "color_range": 1,
                "first_pts_s": "0",
                "duration_s": 720.041,
                "own_duration": True,
                "interlaced": False,
                "bitrate": 8_900_000,
            },
            "audio": [
                {
                    "index": 1,
                    "codec": "aac",
                    "channels": 2,
                    "sample_rate": 48_000,
                    "language": "eng",
                    "title": "",
                    "default": True,
                }
            ],
            "subtitles": [],
        },
    }
    return row | {
        "video_view": view,
        "requested": None,
        "dropped": [],
        "not_before": None,
        "processed_by": None,
        "processed_by_id": None,
        "metadata": {},
        "claimed_at": ago(300),
        "lease_expires_at": None,
        "lease_epoch": 2,
        "autorestart": {
            "state": "disabled",
            "limit": 0,
            "delay_s": 60.0,
            "restarts": 0,
            "last_at": None,
            "next_at": None,
        },
        "attempts_log": [attempt, second],
        "events": [e for e in reversed(sample_events()) if e["job"] == row["id"]],
    }


class FakeDoor:
    """Holds jobs in queue order; `push` sends a message down the stream, `drop` ends all streams."""

    def __init__(self, jobs: list[Any] | None = None) -> None:
        self.jobs: list[Any] = sample_jobs() if jobs is None else jobs
        self.events: list[Any] = sample_events()
        self.workers: list[Any] = sample_workers()
        self.folders: list[Any] = sample_folders()
        self.profiles: list[Any] = [{"name": name, "error": None} for name in ("fast", "web")]
        self.gates: list[Any] = []
        self.decisions: dict[str, Any] = {}
        self.cleanup_partial = True
        """What becomes of files with these names."""
        self.sent: list[Call[Any]] = []
        self.asked_after: list[int | None] = []
        self.down = False
        self.stretch: int | None = None
        """Rows that one request tries when it searches; all by default."""
        self.pages: asyncio.Semaphore | None = None
        """How many more pages of jobs are answered, where a test counts them out."""
        self._streams: list[asyncio.Queue[StreamEvent | None]] = []
        self._counts: dict[str, int] | None = None

    # What tests do to it.

    def push(self, name: str, data: dict[str, Any], seq: int | None = None) -> None:
        for stream in self._streams:
            stream.put_nowait(StreamEvent(name, data, seq))

    def happened(self, trigger: str, job: int, **more: Any) -> None:
        """Store an event and send it."""
        new = event(self.events[-1]["seq"] + 1 if self.events else 1, trigger, job, 0, **more)
        self.events.append(new)
        self._counts = None
        self.push("event", new, new["seq"])

    def drop(self) -> None:
        for stream in self._streams:
            stream.put_nowait(None)

    def job(self, number: int) -> Any:
        return next(row for row in self.jobs if row["id"] == number)

    def operations(self) -> list[dict[str, Any]]:
        return [dict(call.body or {}) for call in self.sent if call.path == "/v1/jobs/actions"]

    # The protocol.

    async def send(self, call: Call[Any]) -> Any:
        if self.down:
            raise TqError(ErrorCode.NO_SUPERVISOR, "no supervisor answers in this home")
        self.sent.append(call)
        await asyncio.sleep(0)
        if self.pages is not None and call.path == "/v1/jobs":
            await self.pages.acquire()
        return self._answer(call)

    async def stream(self, after: int | None = None) -> AsyncIterator[StreamEvent]:
        if self.down:
            raise TqError(ErrorCode.NO_SUPERVISOR, "no supervisor answers in this home")
        self.asked_after.append(after)
        stream: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        for stored in self.events:
            if after is not None and stored["seq"] > after:
                stream.put_nowait(StreamEvent("event", stored, stored["seq"]))
        self._streams.append(stream)
        try:
            while (message := await stream.get()) is not None:
                yield message
        finally:
            self._streams.remove(stream)

    async def close(self) -> None:
        return None

    def _answer(self, call: Call[Any]) -> Any:
        path = call.path.removeprefix("/v1/")
        match call.method, path.split("/"):
            case "GET", ["status"]:
                return self._status()
            case "GET", ["jobs"]:
                return self._page(call.params)
            case "GET", ["jobs", number]:
                return job_detail(self.job(int(number)))
            case "GET", ["jobs", _, "log"]:
                text = "\n".join(f"frame={number}" for number in range(200))
                return {"path": "/logs/attempt-1.log", "text": text}
            case "POST", ["jobs", "actions"]:
                return {
                    "results": [self._act(number, call.body or {}) for number in (call.body or {})["ids"]]
                }
            case "GET", ["events"]:
                newest = self.events[-call.params["limit"] :]
                return {"events": newest, "last_seq": newest[-1]["seq"] if newest else 0}
            case "GET", ["workers"]:
                return {"workers": self.workers}
            case "GET", ["folders"]:
                return {"folders": self.folders}
            case "GET", ["profiles"]:
                return {"profiles": self.profiles}
            case "GET", ["videos", number]:
                return job_detail(self.job(int(number)))["video_view"]
            case "POST", ["workers", name, verb]:
                found = next(each for each in self.workers if each["name"] == name)
                found |= {"enabled": verb == "enable", "status": "idle" if verb == "enable" else "disabled"}
                return found
            case "POST", ["videos"]:
                return {"batch": "b", "results": [self._add(path) for path in (call.body or {})["paths_b64"]]}
            case "POST", ["queue", "pause"]:
                self.gates = [
                    {"kind": "user", "code": None, "reason": "", "since": ago(0), "hint": "resume the queue"}
                ]
                return self.gates[0]
            case "POST", ["queue", "resume"]:
                self.gates = []
                return {}
        raise TqError(ErrorCode.NOT_FOUND, f"{call.method} {call.path}")

    def _add(self, path_b64: str) -> Any:
        path = paths.data(paths.decode(path_b64))
        answer = {"path": path, "path_b64": path_b64, "video": 1, "job": 401, "slug": "x"}
        answer |= {
            "master": None,
            "master_b64": None,
            "status": None,
            "applied": {},
            "reason": None,
            "other_job": None,
            "error": None,
        }
        if special := self.decisions.get(os.path.basename(path)):
            return answer | special
        if path.endswith(".mp4"):
            return answer | {"decision": "queued"}
        problem = {"code": "NO_MEDIA", "message": "the file holds no video", "hint": "remove it"}
        return answer | {"decision": "rejected", "job": None, "error": problem}

    def _status(self) -> Any:
        if self._counts is None:
            self._counts = {status.value: 0 for status in JobStatus}
            for row in self.jobs:
                self._counts[row["status"]] += 1
        running = self._counts["in_progress"]
        return {
            "supervisor": {
                "pid": 4242,
                "version": "0.1.0",
                "started_at": ago(86_400 * 3),
                "home": "/home/ada",
                "draining": False,
                "cleanup_partial": self.cleanup_partial,
                "ffmpeg": "/usr/bin/ffmpeg",
                "ffmpeg_version": "9.0.2",
            },
            "jobs": dict(self._counts),
            "workers": self.workers,
            "gates": self.gates,
            "disk": [
                {
                    "path": "/srv",
                    "path_b64": paths.encode("/srv"),
                    "free": 812 << 30,
                    "total": 2 << 40,
                    "reserve": 10 << 30,
                }
            ],
            "speed": 2.7 if running else None,
            "eta_s": 2460.0 if running else None,
            "eta": {"eta_s": 2460.0, "low_s": 2230.0, "high_s": 2710.0} if running else None,
            "eta_error": {"median": 0.1, "jobs": 50},
        }

    def _page(self, params: Any) -> Any:
        rows = self.jobs
        statuses = [word for word in params.get("status", "").split(",") if word]
        if statuses:
            rows = [row for row in rows if row["status"] in statuses]
        if "folder" in params:
            root = next((each["path"] for each in self.folders if each["id"] == params["folder"]), "")
            rows = [row for row in rows if row["path"].startswith(f"{root}/") and root]
        if params["sort"] in ("newest", "oldest"):
            rows = sorted(rows, key=lambda row: row["id"], reverse=params["sort"] == "newest")
        wanted, limit = params.get("text", "").lower().split(), params["limit"]

        def walk(places: range, limit: int) -> tuple[list[int], str | None, bool]:
            """Where what is wanted stands, the cursor that goes on, and whether the walk stopped early."""
            found: list[int] = []
            for tried, place in enumerate(places):
                early = bool(wanted) and tried == self.stretch
                if early or len(found) == limit:
                    return found, str(place), early and len(found) < limit
                if all(word in rows[place]["name"].lower() for word in wanted):
                    found.append(place)
            return found, None, False

        around = [at for at, row in enumerate(rows) if row["id"] == params.get("around")]
        after, searching = None, False
        if around or "before" in params:
            last = "end" if around else params["before"]
            end = around[0] if around else len(rows) if last == "end" else int(last) + 1
            found, before, searching = walk(range(end - 1, -1, -1), limit // 2 if around else limit)
            found.reverse()
            after = str(end) if end < len(rows) else None
        else:
            start = int(params.get("after", 0))
            found, after, searching = walk(range(start, len(rows)), limit)
            before = str(start - 1) if start else None
        if around:
            more, after, early = walk(range(around[0], len(rows)), limit - len(found))
            found, searching = found + more, searching or early
        whole = before is None and after is None
        return {
            "jobs": [rows[place] for place in found],
            "total": len(found) if whole else None if wanted else len(rows),
            "searching": searching,
            "before": before,
            "after": after,
        }

    def _act(self, number: int, body: Any) -> Any:
        row = self.job(number)
        operation = Operation(body["operation"])
        decision = decide(JobStatus(row["status"]), operation, Control(row["control"]))
        answer = {
            "job": number,
            "ok": decision.allowed,
            "status": None,
            "control": "none",
            "word": None,
            "new_job": None,
            "removed_segments": 0,
            "error": None,
        }
        if not decision.allowed:
            problem = {
                "code": "REFUSED",
                "message": f"job {number} {decision.reason}",
                "hint": "see the reason",
            }
            return answer | {"error": problem}
        if operation is Operation.RETRANSCODE:
            return answer | {key: row[key] for key in ("status", "control", "word")} | {"new_job": 400}
        if operation is Operation.PRIORITY:
            row["priority"] = body.get("priority", row["priority"] + body.get("delta", 0))
        target = {"pause": "paused", "resume": "pending", "cancel": "cancelled", "retry": "pending"}
        ended = row["status"] in ("failed", "cancelled")
        if operation is Operation.DELETE and ended and self.cleanup_partial:
            answer["removed_segments"] = sum(each["segments_done"] for each in row["renditions"])
        if operation.value in target:
            row |= {
                "status": target[operation.value],
                "word": target[operation.value],
                "renditions": row["renditions"],
            }
            self.jobs.sort(key=lambda each: QUEUE_ORDER.index(JobStatus(each["status"])))
            self._counts = None
        return answer | {key: row[key] for key in ("status", "control", "word")}


def factory(door: FakeDoor) -> Callable[[], calls.ApiClient]:
    return lambda: door
