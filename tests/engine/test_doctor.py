"""What `doctor` finds wrong with a home, its database and its outputs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from databases import committed
from tqstudio.config import Settings
from tqstudio.engine.host import orphan_processes
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.monitoring.doctor import examine
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import NewVideo
from tqstudio.engine.store.machine import supervisors
from tqstudio.home import Home


class House:
    """A home whose database knows one video, with an output of its own."""

    def __init__(self, root: Path) -> None:
        self.home, self.out = Home(root / "home"), root / "out"
        self.home.create()
        self.out.mkdir()
        migrate(self.home.database)
        _, self.uuid = self.write(
            lambda db: supervisors.begin(db, pid=1, version="0", now=now_us(), lease_us=60_000_000)
        )
        self.write(lambda db: videos.create(db, self._video(), now=now_us()))

    def _video(self) -> NewVideo:
        return NewVideo(b"/in/a.mp4", os.fsencode(self.out), "a.mp4", "a", "a", 1000, 1, "hash")

    def write(self, fn: Callable[[Connection], Any]) -> Any:
        with committed(self.home.database) as db:
            return fn(db)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.write(lambda db, sql=statement: (db.execute("PRAGMA foreign_keys=OFF"), db.execute(sql)))

    def levels(self) -> dict[str, str]:
        """What is not well, and how bad it is."""
        checks = list(examine(self.home, Settings(disk_reserve_bytes=0)))
        assert all(check["hint"] for check in checks if check["level"] != "ok")
        assert all(check["ok"] is (check["level"] != "fail") for check in checks)
        return {check["name"]: check["level"] for check in checks if check["level"] != "ok"}

    def detail(self, name: str) -> str:
        checks = examine(self.home, Settings(disk_reserve_bytes=0))
        return next(check["detail"] for check in checks if check["name"] == name)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_all_is_well(house: House, tmp_path: Path) -> None:
    assert house.levels() == {}
    new = Home(tmp_path / "new")
    assert [check["level"] for check in examine(new, Settings())] == ["ok"] * 3
    assert not new.root.exists(), "looking makes nothing"


def test_records_that_disagree(house: House) -> None:
    house.run("UPDATE job_count SET n = 3 WHERE status = 'done'")
    assert house.levels() == {"database": "fail"}
    assert "fewer done jobs than were counted" in house.detail("database")
    house.run("UPDATE job_count SET n = 0")
    with contextlib.closing(sqlite3.connect(house.home.database, isolation_level=None)) as db:
        db.execute("INSERT INTO generation (video_id, settings_hash, published_at) VALUES (77, 'x', 1)")
    assert house.levels() == {"database": "fail"}
    assert "1 rows" in house.detail("database")


def test_a_damaged_file(house: House) -> None:
    with house.home.database.open("r+b") as file:
        file.truncate(house.home.database.stat().st_size // 2)
    assert house.levels() == {"database": "fail"}
    assert str(house.home.database) in house.detail("database")


def test_an_empty_file_where_there_was_one(house: House) -> None:
    house.home.job_logs(1).mkdir(parents=True)
    house.home.database.write_bytes(b"")
    assert house.levels() == {"database": "fail"}


@pytest.mark.fault("The clock is before the newest event", "`doctor` reports it", area="database")
def test_a_clock_that_was_set_back(house: House) -> None:
    later = now_us() + 3_600_000_000
    house.run(f"INSERT INTO event (at, trigger, actor) VALUES ({later}, 'claim', 'test')")
    assert house.levels() == {"event times": "warn"}


def test_folders_that_no_one_needs(house: House) -> None:
    work_dir = house.out / ".tqstudio" / str(house.uuid)
    ladder = house.out / "a"
    for needed in (work_dir / "segments" / "1" / "360p", ladder / "v3", house.out / "own folder" / "v1"):
        needed.mkdir(parents=True)
    (ladder / ".owner").write_text(f"{house.uuid} 1")
    (ladder / "master.m3u8").write_text("v3/360p/index.m3u8\n")
    assert house.levels() == {}
    unneeded = [work_dir / "scratch" / "7-1", work_dir / "segments" / "4711", ladder / "v9"]
    for folder in unneeded:
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 1000)
    assert house.levels() == {"left over": "warn"}
    assert all(str(folder) in house.detail("left over") for folder in unneeded)
    assert house.detail("left over").startswith("3.0 kB")


def test_a_home_that_others_may_look_into(house: House) -> None:
    house.home.root.chmod(0o755)
    assert house.levels() == {"permissions": "warn"}


def test_a_process_that_outlived_its_supervisor(house: House) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=os.environ | {orphan_processes.MARK: f"{house.uuid}:1:1:{house.home.root}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        # `Popen` returns while the kernel still makes the new image, which has no environment yet.
        assert left.stdout is not None
        assert left.stdout.readline()
        assert house.levels() == {"processes": "warn"}
        assert str(left.pid) in house.detail("processes")
    finally:
        left.kill()
        left.wait()
        assert left.stdin is not None
        left.stdin.close()
    assert house.levels() == {}


def test_doctor_is_not_left_over_where_a_script_of_a_dead_supervisor_runs_it(house: House) -> None:
    code = (
        "from tqstudio.engine.monitoring import doctor; from tqstudio.home import current_home;"
        "print(doctor._processes(current_home()))"
    )
    mark = f"{house.uuid}:1:1:{house.home.root}"
    environment = os.environ | {orphan_processes.MARK: mark, "TQSTUDIO_HOME": str(house.home.root)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "none left over" in done.stdout
