"""Files in a drop folder that change, go, come back and are renamed, as people and programs do that."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tqstudio import client as calls
from tqstudio.sources import encode

from .conftest import MakeClip, MakeStudio
from .studio import Studio, until


class Drop:
    """A drop folder of a running studio."""

    def __init__(self, studio: Studio, path: Path, **rules: Any) -> None:
        self.studio, self.path = studio, path
        path.mkdir()
        rules = {"output_b64": encode(studio.out), "settle_s": 0.2, "profile": "tiny"} | rules
        self.id = studio.client.send(calls.add_folder(encode(path), **rules))["id"]

    def put(self, source: Path, name: str) -> Path:
        """A copy that is renamed into place."""
        part = self.path / f".{name}.part"
        shutil.copyfile(source, part)
        return part.rename(self.path / name)

    def jobs(self) -> list[Any]:
        return sorted(
            self.studio.client.send(calls.jobs(limit=500))["jobs"],  # type: ignore[arg-type]
            key=lambda job: job["id"],
        )

    def job(self, number: int = 0) -> int:
        """The id of the job that was made as this one, waiting for it."""
        until(lambda: len(self.jobs()) > number, f"job {number} of the folder is made")
        return int(self.jobs()[number]["id"])

    def state(self) -> Any:
        folders = self.studio.client.send(calls.folders())["folders"]
        return next(folder for folder in folders if folder["id"] == self.id)


@pytest.fixture
def drop(make_studio: MakeStudio, tmp_path: Path) -> Drop:
    return Drop(make_studio().up(), tmp_path / "in")


def pad(path: Path, size: int = 12_000_000) -> int:
    """Put a box that players skip behind a clip; answers a place in it that no sample covers."""
    begins = path.stat().st_size
    with path.open("ab") as file:
        file.write(size.to_bytes(4, "big") + b"free" + bytes(size - 8))
    return begins + 2_000_000


def test_a_change_between_the_samples_is_seen(drop: Drop, clip: MakeClip, copy) -> None:
    source = copy(clip(), "a.mp4")
    place = pad(source)
    path = drop.put(source, "a.mp4")
    first = drop.studio.done(drop.job())
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"x" * 350)
    second = drop.studio.done(drop.job(1))
    numbers = [detail["video_view"]["generation"]["number"] for detail in (first, second)]
    assert (numbers, second["kind"]) == ([1, 2], "changed")
    assert drop.studio.offer(path)[0]["decision"] == "cached"

    os.utime(path)
    settled = "decision=cached"
    until(lambda: settled in drop.studio.home.supervisor_log.read_text(), "another time, the same bytes")
    assert len(drop.jobs()) == 2
    assert drop.state()["checking"] == 0
