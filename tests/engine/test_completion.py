"""From a worker's manifest to a playing ladder, through the real API; and making one again."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import m3u8
import pytest

from harness import Worker
from tqstudio import paths
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.media.plan.keys import expected_hashes
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.fingerprint import full_hash
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk
from .ladders import Bench
from .test_admission import FACTS as REAL_FACTS
from .test_api import error_of, report

_REAL = REAL_FACTS.to_json()
FACTS = _REAL | {"video": _REAL["video"] | {"width": 640, "height": 360, "fps": "30000/1001"}}


def bench_of(job: Any) -> Bench:
    return Bench(Path(os.fsdecode(paths.decode(job["work_dir"]["path_b64"]))), job["video"])


LEFT_OUT = {"code": "RENDITION_LEFT_OUT", "text": "360p was left out: no reason"}


def complete(
    worker: Worker, job: Any, bench: Bench, steps: dict[str, float] | None = None, **more: Any
) -> Any:
    token = {"instance": worker.instance, "epoch": job["epoch"]}
    full_hash = more.pop("full_hash", None)
    body = {"manifest": bench.manifest(**more).model_dump(), "full_hash": full_hash, "steps": steps or {}}
    return worker.post(f"jobs/{job['job']}/complete", **token, **body)


def ladder(desk: Desk, *names: str, **more: Any) -> tuple[Worker, Any, Any]:
    """A published ladder of some renditions: the worker, its job, and the video as the API shows it."""
    worker, job = desk.running(**more)
    report(worker, job, 1.0, facts=FACTS)
    bench = bench_of(job)
    for name in names or ("720p", "360p", "audio-en"):
        bench.rendition(name, f"one-{name}-{job['video']}")
    assert complete(worker, job, bench) == (200, {"job": job["job"], "status": "done"})
    return worker, job, desk.live.send(calls.video(job["video"]))


def test_a_finished_job(desk: Desk) -> None:
    worker, job, video = ladder(desk)
    row = desk.show(job["job"])
    assert (row["status"], row["progress"], row["claim"], row["error"]) == ("done", 100, "completed", None)
    assert (row["processed_by"], row["worker"]) == (worker.name, None)
    assert [event["trigger"] for event in row["events"][:2]] == ["published", "complete"]
    assert row["source"]["fps"] == pytest.approx(29.97, abs=0.01)
    assert (video["status"], video["generation"]["number"]) == ("ready", 1)
    assert (video["generation"]["settings_hash"], video["generation"]["retired_at"]) == ("ladder", None)
    assert [r["name"] for r in video["generation"]["renditions"]] == ["720p", "360p", "audio-en"]
    assert len(m3u8.load(video["generation"]["master"]).playlists) == 2
    assert not (bench_of(job).work_dir / "segments" / str(job["video"])).exists(), "the store is emptied"


def test_what_ends_a_job_is_no_first_quality_whatever_its_worker_says(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    bench.rendition("360p", f"first-{job['video']}")
    assert complete(worker, job, bench, first=True)[1]["status"] == "done"
    row = desk.show(job["job"])
    assert (row["status"], row["viewable"]) == ("done", None)


def test_a_first_quality_without_a_quality_is_not_published(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    bench.rendition("audio-en", f"sound-{job['video']}")
    report(worker, job, 10.0, first=bench.manifest().model_dump())
    bench.rendition("360p", f"later-{job['video']}")
    assert complete(worker, job, bench)[1]["status"] == "done"
    assert [event["trigger"] for event in desk.show(job["job"])["events"]].count("published") == 1


def test_the_publish_is_part_of_the_last_step(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    bench.rendition("360p", f"timed-{job['video']}")
    steps = {"transcode": 4.0, "finalize": 1.0}
    assert complete(worker, job, bench, steps=steps)[1]["status"] == "done"
    [attempt] = desk.show(job["job"])["attempts_log"]
    assert attempt["steps"].keys() == steps.keys()
    assert attempt["steps"]["transcode"] == 4
    assert attempt["steps"]["finalize"] > 1


def test_a_repeated_complete_is_answered_as_the_first(desk: Desk) -> None:
    worker, job, video = ladder(desk)
    assert complete(worker, job, bench_of(job)) == (200, {"job": job["job"], "status": "done"})
    assert desk.live.send(calls.video(job["video"])) == video


@pytest.mark.fault(
    "A file of the result is missing or has another size",
    "`OUTPUT_INVALID`; not published",
    area="publishing",
)
def test_a_result_that_is_not_whole_is_a_failure_of_the_job(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    made = bench.rendition("360p", f"torn-{job['video']}")
    (bench.work_dir / made["folder"] / segment_name(1)).unlink()
    assert complete(worker, job, bench) == (200, {"job": job["job"], "status": "pending"})
    row = desk.show(job["job"])
    assert (row["attempts"], row["error"]["code"], row["word"]) == (1, "OUTPUT_INVALID", "retry")
    assert row["retry_in_s"] > 0
    assert desk.live.send(calls.video(job["video"]))["status"] == "pending"


@pytest.mark.fault(
    "The result violates a MUST of Apple's rules for HLS",
    "`OUTPUT_INVALID` with the rule; not published",
    area="publishing",
)
def test_a_result_that_violates_a_rule_is_a_failure_of_the_job(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    made = bench.rendition("360p", f"loud-{job['video']}", iframes=True)
    measured = max(segment["size"] for segment in made["segments"]) * 8 // 6
    made["peak_bps"] = measured + 1
    made["average_bps"] = measured * 2
    assert complete(worker, job, bench) == (200, {"job": job["job"], "status": "pending"})
    error = desk.show(job["job"])["error"]
    assert error["code"] == "OUTPUT_INVALID"
    assert "1.26" in error["message"]
    assert desk.live.send(calls.video(job["video"]))["generation"] is None
    assert (bench.work_dir / made["folder"]).is_dir(), "what was made is kept"


def test_a_cancelled_job_can_still_be_overtaken_by_its_end(desk: Desk) -> None:
    worker, job = desk.running()
    desk.act("cancel", job["job"])
    bench = bench_of(job)
    bench.rendition("360p", f"late-{job['video']}")
    status, answer = complete(worker, job, bench)
    assert status == 200
    assert desk.show(job["job"])["status"] == answer["status"]


def test_a_retranscode_plays_on_until_it_is_done(desk: Desk) -> None:
    _, job, before = ladder(desk)
    key = f"again-{job['job']}"
    [result] = desk.act("retranscode", job["job"], renditions=["360p"], priority=1000, idempotency_key=key)
    assert (result["ok"], result["status"]) == (True, "done")
    made = result["new_job"]
    assert desk.show(made)["idempotency_key"] == key
    assert made not in (None, job["job"])
    assert desk.live.send(calls.video(job["video"]))["status"] == "ready"
    [refused] = desk.act("retranscode", job["job"])
    assert f"job {made} has the same video; cancel or restart that" in refused["error"]["message"]
    assert refused["error"]["hint"].endswith(f"job show {made}")

    worker = desk.worker()
    again = worker.claim()
    assert (again["job"], again["kind"], again["requested"]) == (made, "retranscode", ["360p"])
    assert set(again["kept"]) == {"720p", "audio-en"}
    assert desk.live.send(calls.video(job["video"]))["status"] == "ready"
    bench = bench_of(again)
    bench.rendition("360p", f"two-{job['video']}")
    assert complete(worker, again, bench, keep=["720p", "audio-en"])[1]["status"] == "done"
    after = desk.live.send(calls.video(job["video"]))
    assert after["generation"]["number"] == 2
    assert after["generation"]["master"] == before["generation"]["master"]
    hashes = {r["name"]: r["settings_hash"][:3] for r in after["generation"]["renditions"]}
    assert hashes == {"360p": "two", "720p": "one", "audio-en": "one"}
    assert (Path(after["generation"]["master"]).parent / "v1" / "360p").is_dir(), "for players in mid-stream"


def test_a_retranscode_that_fails_leaves_what_plays(desk: Desk) -> None:
    _, job, before = ladder(desk)
    [result] = desk.act("retranscode", job["job"], priority=1000)
    worker = desk.worker()
    again = worker.claim()
    assert again["kept"] == {}, "everything is asked for"
    worker.send(f"jobs/{again['job']}/fail", epoch=again["epoch"], code="NO_MEDIA", text="no")
    after = desk.live.send(calls.video(job["video"]))
    assert (after["status"], after["generation"]) == ("ready", before["generation"])
    assert desk.show(result["new_job"])["status"] == "failed"


def test_a_quality_that_is_not_there_cannot_be_asked_for(desk: Desk) -> None:
    _, job, _ = ladder(desk)
    [refused] = desk.act("retranscode", job["job"], renditions=["361p"])
    message = refused["error"]["message"]
    # Of a source of 360 lines, that another profile gave a 720p.
    assert "has no quality 361p with the profile web; it can have 360p, audio-en" in message
    assert refused["error"]["hint"].endswith(f"job show {job['job']}")


@pytest.mark.parametrize("quality", ["720p", "1080p"])
def test_a_quality_above_the_source_is_refused_at_once(desk: Desk, quality: str) -> None:
    _, job, _ = ladder(desk)
    [refused] = desk.act("retranscode", job["job"], renditions=["360p", quality])
    assert (refused["ok"], refused["new_job"], refused["error"]["code"]) == (False, None, "REFUSED")
    assert f"has no quality {quality} with the profile web; it can have 360p, " in refused["error"]["message"]


@pytest.mark.parametrize("quality", ["480p", "audio-en"])
def test_a_quality_that_was_left_out_can_be_asked_for(desk: Desk, quality: str) -> None:
    path = desk.file()
    [added] = desk.add(path, priority=1000)
    worker = desk.worker()
    job = worker.claim()
    report(worker, job, 1.0, facts=REAL_FACTS.to_json(), content_id=job["content_id"])
    bench = bench_of(job)
    for name, key in expected_hashes(
        job["content_id"], Profile.from_json(job["profile"]), REAL_FACTS
    ).items():
        if name != quality:
            bench.rendition(name, key)
    assert complete(worker, job, bench)[1]["status"] == "done"
    [result] = desk.act("retranscode", added["job"], renditions=[quality], priority=1000)
    assert result["ok"], result
    assert desk.worker().claim()["requested"] == [quality]


def test_a_damaged_quality_is_made_again_with_the_one_asked_for(desk: Desk) -> None:
    """Otherwise it would be neither kept nor made, and the new ladder would lack it."""
    _, job, video = ladder(desk)
    segment = Path(video["generation"]["master"]).parent / "v1" / "720p" / segment_name(1)
    size = segment.stat().st_size
    segment.unlink()
    segment.write_bytes(bytes(size))
    desk.act("retranscode", job["job"], renditions=["360p"], priority=1000)
    again = desk.worker().claim()
    assert (set(again["kept"]), again["requested"]) == ({"audio-en"}, ["360p", "720p"])


def test_a_quality_can_be_dropped(desk: Desk) -> None:
    _, job, _ = ladder(desk)
    desk.act("retranscode", job["job"], renditions=["360p"], drop=["audio-en"], priority=1000)
    again = desk.worker().claim()
    assert (set(again["kept"]), again["dropped"]) == ({"720p"}, ["audio-en"])
    assert desk.show(again["job"])["dropped"] == ["audio-en"]


def test_what_is_not_dropped_is_kept(desk: Desk) -> None:
    _, job, _ = ladder(desk)
    desk.act("retranscode", job["job"], drop=["audio-en"], priority=1000)
    again = desk.worker().claim()
    assert (set(again["kept"]), again["requested"]) == ({"720p", "360p"}, None)


@pytest.mark.parametrize(
    ("renditions", "drop", "expected"),
    [
        (None, ["361p"], "has no quality 361p to drop; it has 720p, 360p, audio-en"),
        (None, ["1080p"], "has no quality 1080p to drop; it has 720p, 360p, audio-en"),
        (["360p"], ["360p"], "cannot both encode and drop 360p; name it once"),
        (["360p"], ["720p", "360p"], "cannot both encode and drop 360p; name it once"),
        (None, ["720p", "360p", "audio-en"], "has no quality left without 720p, 360p, audio-en; "),
        (None, ["360p"], "has no quality left without 360p; "),
        (["audio-en"], ["720p", "360p"], "has no quality left without 720p, 360p; "),
    ],
)
def test_what_cannot_be_dropped_is_refused(
    desk: Desk, renditions: list[str] | None, drop: list[str], expected: str
) -> None:
    _, job, _ = ladder(desk)  # Of a source of 360 lines, that another profile gave a 720p.
    [refused] = desk.act("retranscode", job["job"], renditions=renditions, drop=drop)
    assert (refused["ok"], refused["new_job"], refused["error"]["code"]) == (False, None, "REFUSED")
    assert expected in refused["error"]["message"]


@pytest.mark.fault(
    "A kept quality lost a file or has a hole",
    "It is encoded again, also by a retranscode of another quality",
    area="publishing",
)
def test_what_is_damaged_is_not_kept(desk: Desk) -> None:
    """A ladder that lost a file is mended by offering its source again, not kept broken for ever."""
    _, _, video = ladder(desk)
    place = Path(video["generation"]["master"]).parent
    (place / "v1" / "720p" / segment_name(1)).unlink()
    [result] = desk.live.send(calls.add([video["path_b64"]], priority=1000))["results"]
    assert result["decision"] == "changed"
    again = desk.worker().claim()
    assert (again["job"], set(again["kept"])) == (result["job"], {"360p", "audio-en"})


@pytest.mark.fault(
    "An optional quality failed or was dropped",
    "The ladder counts as complete until other settings ask for it",
    area="publishing",
)
def test_what_was_left_out_on_purpose_is_not_asked_for_again(desk: Desk) -> None:
    """An optional quality that failed, or one that was dropped: the ladder counts as complete without it."""
    path = desk.file()
    [added] = desk.add(path, priority=1000)
    worker = desk.worker()
    job = worker.claim()
    assert job["job"] == added["job"]
    report(worker, job, 1.0, facts=REAL_FACTS.to_json(), content_id=job["content_id"])
    bench = bench_of(job)
    keys = expected_hashes(job["content_id"], Profile.from_json(job["profile"]), REAL_FACTS)
    for name, key in keys.items():
        if name != "360p":
            bench.rendition(name, key)
    assert complete(worker, job, bench, warnings=[LEFT_OUT])[1]["status"] == "done"
    row = desk.show(job["job"])
    assert row["warnings"] == [LEFT_OUT]
    warnings = [(e["code"], e["detail"]) for e in row["events"] if e["trigger"] == "warning"]
    assert warnings == [(LEFT_OUT["code"], LEFT_OUT["text"])]
    [again] = desk.add(path)
    assert (again["decision"], again["job"]) == ("cached", job["job"])
    [other] = desk.add(path, overrides={"crf": "25"})
    assert other["decision"] == "changed", "other settings ask for all of it"


def identity(path: Path) -> dict[str, int]:
    found = path.stat()
    return {
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "inode": found.st_ino,
        "ctime_ns": found.st_ctime_ns,
    }


@pytest.mark.fault(
    "The source changes before its ladder is published", "`SOURCE_CHANGED`; not published", area="publishing"
)
@pytest.mark.parametrize(
    ("became", "answer"),
    [
        ("the same", "done"),
        ("touched", "done"),
        ("of another time", "done"),
        ("renamed", "done"),
        ("another", "pending"),
        ("changed within", "pending"),
        ("gone", "done"),
    ],
)
def test_the_source_is_looked_at_before_players_see_its_ladder(desk: Desk, became: str, answer: str) -> None:
    path = desk.file(content=os.urandom(6_000_000))
    [added] = desk.add(path, priority=1000)
    worker = desk.worker()
    job = worker.claim()
    bench = bench_of(job)
    bench.rendition("360p", f"of-{job['video']}")
    before, encoded = identity(path), full_hash(os.fsencode(path))
    match became:
        case "touched":
            path.chmod(0o664)
        case "of another time":
            os.utime(path, ns=(1, 1))
        case "renamed":
            path.rename(path.with_name("renamed"))
            path.with_name("renamed").rename(path)
        case "another":
            path.write_bytes(b"another video")
        case "changed within":
            with path.open("r+b") as file:
                file.seek(1_100_000)  # between the samples
                file.write(b"other")
            os.utime(path, ns=(before["mtime_ns"], before["mtime_ns"]))
        case "gone":
            path.unlink()
    status = complete(worker, job, bench, full_hash=encoded, source=before)[1]["status"]
    assert status == answer
    row, video = desk.show(added["job"]), desk.live.send(calls.video(job["video"]))
    folder = desk.live.home.output / video["slug"]
    if answer == "done":
        assert (folder / "master.m3u8").exists()
    else:
        assert (row["error"]["code"], row["attempts"]) == ("SOURCE_CHANGED", 0)
        assert path.name in row["error"]["message"]
        assert [entry.name for entry in folder.iterdir()] == [".owner"]
        assert (bench.work_dir / bench.made[0]["folder"]).is_dir(), "what was made may serve the next attempt"


@pytest.mark.fault(
    "The database cannot record what plays already",
    "Recorded at the end of the job or by the next supervisor",
    area="publishing",
)
def test_what_plays_and_could_not_be_recorded_is_recorded_later(desk: Desk) -> None:
    """The database refuses, as it does when its own disk is full; the worker then reports a failure."""
    worker, job = desk.running()
    bench = bench_of(job)
    bench.rendition("360p", f"of-{job['video']}")
    with contextlib.closing(sqlite3.connect(desk.live.home.database)) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON generation BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
        assert complete(worker, job, bench)[0] == 500
        row = desk.show(job["job"])
        master = desk.live.home.output / row["video_view"]["slug"] / "master.m3u8"
        assert "v1/" in master.read_text()
        assert (row["status"], row["video_view"]["generation"]) == ("in_progress", None)
        db.execute("DROP TRIGGER full")
    answer = worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="INTERNAL", text="a mistake")
    assert answer["status"] == "done"
    row = desk.show(job["job"])
    assert (row["status"], row["attempts"], row["error"]) == ("done", 0, None)
    assert row["video_view"]["generation"]["number"] == 1
    assert {entry.name for entry in master.parent.iterdir()} == {".owner", "master.m3u8", "v1"}


@pytest.mark.parametrize("keep", [["720p"], []])
def test_a_manifest_without_what_it_names_is_not_published(desk: Desk, keep: list[str]) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    if keep:
        bench.rendition("360p", f"of-{job['video']}")
    assert complete(worker, job, bench, keep=keep)[1]["status"] == "pending"
    assert desk.show(job["job"])["error"]["code"] == "OUTPUT_INVALID"


@pytest.mark.parametrize("operation", ["delete", "keep"])
def test_unfinished_work_goes_with_its_job(desk: Desk, operation: str) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    folder = bench.work_dir / bench.rendition("360p", f"of-{job['video']}")["folder"]
    worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="NO_MEDIA", text="no")
    assert folder.is_dir(), "a retry resumes with it"
    if operation == "delete":
        desk.act("delete", job["job"])
        assert not (bench.work_dir / "segments" / str(job["video"])).exists()
        assert not list((bench.work_dir / "trash").iterdir())


def test_a_restart_starts_over(desk: Desk) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    store = finished_work(bench)
    report(worker, job, 60.0, renditions=[{"name": "360p", "status": "in_progress", "progress": 60.0}])
    desk.act("restart", job["job"])
    assert report(worker, job, 60.0)["control"] == "restart"
    assert (
        worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason="restart")["status"] == "pending"
    )
    row = desk.show(job["job"])
    assert (row["progress"], row["renditions"], row["attempts"]) == (0, [], 0)
    until(lambda: not store.exists(), "what was finished is forgotten")


def finished_work(bench: Bench) -> Path:
    """The segment store of the bench's video, with something in it."""
    store = bench.work_dir / "segments" / str(bench.video)
    store.mkdir(parents=True, exist_ok=True)
    (store / "finished").write_bytes(b"segment")
    return store


