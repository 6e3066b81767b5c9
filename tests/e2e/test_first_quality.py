"""One quality is published while the others are encoded: it plays at once, and is part of the whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import m3u8
import pytest

from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip, MakeStudio
from .ladder import check_ladder
from .studio import Studio, audio_runs, mark, published_marks, video_runs, write_script

RUNGS = ("180p", "120p", "90p")
FIRST = "120p"
Copy = Callable[..., Path]


@pytest.fixture
def film(clip: MakeClip, copy: Copy) -> Path:
    return copy(clip(seconds=12), "film.mp4")


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A file; while it exists, no run of the other qualities begins."""
    return tmp_path / "held"


@pytest.fixture
def studio(make_studio: MakeStudio, ffmpeg: str, tmp_path: Path, held: Path) -> Studio:
    waits = f'case "$*" in *180p/index.m3u8*) while [ -e {held} ]; do sleep 0.1; done ;; esac'
    script = write_script(tmp_path / "waits", f'#!/bin/sh\n{waits}\nexec {ffmpeg} "$@"\n')
    return make_studio(real_ffmpeg=script).up()


@contextlib.contextmanager
def holding(held: Path) -> Iterator[None]:
    held.touch()
    yield
    held.unlink()


def begin(studio: Studio, film: Path, **options: Any) -> Any:
    """Queue a film and wait until its first quality plays; returns the job as it is then."""
    overrides = {"first": FIRST, **options.pop("overrides", {})}
    return viewable(studio, studio.add(film, overrides=overrides, **options))


def viewable(studio: Studio, job: int) -> Any:
    def there() -> Any:
        row = studio.job(job)
        assert row["status"] in ("pending", "in_progress"), row["error"] or row["status"]
        return row if row["viewable"] else None

    return until(there, f"the first quality of job {job} plays")


def master_of(job: Any) -> Path:
    return Path(job["video_view"]["generation"]["master"])


def check(job: Any, *names: str) -> None:
    check_ladder(master_of(job), frames=300, fps=Fraction(25), names=names)


def segments(generation: Path, name: str = FIRST) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (generation / name).glob("*.m4s")}


def is_completed(studio: Studio, job: int, first: dict[str, int]) -> None:
    """Check the whole ladder, which has the very files of its first quality."""
    done = studio.done(job)
    check(done, *RUNGS)
    generation = master_of(done).parent / f"v{done['video_view']['generation']['number']}"
    assert segments(generation) == first
    assert (done["viewable"], done["video_view"]["viewable"]) == (None, None)
    assert not (generation / "first-quality-only.txt").exists()
    assert [event["trigger"] for event in studio.events(job)].count("complete") == 1
    assert not studio.stored_segments(done["video"])


def test_it_plays_while_the_others_are_encoded(studio: Studio, film: Path, held: Path) -> None:
    watch = studio.watch(studio.last_seq())
    with holding(held):
        row = begin(studio, film)
        job, folder = row["id"], master_of(row).parent
        check(row, FIRST)
        assert (row["status"], row["word"], row["viewable"]) == ("in_progress", "running", FIRST)
        assert (row["video_view"]["status"], row["video_view"]["viewable"]) == ("ready", FIRST)
        assert f"film.mp4  {FIRST} plays" in str(studio("job", "list"))
        assert f"{FIRST} only, so far" in str(studio("job", "show", str(job)))
        verified = studio("verify", str(folder))
        assert "first quality only" in str(verified)
        assert studio("verify", str(folder), "--json").json()["ladders"][0]["first_only"] is True
        first = segments(folder / "v1")
        # Who plays it now, reads it to its end.
        playlist = m3u8.loads((folder / "v1" / FIRST / "index.m3u8").read_text())
    is_completed(studio, job, first)
    assert playlist.is_endlist
    for file in (playlist.segment_map[0].uri, *(segment.uri for segment in playlist.segments)):
        assert (folder / "v1" / FIRST / file).read_bytes(), "it stays for its players"
    assert "first quality only" not in str(studio("verify", str(folder)))

    def published(trigger: str) -> Any:
        return watch.wait_for(trigger, lambda e: e.name == "event" and e.data["trigger"] == trigger)

    assert published("viewable").data["detail"] == FIRST
    triggers = [event["trigger"] for event in studio.events(job)]
    order = [each for each in triggers if each in ("viewable", "published", "complete")]
    assert sorted(order[:2]) == ["published", "viewable"]
    assert order.count("published") == 2
    (attempt,) = studio.job(job)["attempts_log"]
    assert [[name in " ".join(run) for name in RUNGS] for run in video_runs(attempt)] == [
        [False, True, False],
        [True, False, True],
    ]
    assert [answer["decision"] for answer in studio.offer(film, overrides={"first": FIRST})] == ["cached"]
    assert [answer["decision"] for answer in studio.offer(film, overrides={"first": "off"})] == ["cached"]


