"""The disk of an output or a source does not answer for a while. There is one worker: other jobs need it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from engine.hung import HungMount
from powercut.volume import CannotCut, Volume
from tqstudio.paths import encode
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, mark, published_marks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volume]:
    try:
        volume = Volume(tmp_path / "disk")
    except CannotCut as reason:
        pytest.skip(str(reason))
    yield volume
    volume.release()


@pytest.fixture
def hang() -> Iterator[Callable[[Path], HungMount]]:
    """Puts a file system that does not answer over a folder."""
    made: list[HungMount] = []

    def make(folder: Path) -> HungMount:
        made.append(HungMount(folder))
        return made[-1]

    yield make
    for mount in made:
        mount.end()


def _waits(studio: Studio, job: int) -> bool:
    """Whether the job waits for a disk, and reports it."""
    row = studio.job(job)
    return row["status"] == "pending" and row["error"]["code"] == "DISK_NOT_RESPONDING"


@pytest.mark.slow
@pytest.mark.fault(
    "The output hangs and its writers cannot be killed",
    "Their slot goes to new processes; its jobs resume when it answers",
    area="disks",
)
def test_other_jobs_continue_and_its_own_resume_when_it_answers(
    make_studio: MakeStudio, disk: Volume, clip: MakeClip, copy
) -> None:
    """Who writes there cannot even be killed."""
    studio = make_studio(lease_s=3, heartbeat_s=0.5, lease_scan_s=0.5, stall_s=2.5).up()
    out = encode(disk.root)
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"), output_b64=out)
        studio.running(job)
    stored = sorted(disk.root.glob(".tqstudio/*/segments/*/*/*/seg_*.m4s"))
    before = {mark(path) for path in stored if path.parts[-3].endswith("p")}
    assert before
    with disk.hung():
        # It is next, and the only worker hangs with the one that is before it.
        done = studio.done(studio.add(copy(clip(), "elsewhere.mp4")))
        assert done["attempts"] == 0
        assert studio.status()["gates"] == []
        assert _waits(studio, job)
        assert studio.job(job)["crashes"] == 0
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert before <= published_marks(done), "finished segments are not made again"
    check_ladder(
        Path(done["video_view"]["generation"]["master"]),
        frames=300,
        fps=Fraction(25),
        names=("180p", "120p", "90p"),
    )


@pytest.mark.slow
@pytest.mark.fault(
    "The disk of a source hangs",
    "The worker is killed after `stall_s` and replaced; the job waits: `DISK_NOT_RESPONDING`",
    area="disks",
)
def test_a_source_whose_disk_hangs_holds_up_no_other_job(
    make_studio: MakeStudio, hang: Callable[[Path], HungMount], clip: MakeClip, copy, tmp_path: Path
) -> None:
    studio = make_studio(stall_s=5).up()
    source = copy(clip(seconds=12), "long.mp4")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    with studio.paced(2):
        job = studio.add(source)
        studio.running(job)
    mount = hang(source.parent)
    other = Path(shutil.copyfile(clip(), elsewhere / "other.mp4"))
    assert studio.done(studio.add(other))["attempts"] == 0
    assert _waits(studio, job)
    assert str(source.parent) in studio.job(job)["error"]["message"]
    mount.end()
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)


@pytest.mark.more
@pytest.mark.fault(
    "A job whose disk hangs is cancelled, paused or restarted",
    "Its worker is killed; the request takes effect",
    area="disks",
)
def test_a_job_whose_disk_hangs_can_be_cancelled(
    make_studio: MakeStudio, hang: Callable[[Path], HungMount], clip: MakeClip, copy, tmp_path: Path
) -> None:
    studio = make_studio().up()
    out = tmp_path / "hangs"
    with studio.paced(0.5):
        job = studio.add(copy(clip(seconds=12), "long.mp4"), output_b64=encode(out))
        studio.running(job)
    hang(out)
    assert studio("job", "cancel", str(job)).code == 0
    until(
        lambda: studio.job(job)["status"] == "cancelled", "it is cancelled, long before it counts as stalled"
    )
    assert studio.done(studio.add(copy(clip(), "other.mp4")))["attempts"] == 0
