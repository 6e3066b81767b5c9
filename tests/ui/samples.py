"""Builds jobs, workers, folders and events as the API answers them, for tests of the UI."""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from tqstudio import paths
from tqstudio.lifecycle import Control, JobStatus, job_word

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
        "owner": "user",
        "changes": [],
        "viewable": None,
        "retry_in_s": None,
        "worker": "cpu-0" if running else None,
        "division": None,
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


def job_live(row: Any, **more: Any) -> Any:
    """The changing part of a running job, as the event stream sends it."""
    keys = (
        "id",
        "status",
        "word",
        "control",
        "step",
        "progress",
        "speed",
        "eta_s",
        "eta",
        "worker",
        "division",
        "idle_s",
    )
    times = ("started_at", "completed_at")
    live = {key: row[key] for key in keys} | {"renditions": row["renditions"]} | more
    renditions = [
        {key: value for key, value in each.items() if key not in times} for each in live["renditions"]
    ]
    return live | {"renditions": renditions}


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


def divide(row: Any) -> None:
    """Divide a running job among its own worker, at segment 40, and two more; others made the end."""
    helpers = [("box-2", 84, 96, 5), ("cpu-2", 96, 108, 8)]
    ranges = [dict(zip(("worker", "first", "end", "done"), each, strict=True)) for each in helpers]
    made = [each for each in row["renditions"] if each["status"] == "in_progress"]
    row["division"] = {
        "renditions": [each["name"] for each in made],
        "missing": [(40, 108)],
        "ranges": ranges,
    }
    for each in made:
        each |= {"segments_done": 64, "progress": 53.0}


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


def profile(name: str, **more: Any) -> Any:
    return {
        "name": name,
        "description": f"the profile {name}",
        "origin": "shipped",
        "rungs": ["1080p", "720p", "480p"],
        "codec": "h264 medium crf 22",
        "default": name == "web",
        "error": None,
    } | more


def sample_settings() -> list[Any]:
    value = {
        "name": "disk_reserve_bytes",
        "value": "5000000000",
        "default": "2000000000",
        "allowed": "≥ 0, whole",
    }
    return [value | {"meaning": "free disk space that jobs leave unused"}]


def sample_forecast(rows: list[Any], request: Any, asked: int) -> Any:
    """What a change of these jobs costs; no profile here has a crf above 51."""
    common = {name: rows[0][name] for name in ("profile", "priority")} if rows else {}
    wanted = request.renditions
    refused = [row for row in rows if row["status"] not in ("pending", "paused", "done")]
    if "99" in request.overrides.values():
        refused = rows
    chosen = [row for row in rows if row not in refused]
    why = "cannot have these settings: video.crf cannot be 99; allowed: a whole number from 1 to 63"
    names = ("1080p", "720p", "480p")
    qualities = [("2160p", "left_out", "above source", False)] + [
        (name, "encoded", "", True)
        if not wanted or name in wanted
        else (name, "left_out", "not requested", True)
        for name in names
    ]
    keys = ("name", "becomes", "reason", "possible")
    profile = request.profile or common.get("profile")
    return {
        "jobs": asked,
        "sampled": len(rows),
        "reencoded": sum(row["status"] == "done" for row in chosen),
        "changed": sum(row["status"] != "done" for row in chosen),
        "refused": len(refused),
        "reason": f"job {refused[0]['id']} {why}" if refused else "",
        "unknown": 0,
        "max_bytes": 900_000_000 * len(chosen) * (len(wanted or names)) // 3,
        "eta": {"eta_s": 2460.0, "low_s": 2220.0, "high_s": 2700.0},
        "segments_kept": 41,
        "segments_reencoded": 100,
        "qualities": [dict(zip(keys, each, strict=True), jobs=len(chosen)) for each in qualities],
        "values": {
            "profile": profile,
            "crf": 28 if profile == "fast" else 22,
            "quality": 0.0,
            "copy": "never",
            "priority": common.get("priority", 0),
            "hold": bool(rows) and rows[0]["status"] == "paused",
        },
    }


def sample_folders() -> list[Any]:
    shared = {
        "output_root": "/srv/streams",
        "output_root_b64": paths.encode("/srv/streams"),
        "profile": "web",
        "enabled": True,
        "recursive": True,
        "patterns": [],
        "exclude": [],
        "after_done": "keep",
        "done_dir": None,
        "done_dir_b64": None,
        "duplicates": "encode",
        "template": "{slug}",
        "audio": "skip",
        "hours": "",
        "autorestart": 0,
        "autorestart_delay_s": 60.0,
        "max_attempts": 3,
        "max_crashes": 3,
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


def sample_preview() -> Any:
    return {
        "videos": 29,
        "length_s": 11_400.0,
        "unknown": 0,
        "left_out": 2,
        "reasons": [
            {"name": "notes.txt", "reason": "no video"},
            {"name": "old/", "reason": "excluded"},
        ],
        "complete": True,
        "problem": None,
    }


def missing_folder() -> Any:
    """A drop folder whose disk is not mounted."""
    problem = {
        "code": "SOURCE_MISSING",
        "message": "the folder /mnt/usb is gone (no such file or directory)",
        "hint": "mount or create it again; it is then taken up by itself",
    }
    there = sample_folders()[1]
    return there | {"id": 3, "path": "/mnt/usb", "done_today": 0, "profile": "web", "problem": problem}


def event(seq: int, trigger: str, job: int | None, seconds: float, **more: Any) -> Any:
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
        "video_name": None,
    } | more