def released(worker: Worker, job: Any, reason: str) -> str:
    answer: str = worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason=reason)["status"]
    return answer


def test_no_worker_works_on_a_job_before_it_has_started_over(desk: Desk) -> None:
    """What was made before a restart is gone when a worker gets the job, however soon that is."""
    worker, job = desk.running()
    store = finished_work(bench_of(job))
    desk.act("pause", job["job"])
    assert released(worker, job, "pause") == "paused"
    assert store.exists()
    desk.act("restart", job["job"])
    again = worker.claim()
    assert again["job"] == job["job"]
    assert not store.exists()
    # From here on it is this attempt's.
    finished_work(bench_of(job))
    desk.act("pause", job["job"])
    assert released(worker, again, "pause") == "paused"
    desk.act("resume", job["job"])
    assert worker.claim()["job"] == job["job"]
    assert store.exists()


def test_a_restart_that_is_sent_twice_is_done_once(desk: Desk) -> None:
    worker, job = desk.running()
    desk.act("pause", job["job"])
    released(worker, job, "pause")
    first = desk.act("restart", job["job"], idempotency_key="once")
    assert first[0]["ok"]
    again = worker.claim()
    store = finished_work(bench_of(job))
    desk.act("pause", job["job"])
    released(worker, again, "pause")
    assert desk.act("restart", job["job"], idempotency_key="once") == first
    assert desk.show(job["job"])["status"] == "paused"
    desk.act("resume", job["job"])
    assert worker.claim()["job"] == job["job"]
    assert store.exists(), "what was made since is kept"


