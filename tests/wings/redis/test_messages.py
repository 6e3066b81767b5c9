"""What web sites hear of a job: events, progress of its video, and workers, with relative paths."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MakeClip, clip
from e2e.studio import Studio
from harness import MakeSupervisor
from tqstudio.protocol import calls
from waiting import until

from .server import PASSWORD, Server

__all__ = ["clip"]


class Heard:
    """What arrives on all channels."""

    def __init__(self, server: Server) -> None:
        self.messages: dict[str, list[Any]] = defaultdict(list)
        self.text = ""
        self._channels = server.client.pubsub(ignore_subscribe_messages=True)
        self._channels.psubscribe("tqstudio:*")

    def on(self, channel: str) -> list[Any]:
        """What has arrived on a channel."""
        # Without a message it answers None, but for each subscription, too.
        for _ in range(2):
            while (message := self._channels.get_message(timeout=0.1)) is not None:
                self.text += message["data"].decode()
                self.messages[message["channel"].decode()].append(json.loads(message["data"]))
        return self.messages[f"tqstudio:{channel}"]


@pytest.mark.slow
def test_a_web_site_hears_of_jobs_and_workers(
    server: Server, ffmpeg: str, clip: MakeClip, roots: Path, tmp_path: Path
) -> None:
    source = roots / "film.mp4"
    source.write_bytes(clip(seconds=8).read_bytes())
    studio = Studio(tmp_path / "studio", ffmpeg, redis_url=server.url, redis_roots=f"{roots}, /nowhere")
    try:
        studio.up()
        heard = Heard(server)
        with studio.paced(2):
            server.add(path=source, output=roots / "site")
            [job] = until(lambda: studio.client.send(calls.jobs())["jobs"], "the job is there")

            def has_heard() -> bool:
                done = [event for event in heard.on("events") if event["target"] == "done"]
                return bool(done and heard.on("workers"))

            until(has_heard, "it is done, and workers are shown")
    finally:
        studio.down()
        studio.clear_away()
    assert [event["job"] for event in heard.on("events")].count(job["id"]) >= 3
    progress = heard.on(f"progress:{job['video']}")
    assert {row["id"] for row in progress} == {job["id"]}
    assert any(0 < row["progress"] < 100 for row in progress)
    [workers] = heard.on("workers")[-1]["workers"]
    assert workers["name"] == "cpu-0"
    assert str(tmp_path) not in heard.text
    assert PASSWORD not in heard.text


@pytest.mark.slow
def test_a_supervisor_for_one_command_ends_all_the_same(
    server: Server, make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    film.write_bytes(b"no film")
    heard = Heard(server)
    program = make_supervisor(TQSTUDIO_REDIS_URL=server.url)
    assert program("process", "--input", str(film), "--output", str(tmp_path / "out")).code == 1
    program.until_gone()
    assert heard.on("events")
