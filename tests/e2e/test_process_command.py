"""`process` as scripts use it: its last line, what it leaves alone, what it makes again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Answer
from tqstudio.protocol import calls

from .conftest import MakeClip
from .studio import PROFILE, Studio, mark, write_script

SUMMARY = {"total", "done", "failed", "cached", "cancelled", "warnings", "seconds"}
VIDEO = {"source", "source_b64", "slug", "status", "master", "master_b64", "renditions", "error"} | {
    "warnings"
}
RENDITION = {"name", "status", "segments_done", "segments_total"}

_COUNTING = """#!/bin/sh
echo "$*" >> "{log}"
exec "{ffmpeg}" "$@"
"""


class Batch:
    """A home without a supervisor, two clips, and a count of the ffmpegs that encoded something."""

    def __init__(self, studio: Studio, sources: Path, out: Path) -> None:
        self.studio, self.sources, self.out = studio, sources, out
        self.log = studio.root.parent / "ran.log"

    def __call__(self, *more: str) -> Answer:
        self.log.write_text("")
        return self.studio(
            *("process", "--input", self.sources, "--output", self.out, "--profile", "tiny"),
            *("--json", *more),
        )

    @property
    def encodes(self) -> int:
        return sum(" hls " in line for line in self.log.read_text().splitlines())


@pytest.fixture(scope="module")
def counting(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    root = tmp_path_factory.mktemp("counting")
    wrapper = write_script(root / "count", _COUNTING.format(log=root / "ran.log", ffmpeg=ffmpeg))
    studio = Studio(root / "studio", str(wrapper))
    yield studio
    studio.down()


@pytest.fixture
def batch(counting: Studio, clip: MakeClip, copy, tmp_path: Path) -> Batch:
    """Two clips of this test's own."""
    folder = copy(clip(), "one.mp4").parent
    copy(clip(fps="30000/1001", channels=0), "two.mp4")
    counting.write_profile("tiny", PROFILE)
    return Batch(counting, folder, tmp_path / "out")


@pytest.fixture
def beside(batch: Batch) -> Batch:
    """The same where a supervisor runs already."""
    if not batch.studio.started:
        batch.studio.up()
    return batch


def _shape(answer: Answer) -> Any:
    report = json.loads(answer.out.splitlines()[-1])
    assert set(report) == {"summary", "videos"}
    assert set(report["summary"]) == SUMMARY
    assert report["summary"]["total"] == len(report["videos"])
    for video in report["videos"]:
        assert set(video) == VIDEO
        assert all(set(rendition) == RENDITION for rendition in video["renditions"])
    return report


def _segments(batch: Batch, rung: str) -> dict[str, tuple[int, int]]:
    """The published segments of a quality, of every video's current generation."""
    found = {}
    for master in batch.out.glob("*/master.m3u8"):
        generation = next(line for line in master.read_text().splitlines() if line.startswith("v"))
        for path in (master.parent / generation.split("/")[0] / rung).glob("*.m4s"):
            found[f"{master.parent.name}/{path.name}"] = mark(path)
    assert found
    return found


@pytest.mark.more
def test_new_and_cached_without_a_supervisor(batch: Batch) -> None:
    batch.studio.down()
    first = batch()
    assert first.code == 0, first.err
    report = _shape(first)
    counts = {key: value for key, value in report["summary"].items() if key != "seconds"}
    assert counts == {"total": 2, "done": 2, "failed": 0, "cached": 0, "cancelled": 0, "warnings": 0}
    assert report["summary"]["seconds"] > 0
    for video in report["videos"]:
        assert video["status"] == "done"
        assert video["error"] is None
        assert Path(video["master"]).is_file()
        statuses = {r["name"]: r["status"] for r in video["renditions"]}
        assert statuses == {"360p": "skipped"} | dict.fromkeys(("180p", "120p", "90p"), "completed")
    assert batch.encodes == 3, "one run for the pictures of each, one for the sound of the first"

    assert not batch.studio.processes(), "it stops the supervisor that it started"

    again = batch()
    assert again.code == 0, again.err
    report = _shape(again)
    assert report["summary"]["cached"] == 2
    assert report["summary"]["done"] == 0
    assert {video["status"] for video in report["videos"]} == {"cached"}
    assert all(Path(video["master"]).is_file() for video in report["videos"])
    assert batch.encodes == 0, "nothing was encoded"


