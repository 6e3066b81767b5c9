"""Volumes that are too small or fill up: of the output, of the database. Needs the right to mount."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor, Worker
from tqstudio import paths
from tqstudio.config import Settings
from tqstudio.engine.gates.decide import DATABASE_ROOM_BYTES, FILES_ROOM
from tqstudio.engine.monitoring.doctor import examine
from tqstudio.protocol import calls
from waiting import until

from .test_completion import bench_of, complete
from .test_publish_trouble import fill, mount

MB = 1_000_000
Volume = Callable[..., Path]


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    """Makes small file systems: `volume(name, bytes, nr_inodes=…)`."""
    made: list[Path] = []

    def make(name: str, size: int, **options: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        more = "".join(f",{key}={value}" for key, value in options.items())
        mount("-t", "tmpfs", "-o", f"mode=755,size={size}{more}", "none", folder)
        made.append(folder)
        return folder

    yield make
    for folder in made:
        subprocess.run(["umount", "--lazy", folder], check=True)


class Desk:
    """A supervisor whose worker is the test, with an output of 8 MB of which 1 MB stays free."""

    def __init__(self, live: LiveSupervisor, out: Path, files: Path) -> None:
        self.live, self.out, self._files = live, out, files
        live.send(calls.worker_action("cpu-0", "disable"))

    def add(self, name: str, size: int) -> int:
        """A job over a source of so many bytes, which takes no room itself."""
        path = self._files / name
        with path.open("wb") as file:
            file.truncate(size)
        call = calls.add([paths.encode(path)], output_b64=paths.encode(self.out))
        [result] = self.live.send(call)["results"]
        assert result["job"] is not None, result
        return int(result["job"])

    def worker(self, name: str) -> Worker:
        return self.live.worker(name).register()

    def show(self, job: int) -> Any:
        return self.live.send(calls.job(job))

    def gates(self) -> list[Any]:
        return list(self.live.send(calls.status())["gates"])

    def gate_events(self) -> list[str]:
        events = self.live.send(calls.events(after=0, limit=500))["events"]
        return [event["trigger"] for event in events if event["trigger"].startswith("gate")]


@pytest.fixture
def desk(volume: Volume, make_supervisor: MakeSupervisor, tmp_path: Path) -> Desk:
    out = volume("out", 8 * MB)
    live = make_supervisor(TQSTUDIO_BACKOFF_S="0", TQSTUDIO_DISK_RESERVE_BYTES=str(MB)).start()
    return Desk(live, out, tmp_path)


@pytest.mark.slow
@pytest.mark.fault(
    "The next job is larger than the free space",
    "Not started; the gate names the path and the bytes",
    area="disks",
)
def test_a_job_that_does_not_fit_is_not_begun(desk: Desk) -> None:
    large, small = desk.add("large.mp4", 6 * MB), desk.add("small.mp4", 1000)
    assert desk.worker("one").claim() is None
    [gate] = desk.gates()
    assert (gate["kind"], gate["path"], gate["needed"]) == ("disk", str(desk.out), 10 * MB)
    assert gate["code"] == "DISK_LOW"
    assert 7 * MB < gate["free"] < 8 * MB + 4096
    assert "large.mp4" in gate["reason"]
    assert str(desk.out) in gate["reason"]
    assert "pause the job that waits for it" in gate["hint"]
    assert re.search(r"^the disk has only 8\.\d MB in total: ", gate["hint"])
    assert str(desk.out) in [disk["path"] for disk in desk.live.send(calls.status())["disk"]]
    assert [desk.show(job)["status"] for job in (large, small)] == ["pending", "pending"]
    assert desk.show(large)["attempts_log"] == [], "it was never begun"
    assert desk.gate_events() == ["gate_closed"]
    # What holds the queue up is put aside; the next one fits.
    desk.live.send(calls.act("pause", [large]))
    until(lambda: not desk.gates(), "the gate is open")
    assert desk.gate_events() == ["gate_closed", "gate_opened"]
    assert until(lambda: desk.worker("two").claim(), "the next job")["job"] == small


@pytest.mark.more
@pytest.mark.fault(
    "A volume has free bytes and no inodes", "Nothing starts; gate and `doctor` name the inodes", area="disks"
)
def test_a_volume_without_inodes_is_reported_as_such_and_not_as_out_of_bytes(
    make_supervisor: MakeSupervisor, volume: Volume, tmp_path: Path
) -> None:
    out = volume("out", 50 * MB, nr_inodes=FILES_ROOM + 100)
    desk = Desk(make_supervisor().start(), out, tmp_path)
    others = [out / f"of someone else {number}" for number in range(200)]
    for path in others:
        path.touch()
    job, worker = desk.add("one.mp4", MB), desk.worker("one")
    assert worker.claim() is None
    [gate] = desk.gates()
    free = os.statvfs(out).f_favail
    assert gate["reason"].startswith(
        f"the file system of {out} has {free} files (inodes) free, {FILES_ROOM} are needed"
    )
    assert gate["hint"] == "remove files there, because no inodes are left; the queue resumes automatically"
    assert not {"free", "needed"} & set(gate), "bytes there are enough"
    checks = {check["name"]: check for check in examine(desk.live.home, Settings(disk_reserve_bytes=0))}
    assert checks[f"inodes of {out}"]["level"] == "fail"
    for path in others:
        path.unlink()
    until(lambda: not desk.gates(), "the gate is open")
    assert desk.gate_events() == ["gate_closed", "gate_opened"]
    assert until(worker.claim, "the job")["job"] == job


@pytest.mark.slow
@pytest.mark.fault("Two jobs fit alone and not together", "The second waits for the first", area="disks")
def test_what_running_jobs_will_take_is_not_given_twice(desk: Desk) -> None:
    first, second = desk.add("one.mp4", 3 * MB), desk.add("two.mp4", 2 * MB)
    one, two = desk.worker("one"), desk.worker("two")
    job = until(one.claim, "the first job")
    assert job["job"] == first
    assert str(desk.out) in [disk["path"] for disk in desk.live.send(calls.status())["disk"]]
    assert two.claim() is None
    [gate] = desk.gates()
    assert gate["needed"] == int(1.5 * 5 * MB) + MB
    assert "running jobs" in gate["reason"]
    bench = bench_of(job)
    bench.rendition("360p", "made")
    assert complete(one, job, bench)[1]["status"] == "done"
    assert two.claim(wait_s=30)["job"] == second


@pytest.mark.more
@pytest.mark.fault(
    "The store of an interrupted job fills the disk", "It counts as its own; the job resumes", area="disks"
)
def test_what_is_made_already_needs_no_room(desk: Desk) -> None:
    job = desk.add("one.mp4", 4 * MB)
    worker = desk.worker("one")
    claimed = until(worker.claim, "the job")
    store = bench_of(claimed).work_dir / "segments" / str(claimed["video"]) / "360p" / "key"
    store.mkdir(parents=True)
    (store / "seg_00000.m4s").write_bytes(b"x" * 5 * MB)
    worker.send(f"jobs/{job}/release", epoch=claimed["epoch"], reason="shutdown")
    # 3 MB are left, of which 1 MB stays free; 6 MB is the estimate, of which 5 MB are there.
    assert until(worker.claim, "it resumes")["epoch"] == claimed["epoch"] + 1
    assert desk.gate_events() == []


@pytest.mark.slow
@pytest.mark.fault("Abandoned work fills the disk", "It is removed, and nothing waits", area="disks")
def test_unfinished_work_that_no_job_needs_goes_before_a_job_waits(desk: Desk) -> None:
    failed = desk.add("failed.mp4", 1000)
    worker = desk.worker("one")
    claimed = until(worker.claim, "the job")
    store = bench_of(claimed).work_dir / "segments" / str(claimed["video"]) / "360p" / "key"
    store.mkdir(parents=True)
    (store / "seg_00000.m4s").write_bytes(b"x" * 5 * MB)
    body = {"epoch": claimed["epoch"], "code": "NO_MEDIA", "text": "no"}
    assert worker.send(f"jobs/{failed}/fail", **body)["status"] == "failed"
    job = desk.add("next.mp4", 3 * MB)

    def claimed_after_a_look() -> Any:
        begun = worker.claim()
        if begun is not None and store.exists():
            # By the state of the disk before the test wrote there.
            worker.send(f"jobs/{job}/release", epoch=begun["epoch"], reason="shutdown")
            return None
        return begun

    assert until(claimed_after_a_look, "the next job")["job"] == job
    assert not store.exists()
    assert desk.gate_events() == []


@pytest.mark.more
@pytest.mark.fault(
    "`disk_reserve_bytes` is above the free space", "Nothing starts; the gate names the setting", area="disks"
)
def test_a_reserve_above_what_is_free(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    live = make_supervisor(TQSTUDIO_DISK_RESERVE_BYTES=str(1 << 60)).start()
    desk = Desk(live, tmp_path / "out", tmp_path)
    job = desk.add("one.mp4", 1000)
    assert desk.worker("one").claim() is None
    [gate] = desk.gates()
    assert gate["needed"] == (1 << 60) + 1500
    assert "lower disk_reserve_bytes" in gate["hint"]
    assert "free some space" not in gate["hint"]
    reserve = Settings(disk_reserve_bytes=1 << 60)
    checks = {check["name"]: check for check in examine(live.home, reserve)}
    assert "lower disk_reserve_bytes" in checks[f"disk of {desk.out}"]["hint"]
    row = desk.show(job)
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)


def _can_be_written(live: LiveSupervisor) -> bool:
    answers = [live.raw("POST", f"/v1/queue/{verb}", {}) for verb in ("pause", "resume")]
    assert {status for status, _ in answers} <= {200, 507}, answers
    return all(status == 200 for status, _ in answers)


@pytest.mark.slow
def test_the_volume_of_the_database_is_full(
    volume: Volume, make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    root = volume("home", 3 * DATABASE_ROOM_BYTES)
    live = make_supervisor(
        root, TQSTUDIO_LEASE_S="2", TQSTUDIO_LEASE_SCAN_S="0.5", TQSTUDIO_HEARTBEAT_S="0.5"
    )
    desk = Desk(live.start(), tmp_path / "out", tmp_path)
    running, waiting = desk.add("one.mp4", 1000), desk.add("two.mp4", 1000)
    worker = desk.worker("one")
    job = until(worker.claim, "the job")
    assert job["job"] == running
    bench = bench_of(job)
    bench.rendition("360p", "made")
    filler = fill(root)
    until(lambda: not _can_be_written(live), "the database is full")
    # It is up, and reports what is wrong.
    status, answer = live.raw("POST", "/v1/queue/pause", {"reason": "no room for this"})
    assert (status, answer["error"]["code"]) == (507, "DISK_LOW")
    assert str(root) in answer["error"]["message"] + answer["error"]["hint"]
    [gate] = desk.gates()
    assert (gate["kind"], gate["path"], gate["needed"]) == ("disk", str(root), DATABASE_ROOM_BYTES)
    assert gate["code"] == "DISK_LOW"
    assert desk.show(waiting)["status"] == "pending"
    assert complete(worker, job, bench)[1]["error"]["code"] == "DISK_LOW", "the worker asks again"
    # Longer than a lease holds: that is no one's fault.
    expires = datetime.fromisoformat(desk.show(running)["lease_expires_at"])
    beat = {"jobs": [{"job": running, "epoch": job["epoch"]}], "cpu_percent": 1.0, "memory_bytes": 1}
    until(
        lambda: worker.send("heartbeat", **beat)["lost"] == [] and datetime.now(UTC) > expires,
        "longer than a lease",
    )
    filler.unlink()
    until(
        lambda: worker.send("heartbeat", **beat)["lost"] == [] and not desk.gates(), "it continues by itself"
    )
    assert complete(worker, job, bench) == (200, {"job": running, "status": "done"})
    row = desk.show(running)
    assert (row["attempts"], row["crashes"], len(row["attempts_log"])) == (0, 0, 1)
    assert desk.gate_events()[-2:] == ["gate_closed", "gate_opened"]
    assert until(worker.claim, "the next job")["job"] == waiting
