"""A file dropped into a folder becomes a ladder that plays: the whole way, with nothing replaced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from tqstudio.errors import TqError
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder, frames_of
from .studio import Studio


@dataclass(frozen=True)
class Expected:
    fps: Fraction
    names: tuple[str, ...]
    audio: bool = True


EXPECTED = {
    "ntsc.mp4": Expected(Fraction(30000, 1001), ("180p", "120p", "90p")),
    "portrait.mp4": Expected(Fraction(25), ("180p", "120p", "90p")),
    "silent.mp4": Expected(Fraction(24), ("180p", "120p", "90p"), audio=False),
    "mono.mp4": Expected(Fraction(25), ("360p", "180p", "120p", "90p")),
    "slow.mp4": Expected(Fraction(25), ("120p", "90p")),
    "renamed.mp4": Expected(Fraction(25), ("180p", "120p", "90p")),
}


@dataclass(frozen=True)
class Story:
    studio: Studio
    drop: Path
    before: dict[str, tuple[str, int, int]]
    """Hash, size and mtime of every source when it was whole."""


def _print(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return hashlib.sha256(path.read_bytes()).hexdigest(), found.st_size, found.st_mtime_ns


@pytest.fixture(scope="module")
def story(one_for_all: Studio, clip: MakeClip, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Six clips, each put there in another way; all that can be seen from outside has come true."""
    shared, drop = one_for_all, tmp_path_factory.mktemp("drop")
    earlier = drop / "silent.mp4"
    earlier.write_bytes(clip(fps="24", channels=0).read_bytes())

    watch = shared.watch(shared.last_seq())
    folder = shared.client.send(
        calls.add_folder(encode(drop), output_b64=encode(shared.out), settle_s=0.3, profile="tiny")
    )

    (drop / "ntsc.mp4").write_bytes(clip(fps="30000/1001", seconds=5).read_bytes())
    (drop / "portrait.mp4").write_bytes(clip(size="180x320").read_bytes())
    nested = drop / "2026" / "may"
    nested.mkdir(parents=True)
    (nested / "mono.mp4").write_bytes(clip(size="640x360", channels=1).read_bytes())

    part = drop / "renamed.mp4.part"
    part.write_bytes(clip().read_bytes())

    content = clip(size="214x120", seconds=6).read_bytes()
    with (drop / "slow.mp4").open("wb") as slow:
        slow.write(content[: len(content) // 2])
        slow.flush()
        # All that was complete is done while the copy continues: the half file was not taken.
        for name in ("silent.mp4", "ntsc.mp4", "portrait.mp4", "mono.mp4"):
            _wait_done(shared, watch, name)
        assert _job_of(shared, "slow.mp4") is None
        assert _job_of(shared, "renamed.mp4") is None
        slow.write(content[len(content) // 2 :])
    part.rename(drop / "renamed.mp4")
    paths = {path.name: path for path in drop.rglob("*.mp4")}
    before = {name: _print(path) for name, path in paths.items()}
    for name in ("slow.mp4", "renamed.mp4"):
        _wait_done(shared, watch, name)
    yield Story(shared, drop, before)
    shared.client.send(calls.remove_folder(folder["id"]))


def _job_of(studio: Studio, name: str) -> int | None:
    rows = studio.client.send(calls.jobs(name, sort="-number"))["jobs"]
    return next((row["id"] for row in rows if row["name"] == name), None)


def _wait_done(studio: Studio, watch, name: str) -> None:
    job = until(lambda: _job_of(studio, name), f"{name} has a job")
    assert job is not None
    watch.target(job, "done")


def test_the_jobs_of_the_drop_folder_are_listed(story: Story, clip: MakeClip, copy) -> None:
    by_hand = story.studio.add(copy(clip(), "by-hand.mp4"))
    [folder] = story.studio.client.send(calls.folders())["folders"]
    page = story.studio.client.send(calls.jobs(f"folder:{folder['id']}"))
    assert sorted(row["name"].rpartition("/")[2] for row in page["jobs"]) == sorted(EXPECTED)
    assert by_hand not in [row["id"] for row in page["jobs"]]
    with pytest.raises(TqError, match="no drop folder"):
        story.studio.client.send(calls.jobs(f"folder:{folder['id'] + 1}"))


@pytest.mark.parametrize("name", EXPECTED)
def test_every_frame_of_every_quality_is_there(story: Story, name: str) -> None:
    job = story.studio.job(_job_of(story.studio, name) or 0)
    video, expected = job["video_view"], EXPECTED[name]
    master = Path(video["generation"]["master"])
    source = next(story.drop.rglob(name))
    frames = frames_of(source)
    ladder = check_ladder(
        master,
        frames=frames,
        fps=expected.fps,
        names=expected.names,
        audio=expected.audio,
        layout="mono" if name == "mono.mp4" else "stereo",
    )
    for quality, stream in ladder.video.items():
        if name == "portrait.mp4":
            assert stream.height > stream.width, quality
        else:
            assert stream.width > stream.height, quality
    assert Path(video["generation"]["poster"]).read_bytes()[:3] == b"\xff\xd8\xff", "a JPEG"
    assert video["status"] == "ready"
    assert video["slug"] == name.removesuffix(".mp4")
    assert master == story.studio.out / video["slug"] / "master.m3u8"
    facts = {row["name"]: row for row in video["generation"]["renditions"]}
    assert set(facts) == {*ladder.video, *ladder.audio}
    for quality, stream in ladder.video.items():
        assert (facts[quality]["width"], facts[quality]["height"]) == (stream.width, stream.height)
        assert abs(facts[quality]["duration_s"] - stream.duration_s) < 0.01


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_not_made_says_why(story: Story, name: str) -> None:
    job = story.studio.job(_job_of(story.studio, name) or 0)
    rows = {row["name"]: row for row in job["renditions"]}
    assert list(rows) == ["360p", "180p", "120p", "90p"]
    for quality, row in rows.items():
        if quality in EXPECTED[name].names:
            assert row["status"] == "completed"
            # Not tagged with its colours, the source may not be copied.
            copied = "encoded: colours other than those of BT.709"
            assert row["reason"] == (copied if quality == EXPECTED[name].names[0] else None)
            assert row["segments_done"] == row["segments_total"] >= 2
            assert row["progress"] == 100
            assert row["settings_hash"]
        else:
            assert (row["status"], row["reason"]) == ("skipped", "above source")


def test_the_sources_are_as_they_were(story: Story) -> None:
    paths = {path.name: path for path in story.drop.rglob("*") if path.is_file()}
    assert {name: _print(path) for name, path in paths.items()} == story.before


def test_each_file_made_one_job(story: Story) -> None:
    rows = story.studio.client.send(calls.jobs(limit=500))["jobs"]
    ours = [row["name"] for row in rows if Path(row["path"]).is_relative_to(story.drop)]
    assert sorted(ours) == sorted(EXPECTED)
    folder = story.studio.client.send(calls.folders())["folders"][0]
    assert folder["settling"] == 0
    assert folder["skipped"] == []


def test_a_job_reports_its_whole_history(story: Story) -> None:
    job = story.studio.job(_job_of(story.studio, "ntsc.mp4") or 0)
    assert (job["status"], job["progress"], job["error"]) == ("done", 100, None)
    assert (job["attempts"], job["crashes"]) == (0, 0)
    assert job["processed_by"] == "cpu-0"
    assert job["worker"] is None
    (attempt,) = job["attempts_log"]
    assert attempt["outcome"] == "done"
    assert list(attempt["steps"]) == ["probe", "extras", "transcode", "master_playlist", "finalize"]
    assert Path(attempt["log"]).read_text().count("done after") == 5
    moves = [(event["source"], event["target"]) for event in reversed(job["events"]) if event["target"]]
    assert moves == [(None, "pending"), ("pending", "in_progress"), ("in_progress", "done")]
    times = [job[key] for key in ("created_at", "started_at", "completed_at")]
    assert times == sorted(times)


def test_no_log_names_a_folder(story: Story, tmp_path: Path) -> None:
    """A log is handed on with reports. Commands and answers are for this machine, and have whole paths."""
    studio = story.studio
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    failed = studio.wait(studio.add(bad), "failed")
    source = story.drop / "2026" / "may" / "mono.mp4"
    job = studio.job(_job_of(studio, "mono.mp4") or 0)

    logs = [Path(row["attempts_log"][0]["log"]).read_text() for row in (job, failed)]
    assert "): 2026/may/mono.mp4\n" in logs[0]
    assert "-i file:2026/may/mono.mp4 " in logs[0]
    assert "] $ ffmpeg -hide_banner " in logs[0]
    assert "from 'file:2026/may/mono.mp4'" in logs[0], "what ffmpeg says"
    assert f"tqstudio job command {job['id']} prints the complete commands" in logs[0]
    assert "): bad.mp4\n" in logs[1]
    assert "failed: NO_MEDIA: bad.mp4" in logs[1]
    log = studio.home.supervisor_log.read_text()
    assert f" path=2026/may/mono.mp4 decision=queued job={job['id']}\n" in log
    for folder in (studio.root, story.drop, tmp_path, Path(studio.environment["TQSTUDIO_FFMPEG"]).parent):
        assert not studio.lines_that_name(folder)

    assert (job["path"], failed["path"]) == (str(source), str(bad))
    assert str(bad) in failed["error"]["message"]
    commands = studio("job", "command", str(job["id"])).out
    assert f"-i file:{source} " in commands
    assert commands.count(f"{studio.environment['TQSTUDIO_FFMPEG']} -hide_banner ") == 3


def test_no_work_is_left_behind(story: Story) -> None:
    assert not list(story.studio.out.glob(".tqstudio/*/scratch/*"))
    for name in EXPECTED:
        video = story.studio.job(_job_of(story.studio, name) or 0)["video"]
        assert not list(story.studio.out.glob(f".tqstudio/*/segments/{video}/*"))
    assert {p.name for p in (story.studio.out / "ntsc").iterdir()} <= {"master.m3u8", "v1", ".owner"}


@pytest.mark.more
def test_an_idle_worker_loads_what_its_first_job_needs(make_studio: MakeStudio) -> None:
    studio = make_studio().up()

    def has_pyav() -> bool:
        pid = studio.worker()["pid"]
        return pid is not None and "libavcodec" in Path(f"/proc/{pid}/maps").read_text()

    until(has_pyav, "PyAV is loaded while the worker waits")
