"""The wall: who made which segments of a running job, by a real supervisor and its workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MakeClip, MakeStudio
from e2e.studio import Studio
from e2e.test_divided_job import SECONDS, until_helped
from tqstudio.protocol import calls
from waiting import until


def makers(studio: Studio, job: int, quality: str) -> list[str | None]:
    """Of each segment the worker that made it: “?” for an unknown one, None while it is missing."""
    wall = studio.client.send(calls.wall())
    (shown,) = (each for each in wall["jobs"] if each["id"] == job)
    made = next((each["made"] for each in shown["qualities"] if each["name"] == quality), [])
    names = {-1: "?", None: None} | dict(enumerate(wall["workers"]))
    return [names[maker] for maker, count in made for _ in range(count)]


@pytest.mark.slow
def test_segments_are_shown_with_who_made_them_until_the_supervisor_restarts(
    make_studio: MakeStudio, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    studio = make_studio(workers=2).up()
    with studio.paced(2):
        job = studio.add(copy(clip(seconds=SECONDS), "film.mp4"))
        helped = until_helped(studio, job)
        own: Any = studio.job(job)["worker"]

        def both() -> Any:
            found = makers(studio, job, "180p")
            begun = found and (found[0], found[helped["first"]])
            return found if begun == (own, helped["worker"]) else None

        found = until(both, "the wall shows segments of both workers")
        assert len(found) == SECONDS // 2
        assert found[-1] is None
        studio.kill()
        studio.up()

        def after_restart() -> Any:
            found = makers(studio, job, "180p") if studio.job(job)["status"] == "in_progress" else []
            return found if found[:1] == ["?"] else None

        until(after_restart, "what was made before the restart is of an unknown worker")
    studio.done(job)
    assert studio.client.send(calls.wall())["jobs"] == []
