"""Rules of folders and numbers of workers, changed on the screen of a real supervisor that is at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import PROGRAM
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .studio import Studio, marks, published_marks
from .terminal import Terminal


def statuses(studio: Studio) -> dict[str, str]:
    """The status of each worker."""
    return {worker["name"]: worker["status"] for worker in studio.status()["workers"]}


def test_the_rules_of_a_folder_with_what_they_take(
    studio: Studio, terminal: Terminal, clip: MakeClip, tmp_path: Path
) -> None:
    folder, source = tmp_path / "drop", clip(seconds=1, size="160x90")
    for name in (
        "a.mp4",
        "b.MOV",
        "sub/c.mp4",
        "old/d.mp4",
        ".hidden/e.mp4",
        "half.mp4.part",
        "ignored/f.mp4",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source.read_bytes() + name.encode())
    (folder / "notes.txt").write_text("no video")
    (folder / ".tqignore").write_text("ignored/\n")
    studio.client.send(calls.pause_queue())
    try:
        added = studio.client.send(
            calls.add_folder(encode(folder), output_b64=encode(studio.out), settle_s=0.3)
        )
        studio.client.send(calls.edit_folder(added["id"], enabled=False))
        terminal.shows("queue")
        terminal.press("3")
        terminal.shows(str(folder)[:12], "off")
        terminal.press("r")
        terminal.shows("Rules of", "4 videos")
        terminal.press("\x1b")
        terminal.lacks("Rules of")
        terminal.press("r\t/old sub/\r")
        until(
            lambda: studio.client.send(calls.folders())["folders"][0]["exclude"] == ["/old", "sub/"],
            "the rules are stored",
        )
        rules = {"exclude": ["/old", "sub/"], "output_b64": encode(studio.out)}
        preview = studio.client.send(calls.preview_folder(encode(folder), **rules))
        assert (preview["videos"], preview["unknown"], preview["left_out"]) == (2, 2, 5)
        terminal.press("e")
        jobs = until(lambda: len(studio.client.send(calls.jobs())["jobs"]) >= 2, "the folder is watched")
        assert jobs
        until(lambda: not studio.client.send(calls.folders())["folders"][0]["settling"], "all have settled")
        listed = studio.client.send(calls.jobs())["jobs"]
        assert sorted(row["name"] for row in listed) == ["a.mp4", "b.MOV"]
        until(
            lambda: not studio.client.send(calls.preview_folder(encode(folder), **rules))["unknown"],
            "the background probe has examined them",
        )
        terminal.press("z")
        until(
            lambda: not studio.client.send(calls.folders())["folders"][0]["enabled"], "the newest is undone"
        )
    finally:
        studio.client.send(
            calls.act("cancel", [row["id"] for row in studio.client.send(calls.jobs())["jobs"]])
        )
        studio.client.send(calls.resume_queue())


def test_a_preview_names_what_cannot_be_read(studio: Studio, tmp_path: Path) -> None:
    (tmp_path / ".tqignore").write_text("!\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.mp4").write_bytes(b"x")
    found = studio.client.send(calls.preview_folder(encode(tmp_path)))
    assert found["problem"] is not None
    assert found["problem"]["code"] == "BAD_CONFIG"
    gone = studio.client.send(calls.preview_folder(encode(tmp_path / "gone")))
    assert gone["problem"] is not None
    assert (gone["videos"], gone["problem"]["code"]) == (0, "SOURCE_MISSING")


@pytest.mark.slow
def test_the_worker_of_a_running_job_is_removed(
    make_studio: MakeStudio, clip: MakeClip, copy: Callable[..., Path]
) -> None:
    """The job is requeued with its segments, and another worker that was added makes the rest."""
    studio = make_studio(divide_jobs="false").up()
    with Terminal(PROGRAM, studio.environment) as terminal:
        with studio.paced(0.5):
            job = studio.add(copy(clip(seconds=20), "film.mp4"))
            studio.running(job, segments=2)
        terminal.shows("film.mp4")
        terminal.press("2")
        terminal.shows("cpu-0", "busy")
        terminal.press("n")
        terminal.shows("Add a worker", "workers = 2 in")
        terminal.press("\r")
        until(lambda: statuses(studio).get("cpu-1") == "idle", "another is there")
        terminal.shows("cpu-1")
        video = studio.video_of(job)["id"]
        terminal.press("D")
        terminal.shows("Remove cpu-0?", f"Job {job} is requeued")
        before = marks(studio.stored_segments(video))
        assert before
        terminal.press("y")
        terminal.shows("cpu-0 is removed")
        until(
            lambda: studio.job(job)["worker"] == "cpu-1" or studio.job(job)["status"] == "done", "it moved on"
        )
        terminal.lacks("cpu-0 ")
        done = studio.done(job)
        assert before <= published_marks(done), "nothing is encoded twice"
        assert [attempt["worker"] for attempt in done["attempts_log"]] == ["cpu-0", "cpu-1"]
        assert list(statuses(studio)) == ["cpu-1"]
        assert (done["attempts"], done["crashes"]) == (0, 0), "it counts as no failure"
        added = studio.client.send(calls.add_worker())
        assert added["name"] == "cpu-0"
        until(lambda: statuses(studio).get("cpu-0") == "idle", "its name is free again")