def test_a_refused_restart_takes_nothing_away(desk: Desk) -> None:
    worker, old = desk.running()
    worker.send(f"jobs/{old['job']}/fail", epoch=old["epoch"], code="NO_MEDIA", text="no")
    path = Path(os.fsdecode(paths.decode(old["source"]["path_b64"])))
    path.write_bytes(b"a better video, of another length")
    [added] = desk.add(path, priority=1000)
    assert added["job"] != old["job"]
    newer = worker.claim()
    assert (newer["job"], newer["video"]) == (added["job"], old["video"])
    store = finished_work(bench_of(newer))
    [refused] = desk.act("restart", old["job"])
    assert f"job {newer['job']} has the same video" in refused["error"]["message"]

    desk.act("pause", newer["job"])
    released(worker, newer, "pause")
    desk.act("delete", newer["job"])
    [refused] = desk.act("restart", newer["job"])
    assert "is deleted" in refused["error"]["message"]
    desk.act("undelete", newer["job"])
    desk.act("resume", newer["job"])
    assert worker.claim()["job"] == newer["job"]
    assert store.exists(), "another's work, and that of a deleted job, stays"


def test_a_full_disk_shuts_the_gate_and_costs_nothing(desk: Desk) -> None:
    worker, job = desk.running()
    answer = worker.send(
        f"jobs/{job['job']}/fail", epoch=job["epoch"], code="DISK_LOW", text="3 GB are needed, 1 GB is free"
    )
    assert answer["status"] == "pending"
    row = desk.show(job["job"])
    assert (row["attempts"], row["error"]["code"]) == (0, "DISK_LOW")
    events = desk.live.send(calls.events(limit=100))["events"]
    assert "gate_closed" in [event["trigger"] for event in events]
    shut = max((e for e in events if e["trigger"] == "gate_closed"), key=lambda event: event["seq"])
    assert shut["detail"] == f"the disk of {desk.live.home.output} is full: 3 GB are needed, 1 GB is free"
    # The disk has its reserve: the gate opens by itself.
    until(lambda: not desk.live.send(calls.status())["gates"], "the gate is open")


