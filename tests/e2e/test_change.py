"""Jobs that are changed are encoded as they were changed to, by real workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import m3u8
import pytest

from harness import ProgramInside
from tqstudio.protocol import calls
from waiting import until

from .conftest import Held, MakeClip
from .studio import Studio, audio_runs, published_marks
from .terminal import Terminal

Copy = Callable[..., Path]


@pytest.mark.slow
def test_a_job_that_waits_is_encoded_as_it_was_changed_to(shared: Studio, clip: MakeClip, copy: Copy) -> None:
    [result] = shared.offer(copy(clip(seconds=4), "held.mp4"), hold=True)
    job = result["job"]
    shared.do("change", job, renditions=["120p", "90p"], overrides={"crf": "40"}, hold=False)
    done = shared.done(job)
    master = m3u8.load(shared.video_of(job)["generation"]["master"])
    assert sorted(entry.uri.split("/")[1] for entry in master.playlists) == ["120p", "90p"]
    [attempt] = done["attempts_log"]
    assert any("40" in command for command in attempt["argv"])


@pytest.mark.slow
def test_another_crf_makes_the_pictures_again_and_keeps_the_sound(
    shared: Studio, clip: MakeClip, copy: Copy
) -> None:
    job = shared.add(copy(clip(seconds=4), "again.mp4"))
    before = shared.done(job)
    view = shared.client.send(calls.forecast(ids=[job], overrides={"crf": "40"}))
    assert (view["reencoded"], view["segments_kept"]) == (1, len(published_marks(before, "audio-und")))
    done = shared.done(shared.do("change", job, overrides={"crf": "40"})["new_job"])
    assert published_marks(done, "audio-und") == published_marks(before, "audio-und"), "by hard links"
    assert not published_marks(done, "180p") & published_marks(before, "180p")
    [attempt] = done["attempts_log"]
    assert audio_runs(attempt) == []


@pytest.mark.slow
def test_a_forecast_says_what_plan_says(shared: Studio, clip: MakeClip, copy: Copy) -> None:
    source = copy(clip(seconds=4), "planned.mp4")
    job = shared.add(source)
    shared.done(job)
    program = ProgramInside(shared.home.root)
    program.environment |= shared.environment
    planned = json.loads(program("plan", str(source), "--set", "crf=35", "--json").out)
    asked = program("job", "retranscode", str(job), "--set", "crf=35", "--dry-run", "--json")
    view = json.loads(asked.out)
    assert view["max_bytes"] == planned["max_bytes"] > 0
    assert view["eta"] == planned["eta"]
    made = [each["name"] for each in view["qualities"] if each["becomes"] == "encoded"]
    assert made == [each["name"] for each in planned["renditions"] if each["kind"] == "video"]
    said = program("job", "change", str(job), "--set", "crf=35", "--dry-run").out
    assert "1 job: 1 encoded again\nencoded: 180p, 120p, 90p\n" in said
    assert "space: at most " in said


@pytest.mark.slow
def test_a_change_is_typed(studio: Studio, held: Held, terminal: Terminal) -> None:
    jobs = held(2)
    terminal.shows("2 jobs", "clip-001.mp4")
    terminal.press("e")
    terminal.shows("Change job", "tiny, as it is", "For tests: qualities", "crf", "30")
    terminal.press("\x1b")
    terminal.lacks("tiny, as it is")
    terminal.press("ae")
    terminal.shows("Change 2 jobs", "crf")
    terminal.press("\x1b[Z\x1b[Z\x1b[Z7\r")
    until(lambda: [studio.job(job)["priority"] for job in jobs] == [7, 7], "both have the priority")
    terminal.shows("2 jobs changed")
    terminal.press("z")
    until(lambda: [studio.job(job)["priority"] for job in jobs] == [0, 0], "both have the former one")
