"""What keeps a queue from moving is reported where a user looks, with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio


def _reasons(studio: Studio) -> dict[str, str]:
    return {gate["kind"]: gate["hint"] for gate in studio.status()["gates"]}


@pytest.mark.more
def test_no_worker_switched_on_is_reported_like_a_shut_gate(
    make_studio: MakeStudio, clip: MakeClip, copy
) -> None:
    studio = make_studio().up()
    until(lambda: studio.status()["workers"], "a worker")
    names = [worker["name"] for worker in studio.status()["workers"]]
    for name in names:
        assert studio.client.send(calls.worker_action(name, "drain"))["status"] == "disabled"
    assert _reasons(studio) == {}
    job = studio.add(copy(clip(), "waits.mp4"))
    assert "worker enable" in _reasons(studio)["workers"]
    for name in names:
        studio.client.send(calls.remove_worker(name))
    assert _reasons(studio)["workers"] == "add one with: tqstudio worker add"
    studio.client.send(calls.add_worker())
    assert "workers" not in _reasons(studio)
    studio.wait(job, "done")


@pytest.mark.slow
def test_an_output_that_cannot_be_made_fails_at_once(make_studio: MakeStudio, clip: MakeClip, copy) -> None:
    studio = make_studio().up()
    in_the_way = studio.root / "a-file"
    output = Path(in_the_way) / "ladders"
    studio.client.send(calls.pause_queue("a test"))
    job = studio.add(copy(clip(), "nowhere.mp4"), output_b64=encode(output))
    # Had it stood there before, the file would not have been taken.
    in_the_way.write_text("no folder\n")
    studio.client.send(calls.resume_queue())
    detail = studio.wait(job, "failed")
    assert detail["error"]["code"] == "PERMISSION", detail["error"]
    assert str(output) in detail["error"]["message"]
    assert "output" in detail["error"]["hint"]
    assert len(detail["attempts_log"]) == 1
