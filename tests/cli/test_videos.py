"""The commands for videos, and a fresh start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import QUICK, Program, ProgramInside

from .test_with_supervisor import _asked


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A running supervisor whose worker is disabled."""
    home = tmp_path_factory.mktemp("up") / "home"
    shell = Program(home, **QUICK)
    assert shell("up", "--detach").code == 0
    shell("worker", "disable", "cpu-0")
    yield ProgramInside(home, **QUICK)
    assert shell("down").code == 0


def add(up: Program, path: Path, *options: str) -> Any:
    path.write_bytes(path.name.encode())
    [result] = up("add", str(path), *options, "--json").json()["results"]
    return result


def listed(up: Program) -> list[int]:
    return [job["id"] for job in up("job", "list", "--json").json()["jobs"]]


def test_a_video_is_deleted_after_a_question(up: Program, tmp_path: Path) -> None:
    result = add(up, tmp_path / "film.mp4")
    video, job = str(result["video"]), result["job"]
    unasked = up("video", "delete", video)
    assert unasked.code == 2
    assert f"this would delete video {video} (film.mp4) with no ladder, 1 job" in unasked.err
    shell = Program(up.home.root, **QUICK)
    code, output = _asked(shell, "n", "video", "delete", video)
    assert (code, "nothing was changed" in output, job in listed(up)) == (4, True, True)
    deleted = up("video", "delete", str(tmp_path / "film.mp4"), "--yes")
    assert f"video {video} deleted" in deleted.out
    assert f"tqstudio video undelete {video}" in deleted.out
    assert job not in listed(up)
    assert up("video", "undelete", video).out == f"video {video} is back\n"
    assert job in listed(up)
    assert up("video", "delete", video, "--yes", "--json").json()["deleted_at"]
    assert up("video", "undelete", str(tmp_path / "film.mp4"), "--json").json()["deleted_at"] is None


def test_videos_are_listed_newest_first(up: Program, tmp_path: Path) -> None:
    videos = [add(up, tmp_path / f"{number}.mp4")["video"] for number in range(3)]
    up("video", "delete", str(videos[1]), "--yes")
    shown = up("video", "list")
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["ID", "STATE", "JOB", "VIDEO", "PLAYLIST"]
    states = [(int(line[0]), line[1]) for line in lines[1:4]]
    assert states == [(videos[2], "pending"), (videos[1], "deleted"), (videos[0], "pending")]
    few = up("video", "list", "--limit", "2")
    assert len(few.out.splitlines()) == 3
    assert "the newest 2 videos shown; use --limit for more" in few.err
    listed = up("video", "list", "--json").json()["videos"]
    assert [video["id"] for video in listed[:3]] == videos[::-1]


@pytest.mark.parametrize("which", ["4711", "/none.mp4", "²"])
@pytest.mark.parametrize("verb", ["delete", "undelete"])
def test_an_unknown_video_is_reported(up: Program, verb: str, which: str) -> None:
    refused = up("video", verb, which, "--json")
    assert (refused.code, refused.last_line()["error"]["code"]) == (4, "NOT_FOUND")


def test_a_source_with_several_videos_needs_a_number(up: Program, tmp_path: Path) -> None:
    add(up, tmp_path / "two.mp4", "-o", str(tmp_path / "1"))
    video = add(up, tmp_path / "two.mp4", "-o", str(tmp_path / "2"))["video"]
    refused = up("video", "delete", str(tmp_path / "two.mp4"), "--yes", "--json")
    assert (refused.code, refused.last_line()["error"]["code"]) == (2, "BAD_REQUEST")
    assert f"{video} ({tmp_path}/2)" in refused.last_line()["error"]["hint"]


def test_a_fresh_start_is_asked_twice(up: Program, tmp_path: Path) -> None:
    job = add(up, tmp_path / "ended.mp4")["job"]
    kept = add(up, tmp_path / "waits.mp4")["job"]
    up("job", "cancel", str(job))
    shell = Program(up.home.root, **QUICK)
    code, output = _asked(shell, "n", "queue", "clear", "--manifest")
    assert (code, "all that is known of files" in output) == (4, True)
    assert job in listed(up)
    code, output = _asked(shell, "y\nn", "queue", "clear", "--manifest")
    assert (code, "start afresh" in output.lower()) == (4, True)
    assert job in listed(up)
    assert up("queue", "clear", "--manifest").code == 2
    answer = up("queue", "clear", "--manifest", "--yes", "--json").json()
    assert answer["forgotten"] >= 1
    assert answer["pruned"] > 0
    assert up("job", "show", str(job), "--json").code == 4
    assert kept in listed(up)
    assert add(up, tmp_path / "ended.mp4")["decision"] == "queued"