def test_a_folder_of_a_user_is_not_written_to(desk: Desk) -> None:
    worker, job = desk.running()
    slug = desk.show(job["job"])["video_view"]["slug"]
    theirs = desk.live.home.output / slug
    theirs.mkdir(parents=True)
    (theirs / "diary.txt").write_text("dear diary")
    bench = bench_of(job)
    bench.rendition("360p", "one")
    assert complete(worker, job, bench)[1]["status"] == "done"
    video = desk.live.send(calls.video(job["video"]))
    assert video["slug"] == f"{slug}-2"
    assert [p.name for p in theirs.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize(
    "change",
    [{"folder": "../../etc"}, {"name": "../x"}, {"segments": []}, {"init_size": 0}, {"kind": "subtitles"}],
)
def test_a_manifest_that_leads_astray_is_refused(desk: Desk, change: dict[str, Any]) -> None:
    worker, job = desk.running()
    bench = bench_of(job)
    bench.rendition("360p", f"bad-{job['video']}")
    body = bench.manifest().model_dump()
    body["renditions"][0] |= change
    answer = worker.post(
        f"jobs/{job['job']}/complete", instance=worker.instance, epoch=job["epoch"], manifest=body
    )
    if "folder" in change:
        assert answer[0] == 200
        assert desk.show(job["job"])["error"]["code"] == "OUTPUT_INVALID"
    else:
        assert error_of(answer, 400)["code"] == "BAD_REQUEST"
        assert desk.show(job["job"])["status"] == "in_progress"


@pytest.mark.fault("A source is missing for a moment", "`SOURCE_UNAVAILABLE`, not counted", area="resume")
@pytest.mark.parametrize("gone", [False, True])
def test_a_source_that_was_away_for_a_moment_costs_nothing(desk: Desk, gone: bool) -> None:
    worker, claimed = desk.running()
    path = Path(os.fsdecode(paths.decode(claimed["source"]["path_b64"])))
    if gone:
        path.unlink()
        path.symlink_to("nowhere")
    body = {"instance": worker.instance, "epoch": claimed["epoch"], "steps": {}}
    failure = {"code": "SOURCE_MISSING", "text": "it does not exist", "hint": ""}
    status, answer = worker.post(f"jobs/{claimed['job']}/fail", **body, **failure)
    assert (status, answer["status"]) == (200, "failed" if gone else "pending")
    row = desk.show(claimed["job"])
    assert (row["attempts"], row["error"]["code"]) == (0, "SOURCE_MISSING" if gone else "SOURCE_UNAVAILABLE")
    if not gone:
        assert path.name in row["error"]["message"]
        desk.act("cancel", claimed["job"])