def _pause(studio: Studio, job: int) -> None:
    studio.do("pause", job)
    studio.wait(job, "paused")


def _resume(studio: Studio, job: int, _: Path) -> None:
    studio.do("resume", job)


def _cancel(studio: Studio, job: int) -> None:
    studio.do("cancel", job)
    until(lambda: studio.job(job)["status"] == "cancelled", "it is cancelled")


def _retry(studio: Studio, job: int, _: Path) -> None:
    studio.do("retry", job)


def _add_again(studio: Studio, job: int, film: Path) -> None:
    (answer,) = studio.offer(film, overrides={"first": FIRST}, retry_failed=True)
    assert (answer["decision"], answer["job"]) == ("retried", job)


def _restart(studio: Studio, job: int) -> None:
    studio.do("restart", job)
    until(lambda: len(studio.job(job)["attempts_log"]) > 1, "it begins again")


def _kill_worker(studio: Studio, job: int) -> None:
    del job
    os.kill(int(studio.worker()["pid"]), signal.SIGKILL)


def _kill_supervisor(studio: Studio, job: int) -> None:
    del job
    studio.kill()
    studio.until_gone()


def _start(studio: Studio, job: int, _: Path) -> None:
    del job
    studio.up()


def _nothing(studio: Studio, job: int, _: Path) -> None:
    del studio, job


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "go_on"),
    [
        (_pause, _resume),
        (_cancel, _retry),
        (_cancel, _add_again),
        (_restart, _nothing),
        (_kill_worker, _nothing),
        (_kill_supervisor, _start),
    ],
    ids=["pause", "cancel-retry", "cancel-add", "restart", "worker-killed", "supervisor-killed"],
)
def test_it_stays_when_its_job_is_stopped(
    studio: Studio,
    film: Path,
    held: Path,
    stop: Callable[[Studio, int], None],
    go_on: Callable[[Studio, int, Path], None],
) -> None:
    # At this pace its run is known to the supervisor before it is killed.
    with studio.paced(4), holding(held):
        row = begin(studio, film)
        job, folder = row["id"], master_of(row).parent
        first = segments(folder / "v1")
        stop(studio, job)
        check(row, FIRST)
        assert segments(folder / "v1") == first
    go_on(studio, job, film)
    is_completed(studio, job, first)
    made = [run for attempt in studio.job(job)["attempts_log"] for run in video_runs(attempt)]
    assert sum(f"{FIRST}/index.m3u8" in run for run in made) == 1, "it is encoded once"
    assert sum(bool(audio_runs(attempt)) for attempt in studio.job(job)["attempts_log"]) == 1


@pytest.mark.slow
@pytest.mark.fault(
    "A source changes between its first quality and the others",
    "The first quality plays until the ladder of the new content replaces it",
    area="publishing",
)
def test_a_source_that_changes_meanwhile(studio: Studio, film: Path, clip: MakeClip) -> None:
    with studio.paced(4):
        row = begin(studio, film)
        first = published_marks(row)
        shutil.copyfile(clip(seconds=12, fps="24"), film)
        failed = until(
            lambda: (now := studio.job(row["id"]))["status"] != "in_progress" and now, "it notices the change"
        )
        assert failed["error"]["code"] == "SOURCE_CHANGED"
        check(row, FIRST)
    done = studio.done(row["id"])
    check_ladder(master_of(done), frames=288, fps=Fraction(24), names=RUNGS)
    assert done["viewable"] is None
    assert not first & published_marks(done)
    assert done["video_view"]["generation"]["number"] == 2


