"""A video is deleted while it is encoded, brought back, encoded and deleted again."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import until_ended
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip
from .studio import Studio


@pytest.mark.slow
def test_a_video_is_deleted_and_brought_back(studio: Studio, clip: MakeClip, copy) -> None:
    job = 0
    with studio.paced(1):
        job = studio.add(copy(clip(), "gone.mp4"))
        encoders = studio.running(job)
        video = studio.job(job)["video"]
        studio.client.send(calls.delete_video(video))
        until_ended(encoders)
        until(lambda: studio.job(job)["deleted_at"], "the job has ended and is deleted")
        assert studio.job(job)["status"] == "cancelled"
    assert studio.client.send(calls.jobs(video=video))["jobs"] == []
    assert studio.encoders() == []

    studio.client.send(calls.undelete_video(video))
    studio.do("retry", job)
    master = Path(studio.done(job)["video_view"]["generation"]["master"])
    before = {path: path.read_bytes() for path in master.parent.rglob("*") if path.is_file()}
    studio.client.send(calls.delete_video(video))
    assert not master.parent.exists()
    studio.client.send(calls.undelete_video(video))
    assert {path: path.read_bytes() for path in master.parent.rglob("*") if path.is_file()} == before
    assert studio("verify", str(master)).code == 0