@pytest.mark.more
def test_flags_choose_the_files_and_only_queue_them(batch: Batch) -> None:
    deep = batch.sources / "deep"
    deep.mkdir()
    for name, size in (("large.mov", 300), ("small.MKV", 100), ("middle.mov", 200), ("other.mp4", 1)):
        (deep / name).write_bytes(bytes(size))
    wanted = ("--ext", "mov,.mkv", "--order", "size", "--no-process")
    flat = batch(*wanted)
    assert flat.code == 2
    assert "contains no videos (-r includes sub-folders)" in flat.err

    queued = batch(*wanted, "-r", "--limit", "2", "--priority", "3")
    assert queued.code == 0, queued.err
    report = _shape(queued)
    assert [Path(video["source"]).name for video in report["videos"]] == ["small.MKV", "middle.mov"]
    assert {video["status"] for video in report["videos"]} == {"pending"}
    assert batch.encodes == 0
    batch.studio.up()
    rows = batch.studio.client.send(calls.jobs("m", limit=9))["jobs"]
    assert {row["priority"] for row in rows if row["path"].startswith(str(deep))} == {3}
    for row in rows:
        batch.studio.client.send(calls.act("cancel", [row["id"]]))
    batch.studio.down()


@pytest.mark.more
def test_set_and_workers_hold_for_one_run(batch: Batch) -> None:
    batch.studio.down()
    done = batch("--set", "video.crf=41", "--set", "preset=superfast", "--workers", "2")
    assert done.code == 0, done.err
    assert _shape(done)["summary"]["done"] == 2
    videos = [line for line in batch.log.read_text().splitlines() if "libx264" in line and " hls " in line]
    assert len(videos) == 2
    assert all("-crf 41" in line and "-preset superfast" in line for line in videos)
    assert (batch.studio.home.logs / "worker-cpu-1.log").exists()
    batch.studio.up()
    names = [worker["name"] for worker in batch.studio.status()["workers"]]
    assert names == ["cpu-0"], "a worker of a larger pool is not missed in a smaller one"


@pytest.mark.slow
def test_a_changed_rung_is_made_again_alone(beside: Batch) -> None:
    assert beside().code == 0
    made = {rung: _segments(beside, rung) for rung in ("180p", "120p", "90p")}
    # Words alone dirty nothing.
    beside.studio.write_profile("tiny", PROFILE.replace("For tests", "In other words"))
    assert _shape(beside())["summary"]["cached"] == 2

    beside.studio.write_profile("tiny", PROFILE.replace("maxrate_kbps = 250", "maxrate_kbps = 200"))
    changed = beside()
    assert changed.code == 0, changed.err
    assert _shape(changed)["summary"]["done"] == 2
    assert beside.encodes == 2
    assert all("120p/index.m3u8" in line for line in beside.log.read_text().splitlines() if " hls " in line)
    assert _segments(beside, "180p") == made["180p"]
    assert _segments(beside, "90p") == made["90p"]
    assert not set(_segments(beside, "120p").values()) & set(made["120p"].values())
    assert _shape(beside())["summary"]["cached"] == 2


@pytest.mark.slow
@pytest.mark.fault(
    "A published file is damaged", "Adding the source again encodes only what is damaged", area="publishing"
)
def test_a_damaged_ladder_is_mended(beside: Batch) -> None:
    assert beside().code == 0
    victim = next(beside.out.glob("one/v1/120p/*.m4s"))
    victim.unlink()
    mended = beside()
    assert mended.code == 0, mended.err
    assert _shape(mended)["summary"] | {"seconds": 0} == {
        **dict.fromkeys(("failed", "cancelled", "warnings", "seconds"), 0),
        "total": 2,
        "done": 1,
        "cached": 1,
    }
    assert _shape(beside())["summary"]["cached"] == 2