@pytest.mark.slow
@pytest.mark.fault(
    "Another quality fails for good", "The first one plays; a retry makes the others", area="publishing"
)
def test_a_failure_of_another_quality(
    make_studio: MakeStudio, film: Path, ffmpeg: str, tmp_path: Path
) -> None:
    broken, plays = tmp_path / "broken", tmp_path / "plays"
    broken.touch()
    # Before the sound is complete there is nothing to publish.
    fails = f"[ -e {broken} ] && {{ until [ -e {plays} ]; do sleep 0.1; done; exit 1; }}"
    script = f'#!/bin/sh\ncase "$*" in *180p/index.m3u8*) {fails} ;; esac\nexec {ffmpeg} "$@"\n'
    studio = make_studio(real_ffmpeg=write_script(tmp_path / "fails", script), max_attempts=1).up()
    job = begin(studio, film)["id"]
    plays.touch()
    failed = studio.wait(job, "failed")
    assert (failed["error"]["code"], failed["viewable"]) == ("ENCODER_EXIT", FIRST)
    check(failed, FIRST)
    first = segments(master_of(failed).parent / "v1")
    assert [answer["decision"] for answer in studio.offer(film, retry_failed=False)] == ["failed"]
    broken.unlink()
    studio.do("retry", job)
    is_completed(studio, job, first)


@pytest.mark.slow
@pytest.mark.fault(
    "The disk is full after the first quality",
    "It plays; the others are made when there is space",
    area="publishing",
)
def test_a_full_disk_between_the_two(make_studio: MakeStudio, film: Path, small_disk: Path) -> None:
    studio = make_studio(disk_reserve_bytes=0)
    studio.out = small_disk
    studio.up()
    filler = small_disk / "filler"
    with studio.paced(2):
        row = begin(studio, film)
        first = segments(master_of(row).parent / "v1")
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(4096))
        waiting = until(
            lambda: (now := studio.job(row["id"]))["status"] == "pending" and now, "the disk is full"
        )
        assert waiting["error"]["code"] == "DISK_LOW"
        check(waiting, FIRST)
    filler.unlink()
    is_completed(studio, row["id"], first)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tqstudio-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_what_a_drop_folder_does_when_a_video_is_done_waits_for_the_whole(
    studio: Studio, clip: MakeClip, tmp_path: Path, held: Path
) -> None:
    watched, done_dir = tmp_path / "in", tmp_path / "done"
    watched.mkdir()
    done_dir.mkdir()
    studio.write_profile("first", f'extends = "tiny"\nfirst = "{FIRST}"\n')
    more = {"after_done": "move", "done_dir_b64": encode(done_dir), "profile": "first"}
    studio.client.send(calls.add_folder(encode(watched), output_b64=encode(studio.out), **more))
    with holding(held):
        shutil.copyfile(clip(seconds=12), watched / "film.mp4")
        row = until(lambda: next(iter(studio.client.send(calls.jobs())["jobs"]), None), "the file is queued")
        viewable(studio, row["id"])
        assert (watched / "film.mp4").exists()
    studio.done(row["id"])
    until(lambda: (done_dir / "film.mp4").exists(), "the source is moved")


@pytest.mark.slow
def test_a_ladder_that_plays_is_replaced_at_once(studio: Studio, film: Path) -> None:
    """A retranscode and changed settings publish no first quality: less would play than before."""
    studio.write_profile("first", f'extends = "tiny"\nfirst = "{FIRST}"\n')
    job = studio.add(film, overrides={"first": "off"})
    before = studio.done(job)
    again = studio.do("retranscode", job, profile="first")["new_job"]
    done = studio.done(again)
    assert done["video_view"]["generation"]["number"] == 2
    (answer,) = studio.offer(film, overrides={"first": FIRST, "crf": "40"})
    done = studio.done(answer["job"])
    assert done["video_view"]["generation"]["number"] == 3
    assert not published_marks(done, "120p") & published_marks(before, "120p")
    triggers = [event["trigger"] for each in (job, again, done["id"]) for event in studio.events(each)]
    assert "viewable" not in triggers
    assert mark(master_of(done))
