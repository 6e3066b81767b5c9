"""An output folder is moved by a person: its videos follow when they are told where it is.

The test plays the worker, so that nothing is encoded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import MakeSupervisor, Program
from tqstudio import paths
from tqstudio.errors import ErrorCode
from tqstudio.protocol import calls
from wings.deletion.test_deletions import NAME, Library

from .conftest import Desk


@pytest.fixture
def library(desk: Desk, tmp_path: Path, make_supervisor: MakeSupervisor) -> Iterator[Library]:
    found = Library(tmp_path, make_supervisor)
    found.joins(desk.live)
    yield found
    found.leaves()


def _relocate(library: Library, old: Path, new: Path) -> Any:
    return library.live.send(calls.relocate_videos(paths.encode(old), paths.encode(new)))


def _master(library: Library, video: int) -> str:
    generation = library.live.send(calls.video(video))["generation"]
    assert generation is not None
    return generation["master"]


def test_videos_and_folder_follow_a_moved_output(library: Library, tmp_path: Path) -> None:
    job, other = library.publishes(), library.publishes("other.mp4")
    videos = [library.show(each)["video"] for each in (job, other)]
    moved = library.out.rename(tmp_path / "moved")
    for repeat in range(2):
        # The second time, back to where it was, with what is new since.
        old, new = (library.out, moved) if not repeat else (moved, library.out)
        answer = _relocate(library, old, new)
        assert (answer["moved"], answer["not_moved"]) == (2 + repeat, [])
        assert len(answer["folders"]) == 1
        assert _master(library, videos[0]) == str(new / "film/master.m3u8")
        assert os.path.exists(_master(library, videos[1]))
        folders = {each["id"]: each for each in library.live.send(calls.folders())["folders"]}
        assert folders[answer["folders"][0]]["output_root"] == str(new)
        if not repeat:
            third = library.publishes("third.mp4")
            assert _master(library, library.show(third)["video"]) == str(moved / "third/master.m3u8")
            library.live.send(calls.act("retranscode", [job]))
            library.makes()
            assert os.path.exists(moved / "film/v2")
            moved.rename(library.out)


def test_what_is_not_there_stays_with_the_reason(library: Library, tmp_path: Path) -> None:
    names = (NAME, "lost.mp4", "foreign.mp4", "twice.mp4")
    job, lost, foreign, twice = map(library.publishes, names)
    moved = tmp_path / "moved"
    videos = {each: library.show(each)["video"] for each in (job, lost, foreign, twice)}
    library.out.rename(moved)
    (moved / "lost/master.m3u8").unlink()
    (moved / "foreign/.owner").write_text("another store 1")
    add = calls.add([paths.encode(library.drop / "twice.mp4")], output_b64=paths.encode(moved), hold=True)
    library.live.send(add)
    answer = _relocate(library, library.out, moved)
    assert answer["moved"] == 1
    reasons = {each["video"]: each["reason"] for each in answer["not_moved"]}
    assert reasons == {
        videos[lost]: "its ladder is not there",
        videos[foreign]: "its ladder is not there",
        videos[twice]: "there is another video of its source",
    }
    assert _master(library, videos[job]) == str(moved / "film/master.m3u8")
    assert _master(library, videos[lost]) == str(library.out / "lost/master.m3u8")


def test_a_running_job_keeps_its_output(library: Library, tmp_path: Path) -> None:
    library.drops(NAME)
    worker, job = library.claimed()
    answer = _relocate(library, library.out, tmp_path / "moved")
    assert [each["video"] for each in answer["not_moved"]] == [job["video"]]
    assert "pause it" in answer["not_moved"][0]["reason"]
    assert (answer["moved"], answer["folders"]) == (0, [])
    library.publish(worker, job)
    assert _master(library, job["video"]) == str(library.out / "film/master.m3u8")


def test_another_video_may_have_the_folder(library: Library, tmp_path: Path) -> None:
    video, moved = library.show(library.publishes())["video"], tmp_path / "moved"
    (tmp_path / "film.mp4").write_bytes(b"another")
    library.live.send(
        calls.add([paths.encode(tmp_path / "film.mp4")], output_b64=paths.encode(moved), hold=True)
    )
    library.out.rename(moved)
    [left] = _relocate(library, library.out, moved)["not_moved"]
    assert left == {"video": video, "reason": "there is another video in the folder film"}


def test_an_output_of_no_video_is_reported(library: Library, tmp_path: Path) -> None:
    call = calls.relocate_videos(paths.encode(tmp_path / "never"), paths.encode(library.out))
    assert library.refused(call).code is ErrorCode.NOT_FOUND
    bucket = library.live.home.buckets / "s3/films"
    call = calls.relocate_videos(paths.encode(library.out), paths.encode(bucket))
    assert library.refused(call).code is ErrorCode.BAD_REQUEST


def test_the_list_says_that_ladders_are_missing_and_which_command_helps(
    library: Library, tmp_path: Path
) -> None:
    video, moved = library.show(library.publishes())["video"], tmp_path / "it's moved"
    shell = Program(library.live.home.root)
    library.out.rename(moved)
    shown = shell("video", "list", "--limit", "1")
    assert re.search(rf"^ *{video}  missing ", shown.out, re.MULTILINE)
    assert f"tqstudio video relocate {library.out} NEW" in shown.err
    told = shell("video", "relocate", str(library.out) + "/", str(moved))
    assert (told.code, told.out.splitlines()[0]) == (0, f"ladders of 1 video are now in {moved}")
    shown = shell("video", "list", "--limit", "1")
    assert re.search(rf"^ *{video}  ready .*{re.escape(str(moved))}/film/master", shown.out, re.MULTILINE)
    assert "missing" not in shown.err