_EDITS: dict[str, tuple[str, Callable[[bytes], bytes], int]] = {
    "a hole of the same size": ("v1/120p/seg_00000.m4s", lambda found: bytes(len(found)), 1),
    "a playlist": (
        "v1/120p/index.m3u8",
        lambda found: found.replace(b"seg_00001", b"seg_00009"),
        0,
    ),
    "the master": ("master.m3u8", lambda found: found.replace(b"/120p/", b"/121p/"), 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "full"),
    [
        pytest.param(edit, full, marks=[pytest.mark.more] if full or number else [])
        for full in (False, True)
        for number, edit in enumerate(_EDITS)
    ],
)
def test_a_ladder_of_the_right_sizes_is_mended_too(beside: Batch, edit: str, full: bool) -> None:
    assert beside().code == 0
    kept = _segments(beside, "180p")
    name, change, encodes = _EDITS[edit]
    victim = beside.out / "one" / name
    found = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(change(found))
    assert beside.studio("verify", beside.out / "one").code == 1

    mended = beside(*(["--verify-full"] if full else []))
    assert mended.code == 0, mended.err
    counts = _shape(mended)["summary"]
    assert (counts["done"], counts["cached"]) == (1, 1)
    assert beside.encodes == encodes, "what is sound is not encoded again"
    assert _segments(beside, "180p") == kept
    assert beside.studio("verify", beside.out / "one").code == 0
    assert _shape(beside("--verify-full"))["summary"]["cached"] == 2


@pytest.mark.more
def test_verify_full_reads_every_frame_of_a_ladder(beside: Batch) -> None:
    assert beside().code == 0
    # One sample less than there are: the heads of the boxes stay whole.
    victim = beside.out / "one" / "v1" / "120p" / "seg_00000.m4s"
    found = bytearray(victim.read_bytes())
    at = found.index(b"trun") + 8
    found[at : at + 4] = (int.from_bytes(found[at : at + 4], "big") - 1).to_bytes(4, "big")
    victim.unlink()
    victim.write_bytes(found)
    assert beside.studio("verify", beside.out / "one").code == 1
    assert _shape(beside())["summary"]["cached"] == 2, "the heads of its boxes are whole"

    mended = beside("--verify-full")
    assert mended.code == 0, mended.err
    assert _shape(mended)["summary"]["done"] == 1
    assert beside.encodes == 1
    assert "120p" in next(line for line in beside.log.read_text().splitlines() if " hls " in line)
    assert beside.studio("verify", beside.out / "one").code == 0
    assert _shape(beside("--verify-full"))["summary"]["cached"] == 2


@pytest.mark.more
def test_force_makes_everything_again(beside: Batch) -> None:
    assert beside().code == 0
    before = _segments(beside, "180p")
    forced = beside("--force")
    assert forced.code == 0, forced.err
    assert _shape(forced)["summary"]["done"] == 2
    assert not set(_segments(beside, "180p").values()) & set(before.values())


@pytest.mark.more
def test_one_bad_file_gives_exit_1_and_the_others_are_done(beside: Batch) -> None:
    (beside.sources / "bad.mp4").write_text("no video")
    (beside.sources / "zero.mp4").touch()
    answer = beside()
    assert answer.code == 1
    report = _shape(answer)
    assert (report["summary"]["done"], report["summary"]["failed"]) == (2, 2)
    errors = {Path(video["source"]).name: video["error"] for video in report["videos"] if video["error"]}
    assert errors["bad.mp4"]["code"] == "NO_MEDIA"
    assert errors["zero.mp4"]["code"] == "SOURCE_EMPTY"
    assert all(error["hint"] for error in errors.values())


@pytest.mark.more
def test_verify_full_reads_what_lies_between_the_samples(beside: Batch) -> None:
    (beside.sources / "two.mp4").unlink()
    source = beside.sources / "one.mp4"
    # A box that players skip makes room between the samples.
    padding = bytearray(8_000_000)
    padding[:8] = len(padding).to_bytes(4, "big") + b"free"
    content = source.read_bytes()
    source.write_bytes(content + padding)
    assert beside().code == 0
    before = source.stat()
    padding[1_500_000] = 1
    source.write_bytes(content + padding)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert _shape(beside())["summary"]["cached"] == 1, "size and time are the same"
    assert _shape(beside("--verify-full"))["summary"]["done"] == 1
    assert beside.encodes == 2
    assert _shape(beside("--verify-full"))["summary"]["cached"] == 1
    assert beside.encodes == 0


@pytest.mark.slow
def test_a_changed_source_gets_a_new_ladder(beside: Batch, clip: MakeClip) -> None:
    assert beside().code == 0
    (beside.sources / "one.mp4").write_bytes(clip(fps="24", seconds=2).read_bytes())
    report = _shape(beside())
    assert (report["summary"]["done"], report["summary"]["cached"]) == (1, 1)
    one = next(video for video in report["videos"] if video["slug"] == "one")
    assert one["renditions"][1]["segments_total"] == 1
    assert _shape(beside())["summary"]["cached"] == 2
