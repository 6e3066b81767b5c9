"""A small clip, a profile that fits it, and a claim as the supervisor would word it."""

from __future__ import annotations

import os
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from pacing import paced_ffmpeg
from tqstudio import paths
from tqstudio.engine.media.ffmpeg.binary import FFmpeg, locate
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.worker.job import pipeline
from tqstudio.engine.worker.job.attempt import WorkerConfig
from tqstudio.engine.worker.reporting.lease import Lease
from tqstudio.engine.worker.reporting.outcome import Failed, Outcome
from tqstudio.engine.worker.reporting.progress_report import Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step
from tqstudio.protocol.calls import Call
from tqstudio.protocol.requests import ProgressRequest
from tqstudio.protocol.worker_answers import ClaimedJob

# A test of stalls waits for no longer.
SHORT_STALL_S = 10
MakeJob = Callable[..., ClaimedJob]


@pytest.fixture(scope="session")
def ffmpeg() -> FFmpeg:
    return locate(os.environ.get("TQSTUDIO_FFMPEG"))


@pytest.fixture(scope="session")
def clip(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of 320×180 with sound. Copy it before changing it."""
    return _make(ffmpeg, tmp_path_factory.mktemp("clips") / "clip.mp4", 3)


@pytest.fixture(scope="session")
def long_clip(ffmpeg: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long enough to be still encoding when something happens to it."""
    return _make(ffmpeg, tmp_path_factory.mktemp("clips") / "long.mp4", 60)


def _make(ffmpeg: FFmpeg, path: Path, seconds: int) -> Path:
    subprocess.run(
        [
            *(ffmpeg.path, "-v", "error", "-nostdin", "-y"),
            *("-f", "lavfi", "-i", f"testsrc2=s=320x180:r=25:d={seconds}"),
            *("-f", "lavfi", "-i", f"sine=r=44100:d={seconds}"),
            *("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac", str(path)),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return path


@pytest.fixture
def small() -> Profile:
    """`fast` with rungs that the clip has, and one that it has not."""
    return replace(
        profiles.load("fast"),
        name="small",
        segment_s=2,
        gop_s=1,
        rungs=(RungSpec(360, 800), RungSpec(144, 300), RungSpec(90, 120)),
    )


@pytest.fixture
def slow(small: Profile) -> Profile:
    return replace(small, preset="veryslow", rungs=(RungSpec(180, 300),))


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return tmp_path / "out" / ".tqstudio" / "store"


@pytest.fixture
def make_job(tmp_path: Path, small: Profile, work_dir: Path) -> MakeJob:
    """Words a claim: `make_job(path, epoch=2, kept={…})`."""

    def make(path: Path | bytes, **changes: Any) -> ClaimedJob:
        source = os.fsencode(path)
        try:
            found = os.stat(source)
            size, mtime_ns = found.st_size, found.st_mtime_ns
        except FileNotFoundError:
            size, mtime_ns = 0, 0
        epoch = changes.get("epoch", 1)
        job: dict[str, Any] = {
            "job": 7,
            "epoch": epoch,
            "video": 3,
            "attempt": 1,
            "kind": "new",
            "source": {"kind": "file", "path_b64": paths.encode(source)},
            "source_root_b64": paths.encode(os.path.dirname(source)),
            "drop_folder_b64": None,
            "refuses_sound": False,
            "source_warnings": [],
            "source_size": size,
            "source_mtime_ns": mtime_ns,
            "full_hash": None,
            "work_dir": {"kind": "file", "path_b64": paths.encode(work_dir)},
            "profile": small.to_json(),
            "requested": None,
            "dropped": [],
            "kept": {},
            "duplicates": [],
            "facts": None,
            "content_id": None,
            "log": str(tmp_path / "logs" / f"{epoch}.log"),
            "lease_s": 600.0,
        }
        return ClaimedJob(**(job | changes))  # type: ignore[typeddict-item]

    return make


@dataclass
class RecordingLine:
    """Stands for the client: keeps what is sent, and answers by verb from a script, the last for ever."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def send(self, call: Call[Any], *, timeout_s: float | None = None) -> Any:
        assert timeout_s is None or timeout_s > 0
        verb = call.path.rpartition("/")[2]
        with self.changed:
            self.sent.append((verb, dict(call.body or {})))
            self.changed.notify_all()
            script = self.answers[verb]
            answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, TqError):
            raise answer
        return answer

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.sent]


class RecordingReport(Report):
    """Keeps every state as the supervisor would see it, and lets a test act at a moment of its choice."""

    def __init__(self, act: Callable[[RecordingReport], None] = lambda _: None) -> None:
        super().__init__()
        self.seen: list[ProgressRequest] = []
        self._act = act

    def show(self, renditions: Any) -> None:
        super().show(renditions)
        self.seen.append(ProgressRequest(instance="instance-1", epoch=1, **self.request()))
        self._act(self)

    def begin(self, step: Step) -> None:
        super().begin(step)
        self.seen.append(ProgressRequest(instance="instance-1", epoch=1, **self.request()))
        self._act(self)

    @property
    def commands(self) -> list[str]:
        """What was run, as its last words show it."""
        argv = self.seen[-1].argv or []
        return ["video" if "-filter_complex" in c and "hls" in c and "libx264" in c else c[-1] for c in argv]


@pytest.fixture
def bench(ffmpeg: FFmpeg) -> WorkerConfig:
    return WorkerConfig(ffmpeg=ffmpeg)


@pytest.fixture
def paced(ffmpeg: FFmpeg, tmp_path: Path) -> FFmpeg:
    """Encodes at ten times real time, so that the long clip takes six seconds."""
    pace = tmp_path / "pace"
    pace.write_text("10")
    return replace(ffmpeg, path=str(paced_ffmpeg(tmp_path / "paced-ffmpeg", ffmpeg.path, pace)))


@pytest.fixture
def nothing_is_left(work_dir: Path) -> Iterator[None]:
    # Other tests of this process may have a supervisor of their own, for all of them.
    theirs = set(psutil.Process().children())
    yield
    left = set(psutil.Process().children()) - theirs
    assert not [child for child in left if child.name() != "cat"]
    assert not (work_dir / "scratch").exists() or not list((work_dir / "scratch").iterdir())


def lease_of(job: ClaimedJob) -> Lease:
    return Lease(job["job"], job["epoch"], job["lease_s"])


def run(job: ClaimedJob, bench: WorkerConfig, report: RecordingReport, lease: Lease | None = None) -> Outcome:
    """Run an attempt; as by a supervisor, once more if ffmpeg hangs, which is rare."""
    outcome = pipeline.run(job, bench, lease or lease_of(job), report)
    if isinstance(outcome, Failed) and outcome.code is ErrorCode.STALLED and bench.stall_s > SHORT_STALL_S:
        warnings.warn(f"{outcome.text}: {Path(job['log']).read_text()}", stacklevel=2)
        outcome = pipeline.run(job, bench, lease or lease_of(job), report)
    return outcome