def sample_events() -> list[Any]:
    lost = {"source": "in_progress", "target": "pending", "code": "ENCODER_EXIT", "worker": "cpu-0"}
    done = {"source": "in_progress", "target": "done", "worker": "cpu-0"}
    broken = {"source": "in_progress", "target": "failed", "code": "SOURCE_TRUNCATED", "worker": "cpu-0"}
    paused = {"source": "in_progress", "target": "paused", "actor": "user"}
    claimed = {"source": "pending", "target": "in_progress", "worker": "cpu-0"}
    added = {"target": "pending", "actor": "intake", "detail": "/srv/upload/holiday-2026.mp4"}
    events = [
        event(901, "create", 319, 3600, **added),
        event(902, "fail_final", 316, 900, detail="says it lasts 60 s and ends after 30 s", **broken),
        event(903, "claim", 319, 300, **claimed),
        event(904, "fail_retryable", 321, 20, detail="ffmpeg ended with status 187", **lost),
        event(905, "pause", 318, 12, **paused),
        event(906, "complete", 317, 5, **done),
    ]
    names = {row["id"]: row["name"] for row in sample_jobs()}
    return [each | {"video_name": names[each["job"]]} for each in events]


def job_detail(row: Any) -> Any:
    argv = ["ffmpeg", "-nostdin", "-i", f"file:{row['path']}", "-c:v", "libx264", "-f", "hls", "index.m3u8"]
    steps = {"probe": 0.4, "extras": 1.2}
    attempt = {
        "number": 1,
        "epoch": 1,
        "worker": "cpu-0",
        "encoder": "libx264",
        "argv": [argv],
        "resumed_from": 0,
        "resumed_at_s": 0.0,
        "steps": steps,
        "cpu_s": 1930.4,
        "peak_memory_bytes": 846_000_000,
        "started_at": ago(2000),
        "ended_at": ago(1500),
        "last_progress_at": ago(1500),
        "outcome": "lost",
        "log": "/logs/attempt-1.log",
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
            "language": None,
            "channels": None,
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
        "files": [],
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
        "delivery": None,
        "job": row["id"],
        "error": None,
        "deleted_at": None,
        "source_deleted_at": None,
        "viewable": None,
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
    started = row["started_at"] is not None or row["attempts"] or row["status"] in ("done", "failed")
    return row | {
        "video_view": view,
        "requested": None,
        "dropped": [],
        "not_before": None,
        "processed_by": None,
        "processed_by_id": None,
        "metadata": {},
        "idempotency_key": None,
        "claimed_at": ago(300) if row["status"] == "in_progress" else None,
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
        "attempts_log": [attempt, second] if started else [],
        "events": [],
    }


def statistics_row(key: str, done: int, failed: int = 0, **more: Any) -> Any:
    attempts = done + 2 * failed
    return {
        "key": key,
        "batch": None,
        "done": done,
        "failed": failed,
        "attempts": attempts,
        "media_s": done * 1260.0,
        "bytes_in": done * 812_000_000,
        "bytes_out": done * 530_000_000,
        "wall_s": attempts * 540.0,
        "cpu_s": attempts * 1930.0,
        "speed": done * 1260.0 / (attempts * 540.0) if attempts else None,
        "eta_error": 0.12 if done else None,
        "eta_error_p90": 0.34 if done else None,
        "queue": None,
    } | more


def batch(jobs: int, first: str) -> Any:
    return {"jobs": jobs, "first": first, "created_at": ago(7_200)}


def sample_statistics(by: str) -> Any:
    """A month with idle days; its jobs are of two workers and of batches, or of none."""
    first = NOW - timedelta(days=29)
    days = [
        statistics_row(
            f"{first + timedelta(days=at):%Y-%m-%d}",
            at * 7 % 23 if at % 6 else 0,
            int(at % 9 == 4),
            queue=at * 5 % 17,
            eta_error=0.05 + 0.2 / (at + 1),
        )
        for at in range(30)
    ]
    done, failed = (sum(day[each] for day in days) for each in ("done", "failed"))
    hour = NOW - timedelta(hours=47)
    hours = [
        statistics_row(f"{hour + timedelta(hours=at):%Y-%m-%d %H:00}", at * 5 % 7, queue=max(0, 40 - at))
        for at in range(48)
    ]
    rows = {
        "hour": hours,
        "day": days,
        "worker": [statistics_row("cpu-0", done - 90, failed), statistics_row("cpu-1", 90)],
        "batch": [
            statistics_row("wedding-raw-2026", 40, 1, batch=batch(41, "ceremony.mov")),
            statistics_row("0123456789ab", 11, batch=batch(11, "holiday on the island, part one.mp4")),
            statistics_row("", done - 51, failed - 1),
        ],
    }
    return {
        "since": ago(29 * 86_400 + 43_200),
        "until": ago(0),
        "by": by,
        "total": statistics_row("", done, failed),
        "rows": rows[by],
    }


def sample_load() -> Any:
    """Twenty minutes of which the first were idle."""
    busy = [2.0 + (at * 7 % 13) / 10 for at in range(90)]
    return {
        "interval_s": 10.0,
        "speed": [0.0] * 30 + busy,
        "cpu_percent": [3.0] * 30 + [60 * each for each in busy],
    }


def wall_job(number: int, name: str, qualities: Any, progress: float, **more: Any) -> Any:
    return {
        "id": number,
        "name": name,
        "profile": "web",
        "source": {
            "width": 1920,
            "height": 1080,
            "fps": 24.0,
            "duration_s": 751.0,
            "size": 1_900_000_000,
            "problem": None,
        },
        "step": "transcode",
        "progress": progress,
        "speed": 2.9,
        "eta": {"eta_s": 220.0, "low_s": 200.0, "high_s": 250.0},
        "speeds": [2.0 + (at * 5 % 17) / 10 for at in range(70)],
        "qualities": qualities,
    } | more


def wall_quality(name: str, made: Any, **more: Any) -> Any:
    total = sum(count for _, count in made)
    done = sum(count for maker, count in made if maker is not None)
    return {
        "name": name,
        "status": "completed" if done == total else "in_progress",
        "encoder": "libx264",
        "progress": 100.0 * done / total,
        "speed": 2.9,
        "segments_total": total,
        "made": made,
        "front": [],
    } | more


def sample_wall() -> Any:
    """A film that three machines make, one of which is gone, and one that has just begun."""
    made = [(-1, 10), (0, 40), (None, 22), (1, 30), (None, 8), (2, 14), (None, 2)]
    front = [(50, 0), (102, 1), (124, 2)]
    lone = [(0, 9), (None, 91)]
    film = [
        wall_quality("1080p", [(0, 126)], encoder="copy"),
        wall_quality("720p", made, front=front),
        wall_quality("480p", made, front=front),
    ]
    return {
        "workers": ["nas", "mac-pro", "gpu-box"],
        "jobs": [
            wall_job(319, "holiday-2026.mp4", film, 62.0),
            wall_job(320, "interview-raw.mkv", [wall_quality("480p", lone, front=[(9, 0)])], 9.0),
            wall_job(321, "cam1.ts", [], 0.0, step="probe", eta=None, speed=None, speeds=[]),
        ],
    }


def sample_picture(kind: str, width: int, height: int) -> Any:
    """A sun over the sea, as wide or as high as it may be; of a storyboard, as many as fit."""
    high = min(height, width * 9 // 16)
    wide = high * 16 // 9
    count = width // wide if kind == "storyboard" else 1

    def pixel(x: int, y: int, sun: float) -> tuple[int, int, int]:
        near = math.hypot(x - sun * wide, y - high * 0.35) < high * 0.2
        return (250, 210, 90) if near else (230, 120, 60) if y < high * 0.6 else (20, 60, 110)

    def rgb(sun: float) -> str:
        pixels = (pixel(x, y, sun) for y in range(high) for x in range(wide))
        return base64.b64encode(bytes(value for each in pixels for value in each)).decode()

    times = [72.0 * at for at in range(count)] if kind == "storyboard" else []
    return {
        "width": wide,
        "height": high,
        "times": times,
        "rgb_b64": [rgb((at + 0.5) / count) for at in range(count)],
    }


def sample_bits() -> Any:
    """Three qualities that need more bits in the middle."""
    shape = [0.6 + 0.5 * math.sin(at / 100 * math.pi) + 0.3 * abs(math.sin(at / 5)) for at in range(100)]
    means = {"1080p": 4_100_000, "720p": 2_000_000, "480p": 900_000}
    rates = {name: [round(mean * each / 1.1) for each in shape] for name, mean in means.items()}
    return {
        "duration_s": 720.0,
        "renditions": [{"name": name, "average_bps": means[name], "bps": bps} for name, bps in rates.items()],
    }
