"""A drop folder whose duplicates share the segments of the ladder that was published first."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, audio_runs, published_marks, video_runs
from .test_drop_folder import Drop, pad

NAMES = ("180p", "120p", "90p")


@pytest.fixture
def drop(make_studio: MakeStudio, tmp_path: Path) -> Drop:
    return Drop(make_studio().up(), tmp_path / "in", duplicates="link")


@pytest.fixture
def film(clip: MakeClip, copy: Callable[[Path, str], Path]) -> Path:
    """A clip of more than five samples, so that only its full hash proves equal content."""
    path = copy(clip(), "film.mp4")
    pad(path)
    return path


def _folder(job: Any) -> Path:
    generation = job["video_view"]["generation"]
    return Path(generation["master"]).parent / f"v{generation['number']}"


def _whole(job: Any) -> None:
    master = Path(job["video_view"]["generation"]["master"])
    check_ladder(master, frames=100, fps=Fraction(25), names=NAMES)


def _linked(studio: Studio, job: Any) -> str:
    """What the history says of where the segments of a job come from."""
    [end] = [event for event in studio.events(job["id"]) if event["trigger"] == "complete"]
    return str(end["detail"]).partition("; ")[2]


@pytest.mark.slow
def test_a_duplicate_shares_its_segments_and_is_a_video_of_its_own(drop: Drop, film: Path) -> None:
    studio = drop.studio
    film.with_name("film.en.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello\n")
    for suffix in ("en.srt", "mp4"):
        drop.put(film.with_name(f"film.{suffix}"), f"first.{suffix}")
    first = studio.done(drop.job())
    assert _linked(studio, first) == ""
    for suffix in ("en.srt", "mp4"):
        drop.put(film.with_name(f"film.{suffix}"), f"second.{suffix}")
    second = studio.done(drop.job(1))
    video = first["video"]
    assert second["video"] != video
    assert (second["attempts"], second["crashes"], second["warnings"]) == (0, 0, [])
    [attempt] = second["attempts_log"]
    assert (video_runs(attempt), audio_runs(attempt)) == ([], [])
    assert not [argv for argv in attempt["argv"] if argv[-1].endswith(".vtt")], "no subtitles are made again"
    mine, duplicates = _folder(second), _folder(first)
    assert mine.parent != duplicates.parent
    shared = sorted(duplicates.glob("*/seg_*"))
    assert {path.suffix for path in shared} == {".m4s", ".vtt"}
    assert len({path.parent.name for path in shared}) == len(NAMES) + 2
    for path in shared:
        assert (mine / path.relative_to(duplicates)).samefile(path)
    for path in (path for path in duplicates.rglob("*") if path.is_file() and path not in shared):
        assert not (mine / path.relative_to(duplicates)).samefile(path), "only segments are shared"
    for job in (first, second):
        answer = studio("verify", "--full", str(_folder(job).parent / "master.m3u8"))
        assert answer.code == 0, answer
    assert _linked(studio, second).endswith(f" linked from video {video}")
    rows = [row for row in second["renditions"] if row["status"] == "completed"]
    assert {(row["reason"], row["encoder"]) for row in rows} == {(f"linked from video {video}", None)}
    log = (studio.home.job_logs(second["id"]) / "1.log").read_text()
    assert f"180p from video {video}" in log
    assert (second["video_view"]["title"], mine.parent.name) == ("second", "second")

    # Whatever becomes of the first, the second plays.
    studio.do("delete", first["id"])
    shutil.rmtree(duplicates.parent)
    answer = studio("verify", "--full", str(mine.parent / "master.m3u8"))
    assert answer.code == 0, answer
    again = studio.do("retranscode", second["id"], renditions=["90p"])
    third = studio.done(again["new_job"])
    assert verify_ladder(_folder(third).parent / "master.m3u8", every_byte=True).ok
    assert published_marks(third, "180p") == published_marks(second, "180p")
    assert _linked(studio, third) == ""


@pytest.mark.more
def test_only_with_the_rule_and_the_same_bytes(drop: Drop, film: Path) -> None:
    studio = drop.studio
    drop.put(film, "first.mp4")
    first = studio.done(drop.job())
    with film.open("r+b") as file:
        file.seek(film.stat().st_size - 8_000_000)
        file.write(b"x" * 350)
    drop.put(film, "other.mp4")
    other = studio.done(drop.job(1))
    assert len(video_runs(other["attempts_log"][0])) == 1, "it differs between the samples"
    log = (studio.home.job_logs(other["id"]) / "1.log").read_text()
    assert f"video {first['video']} has the same samples and other bytes" in log
    studio.client.send(calls.edit_folder(drop.id, duplicates="encode"))
    drop.put(film, "copy.mp4")
    copy = studio.done(drop.job(2))
    assert len(video_runs(copy["attempts_log"][0])) == 1
    assert not published_marks(copy) & (published_marks(first) | published_marks(other))


@pytest.mark.more
def test_other_settings_encode_what_differs(make_studio: MakeStudio, tmp_path: Path, film: Path) -> None:
    studio = make_studio().up()
    drop = Drop(studio, tmp_path / "in", duplicates="link")
    drop.put(film, "first.mp4")
    first = studio.done(drop.job())
    text = (studio.home.profiles / "tiny.toml").read_text()
    studio.write_profile("other", text.replace("maxrate_kbps = 250", "maxrate_kbps = 240"))
    # Another output, as another file system would be.
    other = Drop(
        studio, tmp_path / "in2", duplicates="link", profile="other", output_b64=encode(tmp_path / "out2")
    )
    other.put(film, "second.mp4")
    jobs = until(lambda: [job for job in other.jobs() if job["name"] == "second.mp4"], "it is queued")
    second = studio.done(jobs[0]["id"])
    [run] = video_runs(second["attempts_log"][0])
    assert "120p/index.m3u8" in " ".join(run)
    assert "180p" not in " ".join(run)
    assert audio_runs(second["attempts_log"][0]) == []
    assert published_marks(second, "180p") == published_marks(first, "180p")
    assert not published_marks(second, "120p") & published_marks(first, "120p")
    assert _linked(studio, second) == f"180p, 90p, audio-und linked from video {first['video']}"
    _whole(second)


@pytest.mark.more
@pytest.mark.fault(
    "The ladder that a duplicate is linked from is damaged or gone",
    "What is damaged is encoded; nothing incomplete is published",
    area="publishing",
)
@pytest.mark.parametrize("damage", ["changed", "missing", "gone"])
def test_what_is_damaged_is_encoded(drop: Drop, film: Path, damage: str) -> None:
    studio = drop.studio
    drop.put(film, "first.mp4")
    first = studio.done(drop.job())
    torn = _folder(first) / "120p" / segment_name(1)
    content = bytearray(torn.read_bytes())
    torn.unlink()
    if damage == "changed":
        # Its boxes are whole.
        content[-1] ^= 1
        torn.write_bytes(content)
    elif damage == "gone":
        shutil.rmtree(_folder(first))
    drop.put(film, "second.mp4")
    second = studio.done(drop.job(1))
    [run] = video_runs(second["attempts_log"][0])
    assert ("180p/index.m3u8" in " ".join(run)) is (damage == "gone")
    assert (second["attempts"], second["crashes"]) == (0, 0)
    expected = "" if damage == "gone" else f"180p, 90p, audio-und linked from video {first['video']}"
    assert _linked(studio, second) == expected
    log = (studio.home.job_logs(second["id"]) / "1.log").read_text()
    assert f"120p cannot be linked from video {first['video']}: " in log
    _whole(second)


class Blocked:
    """A published file that no reader finishes, as on a disk that hangs."""

    def __init__(self, path: Path) -> None:
        self._path, self._kept = path, path.with_name("kept")
        path.rename(self._kept)
        os.mkfifo(path)

    def release(self) -> None:
        self._kept.replace(self._path)


def _until_linked(studio: Studio, epoch: int, link: str) -> None:
    """Wait until an attempt has linked this, which it then reads."""
    until(lambda: list(studio.out.glob(f".tqstudio/*/scratch/*-{epoch}/{link}")), f"{link} is there")


def _kill_worker(studio: Studio) -> None:
    os.kill(int(studio.worker()["pid"]), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.fault(
    "A worker is killed while it links a duplicate",
    "A new worker links the rest; nothing is encoded",
    area="publishing",
)
def test_a_worker_that_is_killed_while_it_links(drop: Drop, film: Path) -> None:
    studio = drop.studio
    drop.put(film, "first.mp4")
    first = studio.done(drop.job())
    blocked = Blocked(_folder(first) / "120p" / segment_name(1))
    drop.put(film, "second.mp4")
    job = drop.job(1)
    _until_linked(studio, 1, "120p-of-*/seg_00001.m4s")
    blocked.release()
    _kill_worker(studio)
    second = studio.done(job)
    assert (second["attempts"], second["crashes"]) == (0, 1)
    assert [video_runs(attempt) for attempt in second["attempts_log"]] == [[], []]
    assert published_marks(second) == published_marks(first)
    assert _linked(studio, second) == f"180p, 120p, 90p, audio-und linked from video {first['video']}"
    assert not list(studio.out.glob(".tqstudio/*/scratch/*"))
    _whole(second)


@pytest.mark.more
@pytest.mark.fault(
    "The disk of the ladder that a duplicate is linked from hangs",
    "After two lost workers it is encoded",
    area="publishing",
)
def test_a_duplicate_on_a_disk_that_hangs_is_given_up(drop: Drop, film: Path) -> None:
    studio = drop.studio
    drop.put(film, "first.mp4")
    Blocked(_folder(studio.done(drop.job())) / "BLAKE3SUMS")
    drop.put(film, "second.mp4")
    job = drop.job(1)
    for epoch in (1, 2):
        _until_linked(studio, epoch, "180p-of-*")
        _kill_worker(studio)
    second = studio.done(job)
    assert [len(video_runs(attempt)) for attempt in second["attempts_log"]] == [0, 0, 1]
    assert _linked(studio, second) == ""
    _whole(second)


@pytest.mark.more
@pytest.mark.parametrize(
    "point",
    ["publish.building", "publish.built", "publish.renamed", "publish.recording"],
)
def test_a_supervisor_that_is_killed_while_it_publishes_what_was_linked(
    drop: Drop, film: Path, point: str
) -> None:
    studio = drop.studio
    drop.put(film, "first.mp4")
    first = studio.done(drop.job())
    marks = published_marks(first)
    studio.down()
    studio.fail_point = point
    studio.up()
    drop.put(film, "second.mp4")
    job = drop.job(1)
    studio.died()
    undone = point in ("publish.building", "publish.built")
    # What was linked needs its duplicate no more.
    shutil.rmtree(_folder(first).parent)
    studio.up()
    second = studio.done(job)
    assert (second["attempts"], second["crashes"]) == (0, 0)
    assert len(second["attempts_log"]) == 1 + undone
    assert not [run for attempt in second["attempts_log"] for run in video_runs(attempt)]
    assert published_marks(second) == marks
    assert _linked(studio, second) == f"180p, 120p, 90p, audio-und linked from video {first['video']}"
    _whole(second)
