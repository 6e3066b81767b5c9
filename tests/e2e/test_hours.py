"""The hours of a drop folder, or of the whole queue, end while ffmpeg works on a job."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from harness import lives
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip
from .studio import Studio, marks, published_marks


@pytest.mark.slow
@pytest.mark.fault(
    "The hours of a drop folder end while one of its jobs runs",
    "Its ffmpeg ends; the job waits without an attempt, and continues from its finished segments",
    area="workers",
)
def test_a_job_whose_hours_end_waits_for_the_next(studio: Studio, clip: MakeClip, tmp_path: Path) -> None:
    drop = tmp_path / "nightly"
    drop.mkdir()
    added = calls.add_folder(encode(drop), output_b64=encode(studio.out), settle_s=0)
    folder = studio.client.send(added)["id"]
    hour = datetime.now().hour
    closed = f"{(hour + 2) % 24:02d}:00-{(hour + 3) % 24:02d}:00"
    with studio.paced(2):
        shutil.copyfile(clip(seconds=12), drop / "long.mp4")
        (row,) = until(lambda: studio.client.send(calls.jobs(f"folder:{folder}"))["jobs"], "it is queued")
        job = row["id"]
        encoders = studio.running(job)
        studio.client.send(calls.edit_folder(folder, hours=closed))
        waiting = studio.wait(job, "pending")
    assert not [pid for pid in encoders if lives(pid)]
    until(lambda: (studio.job(job)["error"] or {}).get("code") == "OUTSIDE_HOURS", "it waits for its hours")
    assert "aborted:hours" in [event["trigger"] for event in studio.events(job)]
    kept = marks(studio.stored_segments(waiting["video"]))
    assert kept
    studio.client.send(calls.edit_folder(folder, hours=""))
    done = studio.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["released", "done"]
    assert kept <= published_marks(done)


@pytest.mark.more
def test_the_hours_of_the_queue_end(tmp_path: Path, ffmpeg: str, clip: MakeClip) -> None:
    # At the full minute, at least 20 s from now.
    end = (datetime.now() + timedelta(seconds=80)).replace(second=0)
    begin = end - timedelta(hours=2)
    studio = Studio(tmp_path / "studio", ffmpeg, hours=f"{begin:%H:%M}-{end:%H:%M}").up()
    try:
        with studio.paced(0.1):
            job = studio.add(clip(seconds=12))
            encoders = studio.running(job)
            until(lambda: studio.job(job)["status"] == "pending", "its hours have ended", 150)
        assert not [pid for pid in encoders if lives(pid)]
        (gate,) = studio.status()["gates"]
        assert gate["kind"] == "hours"
        assert [attempt["outcome"] for attempt in studio.job(job)["attempts_log"]] == ["released"]
    finally:
        studio.down()
