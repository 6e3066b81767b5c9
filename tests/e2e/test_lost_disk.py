"""Disks that go away and come back: of an output, of a drop folder. Needs the right to mount."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.paths import encode
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, marks, published_marks

RUNGS = ("180p", "120p", "90p")


class Disk:
    """A folder that is a disk's: mounted at `root` by a bind mount."""

    def __init__(self, folder: Path) -> None:
        self.root, self._content = folder / "mnt", folder / "content"
        self._mounted = False
        for made in (self.root, self._content):
            made.mkdir(parents=True)

    def mount(self) -> None:
        _mount("--bind", self._content, self.root)
        self._mounted = True

    def unmount(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", self.root], check=True)
            self._mounted = False

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self.unmount()
        try:
            yield
        finally:
            self.mount()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """As ext4 makes it that met an error."""
        _mount("-o", "remount,bind,ro", self.root)
        try:
            yield
        finally:
            _mount("-o", "remount,bind,rw", self.root)


def _mount(*words: str | Path) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    disk.mount()
    yield disk
    disk.unmount()


def _gate(studio: Studio, words: str) -> str:
    """Wait for a gate that says this; its hint."""

    def found() -> str | None:
        gates = studio.status()["gates"]
        return next((gate["hint"] for gate in gates if words in gate["reason"]), None)

    hint = until(found, f"a gate says: {words}")
    assert hint is not None
    return hint


def _resumed_from(studio: Studio, job: int) -> list[int | None]:
    return [attempt["resumed_from"] for attempt in studio.job(job)["attempts_log"]]


@pytest.mark.more
@pytest.mark.fault(
    "The output is mounted after the supervisor started",
    "The queue waits; nothing is written beneath the mount point",
    area="disks",
)
def test_an_output_that_is_mounted_late_is_waited_for(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    out = encode(disk.root)
    done = studio.add(copy(clip(), "done.mp4"), output_b64=out)
    studio.done(done)
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"), output_b64=out)
        studio.running(job)
        until(lambda: studio.job(job)["progress"] > 20, "something is made")
        studio.kill()
    before = marks(disk.root.glob(".tqstudio/*/segments/*/*/*/seg_*.m4s"))
    assert before
    with disk.away():
        studio.up()
        hint = _gate(studio, "is not mounted")
        assert "mkdir -p" in hint
        assert str(disk.root) in hint
        # What plays there may be asked for again; it waits too.
        again = studio.do("retranscode", done)["new_job"]
        assert "is not mounted" in studio("doctor").out
        assert studio.job(job)["status"] == studio.job(again)["status"] == "pending"
        assert list(disk.root.iterdir()) == [], "nothing is written beneath the mount point"
    detail = studio.done(job)
    assert before <= published_marks(detail), "finished segments are not made again"
    assert _resumed_from(studio, job)[-1], "it resumes where it was"
    assert detail["attempts"] == 0
    studio.done(again)
    assert not studio.status()["gates"]
    check_ladder(
        Path(detail["video_view"]["generation"]["master"]), frames=300, fps=Fraction(25), names=RUNGS
    )


@pytest.mark.more
@pytest.mark.fault(
    "A person emptied an output",
    "The queue waits; the message names the command that confirms it",
    area="disks",
)
def test_an_output_that_a_user_emptied_is_taken_again(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    out = encode(disk.root)
    studio.done(studio.add(copy(clip(), "one.mp4"), output_b64=out))
    studio.down()
    subprocess.run(["find", disk.root, "-mindepth", "1", "-delete"], check=True)
    job = studio.up().add(copy(clip(), "two.mp4"), output_b64=out)
    hint = _gate(studio, "is not mounted")
    subprocess.run(["sh", "-c", hint[hint.index("mkdir -p") :]], check=True)
    studio.done(job)


@pytest.mark.slow
@pytest.mark.fault(
    "The output becomes read-only, or its disk fails",
    "The queue waits with a hint; nothing is counted",
    area="disks",
)
def test_an_output_that_becomes_read_only_loses_no_job(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    options = {"output_b64": encode(disk.root), "autorestart": 3}
    with studio.paced(2):
        first = studio.add(copy(clip(seconds=12), "0.mp4"), **options)
        jobs = [first, *(studio.add(copy(clip(), f"{number}.mp4"), **options) for number in (1, 2, 3))]
        studio.running(first)
        with disk.read_only():
            until(
                lambda: studio.job(first)["attempts_log"][0]["error_code"] == "OUTPUT_UNAVAILABLE",
                "it is named",
            )
            hint = _gate(studio, str(disk.root))
            assert "mount it for writing again" in hint
            assert {studio.job(job)["status"] for job in jobs} == {"pending"}
    for job in jobs:
        detail = studio.done(job)
        assert detail["attempts"] == 0
        assert "autorestart" not in {event["trigger"] for event in studio.events(job)}
    assert _resumed_from(studio, first)[-1], "it resumes where it was"
    assert not studio.status()["gates"]


def _missed(studio: Studio, *jobs: int) -> None:
    """Wait until these jobs are put aside for their source."""

    def code(job: int) -> str | None:
        error = studio.job(job)["error"]
        return error["code"] if error else None

    until(lambda: {code(job) for job in jobs} == {"SOURCE_UNAVAILABLE"}, f"the jobs {jobs} wait")


@pytest.mark.slow
@pytest.mark.fault(
    "It goes away with the sources of waiting and running jobs",
    "`SOURCE_UNAVAILABLE`: they wait without losing an attempt, others run",
    area="disks",
)
def test_a_drop_folder_whose_mount_goes_away_loses_no_job(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    added = studio("folder", "add", disk.root, "--output", studio.out, "--autorestart", "5", "--delay", "1")
    assert added.code == 0, added.err
    with studio.paced(2):
        running = studio.add(_in(disk, clip(seconds=12), "0.mp4"), autorestart=5)
        studio.running(running)
        others = [studio.add(_in(disk, clip(), f"{number}.mp4"), autorestart=5) for number in (1, 2, 3)]
        jobs = [running, *others]
        disk.unmount()
        _missed(studio, *jobs)
    here = studio.add(copy(clip(), "here.mp4"))
    assert studio.done(here)["attempts"] == 0, "others continue meanwhile"
    listed = _folders(studio)
    assert f"the disk of {disk.root} is not mounted" in listed
    assert {studio.job(job)["status"] for job in jobs} == {"pending"}
    begun = {job: len(studio.job(job)["attempts_log"]) for job in jobs}
    disk.mount()
    for job in jobs:
        detail = studio.done(job)
        assert detail["attempts"] == 0
        assert len(detail["attempts_log"]) == begun[job] + 1, "a wait begins no attempt"
        assert "autorestart" not in {event["trigger"] for event in studio.events(job)}
    assert _resumed_from(studio, running)[-1], "it resumes where it was"
    assert "not mounted" not in _folders(studio)


@pytest.mark.slow
@pytest.mark.fault("A source is removed while its disk is there", "`SOURCE_MISSING`, at once", area="disks")
def test_a_source_that_a_user_removed_is_missing_and_not_away(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip
) -> None:
    studio = make_studio().up()
    assert studio("queue", "pause").code == 0
    source = _in(disk, clip(), "only.mp4")
    job = studio.add(source)
    source.unlink()
    assert studio("queue", "resume").code == 0
    assert studio.wait(job, "failed")["error"]["code"] == "SOURCE_MISSING"


@pytest.mark.more
@pytest.mark.fault(
    "A drop folder is mounted after the supervisor started", "Its jobs wait for it", area="disks"
)
def test_a_drop_folder_that_is_mounted_late_is_waited_for(
    make_studio: MakeStudio, disk: Disk, clip: MakeClip
) -> None:
    studio = make_studio().up()
    assert studio("folder", "add", disk.root, "--output", studio.out).code == 0
    assert studio("queue", "pause").code == 0
    job = studio.add(_in(disk, clip(), "late.mp4"))
    studio.kill()
    with disk.away():
        studio.up()
        assert studio("queue", "resume").code == 0
        _missed(studio, job)
        listed = _folders(studio)
        assert "is empty; its disk may not be mounted" in listed
    assert studio.done(job)["attempts"] == 0


def _folders(studio: Studio) -> str:
    """What `folder list` says, on one line."""
    answer = studio("folder", "list")
    return " ".join((answer.out + answer.err).split())


def _in(disk: Disk, clip: Path, name: str) -> Path:
    return Path(shutil.copyfile(clip, disk.root / name))
