"""The output fills up, may not be written, or goes away in mid-publish. Needs the right to mount."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor, Worker
from tqstudio import paths
from tqstudio.engine.host.failpoints import VARIABLE
from tqstudio.protocol import calls
from waiting import WAIT_S, until

from .ladders import Bench
from .test_completion import bench_of, complete

SIZE = 4_000_000


def mount(*words: str | Path) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    """Also while a supervisor still has a file open there."""
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """An output on a volume of its own."""
    folder = tmp_path / "out"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={SIZE},mode=755", "none", folder)
    yield folder
    unmount(folder)


class Desk:
    """A supervisor whose worker is the test, and one video in that output."""

    def __init__(self, live: LiveSupervisor, out: Path, source: Path) -> None:
        self.live, self.out = live, out
        live.send(calls.worker_action("cpu-0", "disable"))
        self.job, self.video = self.add(source)

    def add(self, source: Path) -> tuple[int, int]:
        source.write_bytes(b"some video")
        call = calls.add([paths.encode(source)], output_b64=paths.encode(self.out))
        [result] = self.live.send(call)["results"]
        return result["job"], result["video"]

    def claim(self) -> tuple[Worker, Any, Bench]:
        """The next job, with everything made."""
        worker = self.live.worker("by-hand").register()
        job = until(lambda: worker.claim(), "there is a job")
        bench = bench_of(job)
        bench.rendition("360p", f"of-{job['job']}")
        return worker, job, bench

    def finish(self) -> str:
        worker, job, bench = self.claim()
        return str(complete(worker, job, bench)[1]["status"])

    def show(self) -> Any:
        return self.live.send(calls.job(self.job))

    @property
    def folder(self) -> Path:
        return self.out / str(self.live.send(calls.video(self.video))["slug"])

    def names(self) -> set[str]:
        return {entry.name for entry in self.folder.iterdir()}

    def plays(self, number: int) -> bool:
        generation = self.live.send(calls.video(self.video))["generation"]
        text = (self.folder / "master.m3u8").read_text()
        segments = list((self.folder / f"v{number}" / "360p").glob("*.m4s"))
        return generation["number"] == number and f"v{number}/360p/index.m3u8" in text and len(segments) == 3


@pytest.fixture
def desk(make_supervisor: MakeSupervisor, out: Path, tmp_path: Path) -> Desk:
    live = make_supervisor(TQSTUDIO_BACKOFF_S="0", TQSTUDIO_DISK_RESERVE_BYTES="100000").start()
    return Desk(live, out, tmp_path / "clip.mp4")


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return filler


@pytest.mark.slow
@pytest.mark.fault(
    "The output fills up during a publish",
    "`DISK_LOW`; the queue waits, no attempt is lost, the old ladder plays",
    area="publishing",
)
def test_the_volume_is_full(desk: Desk, tmp_path: Path) -> None:
    assert desk.finish() == "done"
    desk.add(tmp_path / "failed.mp4")
    worker, job, bench = desk.claim()
    bench.rendition("720p", "of-one-that-failed", text="x" * 300_000)
    worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="NO_MEDIA", text="no")
    [result] = desk.live.send(calls.act("retranscode", [desk.job]))["results"]
    desk.job = result["new_job"]
    worker, job, bench = desk.claim()
    filler = fill(desk.out)
    assert complete(worker, job, bench)[1]["status"] == "pending"
    row = desk.show()
    assert (row["error"]["code"], row["attempts"]) == ("DISK_LOW", 0)
    assert str(desk.folder) in row["error"]["message"]
    # From the history: the next look makes room, and opens the gate again.
    events = desk.live.send(calls.events(after=0, limit=500))["events"]
    assert [event["code"] for event in events if event["trigger"] == "gate_closed"] == ["disk"]
    assert desk.names() == {".owner", "master.m3u8", "v1"}
    assert desk.plays(1)
    assert bench.work_dir.joinpath(bench.made[0]["folder"]).is_dir(), "what was made is kept"
    assert filler.exists(), "what makes room is the work of the job that failed"
    assert desk.finish() == "done"
    assert desk.names() == {".owner", "master.m3u8", "v1", "v2"}
    assert desk.plays(2)


@pytest.mark.slow
@pytest.mark.fault(
    "The output becomes read-only during a publish",
    "The queue waits with a hint; the old ladder plays",
    area="publishing",
)
def test_the_volume_may_not_be_written(desk: Desk) -> None:
    assert desk.finish() == "done"
    [result] = desk.live.send(calls.act("retranscode", [desk.job]))["results"]
    desk.job = result["new_job"]
    worker, job, bench = desk.claim()
    mount("-o", "remount,ro", desk.out)
    assert complete(worker, job, bench)[1]["status"] == "pending"
    row = desk.show()
    assert (row["error"]["code"], row["attempts"]) == ("OUTPUT_UNAVAILABLE", 0)
    assert os.strerror(errno.EROFS) in row["error"]["message"]
    [gate] = desk.live.send(calls.status())["gates"]
    assert str(desk.out) in gate["reason"]
    assert "mount it for writing again" in gate["hint"]
    assert desk.plays(1)
    mount("-o", f"remount,rw,size={SIZE}", desk.out)
    assert desk.finish() == "done"
    assert desk.plays(2)
    assert desk.names() == {".owner", "master.m3u8", "v1", "v2"}


@pytest.mark.more
@pytest.mark.fault(
    "The disk of an interrupted publish is away", "The remains are removed when it is back", area="publishing"
)
def test_a_disk_that_is_away_when_the_next_supervisor_starts(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    for folder in (disk, out):
        folder.mkdir()
    mount("--bind", disk, out)
    with contextlib.ExitStack() as mounted:
        mounted.callback(unmount, out)
        live = make_supervisor(tmp_path / "home", **{VARIABLE: "publish.renamed"}).start()
        desk = Desk(live, out, tmp_path / "a.mp4")
        worker, job, bench = desk.claim()
        with contextlib.suppress(OSError, HTTPException):
            complete(worker, job, bench)
        assert desk.live.process.wait(WAIT_S) == -signal.SIGKILL
        desk.live.stop()
        mounted.pop_all().close()
        desk.live = make_supervisor(tmp_path / "home").start()
        assert desk.show()["status"] == "pending"
        assert list(out.iterdir()) == [], "nothing is written beside the disk"
        mount("--bind", disk, out)
        mounted.callback(unmount, out)
        assert desk.names() == {".owner", "v1"}, "made, and not published"
        assert desk.finish() == "done"
        assert desk.names() == {".owner", "master.m3u8", "v1"}
        assert desk.plays(1)


@pytest.mark.more
def test_finished_qualities_are_forgotten_where_that_is_requested(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor(TQSTUDIO_REUSE_SEGMENTS="false", TQSTUDIO_BACKOFF_S="0").start()
    desk = Desk(live, tmp_path / "out", tmp_path / "clip.mp4")
    worker, job, bench = desk.claim()
    body = {"epoch": job["epoch"], "text": "no"}
    assert worker.send(f"jobs/{job['job']}/fail", code="STALLED", **body)["status"] == "pending"
    assert not (bench.work_dir / "segments" / str(job["video"])).exists(), "the next attempt makes everything"
    worker, job, bench = desk.claim()
    late = {"epoch": job["epoch"] - 1, "code": "STALLED", "text": "no"}
    worker.post(f"jobs/{job['job']}/fail", instance=worker.instance, **late)
    assert (bench.work_dir / "segments" / str(job["video"])).exists(), (
        "but only by the word of who has the job"
    )
