"""The volume of the home is full while a real worker encodes. Needs the right to mount."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.engine.gates.decide import DATABASE_ROOM_BYTES
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip
from .ladder import check_ladder
from .studio import Studio


@pytest.fixture
def studio(ffmpeg: str, tmp_path: Path) -> Iterator[Studio]:
    """Its home is a volume of its own; the output is not on it."""
    home = tmp_path / "studio" / "home"
    home.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={3 * DATABASE_ROOM_BYTES},mode=700", "none", home]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    try:
        studio = Studio(home.parent, ffmpeg, lease_s=2, heartbeat_s=0.5, lease_scan_s=0.5).up()
        try:
            yield studio
        finally:
            studio.down()
    finally:
        subprocess.run(["umount", "--lazy", home], check=True)


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return filler


def _refused(studio: Studio) -> str | None:
    """The code with which a change is refused; None while it is not."""
    try:
        studio.client.send(calls.pause_queue("to see whether it can be written"))
        studio.client.send(calls.resume_queue())
    except TqError as error:
        return error.code
    return None


def _in_store(studio: Studio, video: int) -> int:
    return len([path for path in studio.stored_segments(video) if path.name.startswith("seg_")])


@pytest.mark.slow
@pytest.mark.fault(
    "The volume of the database fills up",
    "Changes are refused, reads answered; the encode continues and the job is done in its first attempt",
    area="database",
)
def test_the_encode_continues_and_the_job_is_done_in_its_first_attempt(
    studio: Studio, clip: MakeClip, copy
) -> None:
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=24), "long.mp4"))
        studio.running(job)
    video, encoders = studio.job(job)["video"], studio.encoders()
    filler = _fill(studio.home.root)
    until(lambda: _refused(studio), "changes are refused")
    assert _refused(studio) == "DISK_LOW"
    made, expires = _in_store(studio, video), studio.job(job)["lease_expires_at"]
    # What is wrong is reported, and what runs continues.
    [gate] = studio.status()["gates"]
    assert (gate["kind"], gate["path"]) == ("disk", str(studio.home.root))
    answer = studio("queue", "pause")
    assert answer.code != 0
    assert "DISK_LOW" in answer.err
    assert str(studio.home.root) in answer.err
    until(lambda: _in_store(studio, video) > made, "a segment is finished meanwhile")
    assert set(studio.encoders()) & set(encoders), "by the same ffmpeg"
    # Longer than a lease, and to the last segment.
    until(lambda: datetime.now(UTC) > datetime.fromisoformat(expires), "longer than a lease")
    until(lambda: not studio.encoders(), "everything is encoded")
    held = studio.job(job)
    assert (held["status"], held["worker"], held["lease_epoch"]) == ("in_progress", "cpu-0", 1)
    assert _refused(studio) == "DISK_LOW"
    filler.unlink()
    done = studio.done(job)
    assert (done["attempts"], done["crashes"], len(done["attempts_log"])) == (0, 0, 1)
    assert not studio.status()["gates"]
    master = Path(done["video_view"]["generation"]["master"])
    check_ladder(master, frames=600, fps=Fraction(25), names=("180p", "120p", "90p"))
