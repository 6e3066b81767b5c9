"""The output's disk does not answer for a while: who writes to it waits, and cannot be killed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from powercut.volume import CannotCut, Volume
from tqstudio.sources import encode

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import mark, published_marks, until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volume]:
    try:
        volume = Volume(tmp_path / "disk")
    except CannotCut as reason:
        pytest.skip(str(reason))
    yield volume
    volume.release()


@pytest.mark.timeout(400)
def test_other_jobs_go_on_and_its_own_go_on_when_it_answers(
    make_studio: MakeStudio, disk: Volume, clip: MakeClip, copy
) -> None:
    studio = make_studio(workers=2, lease_s=3, heartbeat_s=0.5, scan_s=0.5, stall_s=2.5).up()
    out = encode(disk.root)
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=12), "long.mp4"), output_b64=out)
        studio.running(job)
    stored = sorted(disk.root.glob(".tqstudio/*/segments/*/*/*/seg_*.m4s"))
    before = {mark(path) for path in stored if path.parts[-3].endswith("p")}
    assert before
    with disk.hung():
        # Longer than the work may stand still, and than a lease holds.
        until(lambda: (studio.job(job)["idle_s"] or 0) > 4 or studio.job(job)["attempts"], "it stands still")
        done = studio.done(studio.add(copy(clip(), "elsewhere.mp4")))
        assert done["attempts"] == 0
        assert studio.status()["supervisor"]["pid"]
        assert studio.job(job)["status"] in ("pending", "in_progress")
    done = studio.done(job)
    assert done["crashes"] <= 1
    assert before <= published_marks(done), "finished segments are not made again"
    check_ladder(
        Path(done["video_view"]["generation"]["master"]),
        frames=300,
        fps=Fraction(25),
        names=("180p", "120p", "90p"),
    )
