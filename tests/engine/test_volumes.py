"""What a job waits for, decided from measured volumes; and that they are measured before a claim asks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from media.test_rungs import sized
from tqstudio.config import Settings
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.files.volumes import Volume
from tqstudio.engine.gates import decide
from tqstudio.engine.gates.decide import DATABASE_ROOM_BYTES, MeasuredPath, Use, Volumes, VolumeState
from tqstudio.engine.gates.measure import VolumeReader
from tqstudio.engine.gates.volume_monitor import VolumeMonitor
from tqstudio.engine.media.plan.profiles import load
from tqstudio.engine.media.plan.rungs import max_files_bytes, max_ladder_bytes
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine.gates import JobVolumes
from tqstudio.errors import ErrorCode, Problem
from tqstudio.home import Home

from .test_retention import House

MB = 1_000_000
STARTED = 1000
SETTINGS = Settings(disk_reserve_bytes=MB, disk_factor=2.0)
HOME, OUT, OTHER = (
    MeasuredPath(Use.HOME, b"/home"),
    MeasuredPath(Use.OUTPUT, b"/out"),
    MeasuredPath(Use.OUTPUT, b"/other"),
)
IN = MeasuredPath(Use.SOURCE, b"/in")
NEED = JobVolumes(1, 11, OUT.path, MB, "one.mp4", b"/in/one.mp4", None, STARTED + 1)
RUNNING = JobVolumes(2, 12, OUT.path, 4 * MB, "two.mp4", b"/in/two.mp4", None, STARTED + 1)


def volumes(out: VolumeState, source: VolumeState | None = None, home: int = DATABASE_ROOM_BYTES) -> Volumes:
    return Volumes(
        HOME,
        STARTED,
        {
            HOME: VolumeState(Volume(1, home)),
            OUT: out,
            OTHER: VolumeState(Volume(3, 0)),
            IN: source or VolumeState(),
        },
    )


def free(size: float, **more: int) -> VolumeState:
    return VolumeState(Volume(2, int(size), **more))


def test_a_job_fits_beside_what_the_running_ones_will_still_write() -> None:
    needed = MB + 2 * MB + 8 * MB
    assert decide.fits(NEED, [RUNNING], volumes(free(needed)), SETTINGS) is None
    short = decide.fits(NEED, [RUNNING], volumes(free(needed - 1)), SETTINGS)
    assert short is not None
    assert (short.path, short.code, short.needed, short.alone) == (OUT.path, "DISK_LOW", needed, False)
    made = replace(free(needed - 1), made={RUNNING.video: 1})
    assert decide.fits(NEED, [RUNNING], volumes(made), SETTINGS) is None, "a byte of it is there"
    elsewhere = replace(RUNNING, output_root=OTHER.path)
    assert decide.fits(NEED, [elsewhere], volumes(free(3 * MB)), SETTINGS) is None


def test_a_large_source_needs_no_more_than_the_bit_rates_of_its_ladder_allow() -> None:
    """A master of 300 GB an hour, whose ladder has at most some GB."""
    facts, profile = replace(sized(1920, 1080), duration_s=3600.0), load("web")
    known = replace(
        NEED, size=300_000 * MB, facts=json.dumps(facts.to_json()), profile=json.dumps(profile.to_json())
    )
    most = max_ladder_bytes(facts, profile)
    assert 5_000 * MB < most < 20_000 * MB
    assert decide.fits(known, [], volumes(free(MB + most)), SETTINGS) is None
    short = decide.fits(known, [], volumes(free(MB + most - 1)), SETTINGS)
    assert short is not None
    assert short.needed == MB + most
    small = replace(known, size=MB)
    assert decide.fits(small, [], volumes(free(3 * MB)), SETTINGS) is None, "not more than by its size"
    files = replace(profile, files=("mp4",))
    more = max_files_bytes(facts, files)
    assert most / 4 < more < most
    waits = decide.fits(
        replace(known, profile=json.dumps(files.to_json())), [], volumes(free(MB + most)), SETTINGS
    )
    assert waits is not None
    assert waits.needed == MB + most + more, "files of the whole video are beside it"
    for unknown in (
        {"facts": None},
        {"facts": "{}"},
        {"facts": json.dumps(replace(facts, duration_s=0).to_json())},
    ):
        waits = decide.fits(replace(known, **unknown), [], volumes(free(MB + most)), SETTINGS)
        assert waits is not None
        assert waits.needed == MB + 2 * known.size


def test_a_shut_gate_opens_only_with_a_margin() -> None:
    almost = volumes(free(3.1 * MB), home=2 * DATABASE_ROOM_BYTES)
    assert decide.fits(NEED, [], almost, SETTINGS) is None
    assert decide.fits(NEED, [], almost, SETTINGS, margin=0.05) is not None
    assert decide.fits(NEED, [], volumes(free(3.2 * MB)), SETTINGS, margin=0.05) is not None, (
        "of the home too"
    )


def test_space_of_the_home_and_inodes_are_needed_too() -> None:
    home = decide.fits(NEED, [], volumes(free(9 * MB), home=DATABASE_ROOM_BYTES - 1), SETTINGS)
    assert home is not None
    assert (home.path, home.needed) == (HOME.path, DATABASE_ROOM_BYTES)
    files = decide.fits(NEED, [], volumes(free(9 * MB, files=499)), SETTINGS)
    assert files is not None
    assert (files.of_files, files.free) == (True, 499)


@pytest.mark.parametrize(
    ("code", "alone"), [(ErrorCode.DISK_NOT_RESPONDING, True), (ErrorCode.OUTPUT_UNAVAILABLE, False)]
)
def test_other_jobs_run_beside_a_silent_output_only(code: ErrorCode, alone: bool) -> None:
    waits = decide.fits(NEED, [], volumes(VolumeState(problem=Problem(code, "no", "do"))), SETTINGS)
    assert waits is not None
    assert (waits.code, waits.alone, waits.hint) == (code, alone, "do")


@pytest.mark.parametrize(
    ("has_files", "folder", "is_older", "is_away"),
    [
        (True, None, True, False),
        (False, None, True, True),
        (False, None, False, False),
        (None, None, True, True),
        (None, None, False, False),
        (None, b"/in", False, True),
        (False, b"/in", False, False),
    ],
)
def test_a_missing_source_is_away_if_its_disk_may_not_be_mounted(
    has_files: bool | None, folder: bytes | None, is_older: bool, is_away: bool
) -> None:
    need = replace(NEED, folder=folder, added_at=STARTED - 1 if is_older else STARTED)
    found = volumes(free(9 * MB), VolumeState(has_files=has_files))
    waits = decide.waits_alone(need, found, is_missing=True)
    assert (waits is not None) == is_away
    assert decide.fits(need, [], found, SETTINGS) is None, "a worker looks for the file first"


def test_a_source_beneath_a_mount_point_is_away_only_if_it_is_missing() -> None:
    found = volumes(free(9 * MB), VolumeState(problem=decide.away("the disk is not mounted")))
    waits = decide.waits_alone(NEED, found, is_missing=True)
    assert waits is not None
    assert waits.code == ErrorCode.SOURCE_UNAVAILABLE
    assert decide.fits(NEED, [], found, SETTINGS) is None


def test_volumes_are_measured_before_a_claim_asks(home: Home, opened: Database, tmp_path: Path) -> None:
    """So that a claim is one transaction; without a hint it is refused and asks for the measurement."""
    house = House(opened, tmp_path / "out")
    reader = VolumeReader(opened, house.workspace, BoundedIO())
    settings = Settings(disk_reserve_bytes=0)

    async def claims() -> None:
        ready = asyncio.Event()
        monitor = VolumeMonitor(home, settings, opened, reader, house.retention(), ready.set)
        opened.bind(monitor.on_events)
        job = await asyncio.to_thread(lambda: house.job(house.video()))
        async with asyncio.timeout(60):
            await ready.wait()
        assert await opened.read(monitor.judge, job) is None
        await monitor.look()
        refused = await opened.read(monitor.judge, job)
        assert refused is not None
        assert refused.waits is None, "what no running job uses is not kept measured: that would lock it"
        await monitor.refused(job)
        assert await opened.read(monitor.judge, job) is None

    asyncio.run(claims())
