"""What becomes of a file that is offered, with real files and really published ladders."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from store.conftest import supervisor_of
from tqstudio.config import Settings
from tqstudio.engine.admission import admission
from tqstudio.engine.admission.admission import Admission
from tqstudio.engine.admission.change_detection import Certainty
from tqstudio.engine.admission.decision import _title, decide
from tqstudio.engine.admission.existing_job import RunningJob
from tqstudio.engine.admission.offer import Offer, OfferedFile
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.media.plan.keys import settings_hash
from tqstudio.engine.media.plan.profiles import Profile, override
from tqstudio.engine.media.plan.rungs import build_ladder
from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts, VideoTrack
from tqstudio.engine.media.source.fingerprint import Digest, NotHashed
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, operations, outcomes, progress
from tqstudio.engine.store.jobs.assignments import assignment_of
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease, LeaseToken
from tqstudio.engine.store.jobs.outcomes import Failure
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.engine.store.library import folders, generations, videos
from tqstudio.engine.store.lists import records
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import Control, JobKind, JobStatus, Operation
from tqstudio.protocol.answers import AddResult

from .ladders import Bench, put_in_place

FACTS = SourceFacts(
    container="mov",
    duration_s=18.0,
    start_time_s=0.0,
    bitrate=1,
    size=1,
    video=VideoTrack(
        index=0,
        codec="h264",
        profile="High",
        width=1280,
        height=720,
        coded_width=1280,
        coded_height=720,
        rotation=0,
        pix_fmt="yuv420p",
        bit_depth=8,
        fps=Fraction(25),
        vfr=False,
        color_primaries=2,
        color_transfer=2,
        color_space=2,
        color_range=0,
        first_pts_s=Fraction(0),
        duration_s=18.0,
        own_duration=True,
        interlaced=False,
        bitrate=1,
        dv_profile=0,
        dv_compatibility=0,
    ),
    audio=(AudioTrack(1, "aac", 2, 48000, "en", "", True, ""),),
)


class House:
    """Admission with the workers and the publishing played by the test."""

    def __init__(self, home: Home, db: Database, root: Path) -> None:
        self.db, self.root = db, root
        self.left: list[bytes] = []
        """Paths that were left by files of waiting jobs."""
        self.disk_is_away = False
        self.admission = Admission(
            home,
            Settings(),
            db,
            on_left=self.left.append,
            on_settled=lambda: None,
            is_away=self._is_away,
            restore_deleted=self._restore_deleted,
        )
        self.out = root / "out"
        self.web = self.admission.profile("web")

    async def _is_away(self, _job: int) -> bool:
        return self.disk_is_away

    async def _restore_deleted(self, _video: int, _actor: str) -> None:
        """What was deleted stays so: the part that restores is not here."""

    def file(self, name: str = "clip.mp4", content: bytes = b"some video") -> Path:
        path = self.root / name
        path.write_bytes(content)
        return path

    def offer(
        self, path: Path | bytes, profile: Profile | None = None, digest: Digest | None = None, **more: Any
    ) -> Any:
        digests = {} if digest is None else {os.fsencode(path): digest}
        how = Offer(profile=profile or self.web, output_root=os.fsencode(self.out), digests=digests, **more)
        return asyncio.run(self.admission.offer(os.fsencode(path), how))

    def offer_all(self, paths: Sequence[Path | bytes], **more: Any) -> list[Any]:
        """The decision on each file, or the code of its error."""
        how = Offer(profile=self.web, output_root=os.fsencode(self.out), **more)
        answers = asyncio.run(self.admission.offer_all([os.fsencode(path) for path in paths], how))
        return [answer.code if isinstance(answer, TqError) else answer for answer in answers]

    def decided(self, path: Path, profile: Profile | None = None, **more: Any) -> str:
        return str(self.offer(path, profile, **more)["decision"])

    def claim(self) -> HeldLease:
        def write(db: Any) -> HeldLease | None:
            row = workers.ensure(db, "cpu-0", "cpu", device=None)
            workers.register(
                db,
                row.id,
                instance="instance",
                pid=1,
                pid_started=1,
                encoder=None,
                capabilities={},
                metadata={},
                now=now_us(),
            )
            who = Claimant(row.id, "cpu-0", "cpu", "instance")
            return claims.claim(
                db, who, supervisor=supervisor_of(db), now=now_us(), idle_gpus=0, gpu_grace_us=0
            )

        lease = self.db.write_now(write)
        assert lease is not None
        return lease

    def fail(self, code: ErrorCode = ErrorCode.NO_MEDIA) -> int:
        lease = self.claim()
        token, rules = LeaseToken(lease.job, lease.epoch, lease.instance), RetryRules(0, 0, lambda: 0)
        self.db.write_now(outcomes.fail, token, Failure(code, "no"), now=now_us(), rules=rules, worker="w")
        return lease.job

    def publish(self, profile: Profile | None = None, *, full_hash: str | None = None) -> videos.VideoRow:
        """Do the next job: a real ladder of a few bytes, with the hashes a worker would find."""
        profile = profile or self.web
        lease = self.claim()
        video = self.db.read_now(videos.get, lease.video)
        assert video is not None
        assert video.quick_hash is not None
        bench = Bench(self.out / ".tqstudio" / "uuid" / str(lease.job))
        for rung in build_ladder(FACTS, profile):
            if not rung.skipped:
                bench.rendition(rung.name, settings_hash(video.quick_hash, profile, rung, FACTS))
        for audio in audio_renditions(FACTS, profile):
            bench.rendition(audio.name, settings_hash(video.quick_hash, profile, audio, FACTS))
        number = self.db.read_now(generations.next_number, video.id)
        rows = put_in_place(bench.work_dir, place_of(video), number, bench.manifest())

        def record(db: Any) -> None:
            videos.set_facts(db, lease.video, FACTS.to_json(), quick_hash=None)
            if full_hash is not None:
                videos.set_full_hash(db, lease.video, full_hash)
            token = LeaseToken(lease.job, lease.epoch, lease.instance)
            assert outcomes.complete(db, token, now=now_us(), worker="w", detail="generation")
            generations.record(
                db,
                lease.video,
                number,
                settings_hash="ladder",
                poster=None,
                renditions=rows,
                now=now_us(),
            )

        self.db.write_now(record)
        return video

    def status(self, job: int) -> JobStatus:
        newest = self.db.read_now(lambda db: operations.job_facts(db, job))
        assert newest is not None
        return newest.status


@pytest.fixture
def house(home: Home, opened: Database, tmp_path: Path) -> House:
    return House(home, opened, tmp_path)


def test_a_new_file_is_queued(house: House) -> None:
    result = house.offer(house.file("Käse  und_Brot.mp4"), batch="b", priority=7)
    assert (result["decision"], result["slug"], result["error"]) == ("queued", "käse-und_brot", None)
    spec = house.db.read_now(jobs.spec_of, result["job"])
    assert (spec.kind, spec.profile) == (JobKind.NEW, "web")
    assert house.status(result["job"]) is JobStatus.PENDING


def test_a_file_of_a_folder_that_was_removed_is_not_queued(house: House) -> None:
    """The folder's last look found it; the user was quicker."""
    with pytest.raises(TqError, match="drop folder was removed") as refused:
        house.offer(house.file(), folder=7)
    assert refused.value.code is ErrorCode.NOT_FOUND
    assert house.db.read_now(videos.page, after=0, limit=9) == []


def test_held_it_waits(house: House) -> None:
    assert house.status(house.offer(house.file(), hold=True)["job"]) is JobStatus.PAUSED


@pytest.mark.parametrize("state", ["pending", "paused", "in_progress"])
def test_an_open_job_is_left_alone(house: House, state: str) -> None:
    path = house.file()
    first = house.offer(path, hold=state == "paused")
    if state == "in_progress":
        house.claim()
    again = house.offer(path, priority=9)
    assert (again["decision"], again["job"]) == ("waiting", first["job"])
    assert house.status(first["job"]) is JobStatus(state)


def _job(house: House, job: int) -> Any:
    return house.db.read_now(jobs.spec_of, job)


@pytest.mark.parametrize("hold", [False, True])
def test_a_waiting_job_takes_over_what_is_asked_by_name(house: House, hold: bool) -> None:
    path = house.file()
    job = house.offer(path, hold=hold)["job"]
    fast = house.admission.profile("fast")
    unnamed = house.offer(path, fast, priority=9)
    assert (unnamed["decision"], unnamed["applied"]) == ("waiting", {})
    assert (_job(house, job).profile, _job(house, job).priority) == ("web", 0)

    named = house.offer(path, fast, priority=9, named=frozenset({"profile", "priority"}))
    assert (named["decision"], named["job"]) == ("waiting", job)
    assert named["applied"] == {"profile": "fast", "priority": 9}
    assert named["status"] == ("paused" if hold else "pending")
    spec = _job(house, job)
    assert (spec.profile, spec.priority) == ("fast", 9)
    assert Profile.from_json(json.loads(spec.profile_json)) == fast
    triggers = [event.trigger for event in house.db.read_now(events.newest, limit=9, job=job)]
    assert triggers.count("profile_changed") == triggers.count("priority_changed") == 1
    again = house.offer(path, fast, priority=9, named=frozenset({"profile", "priority"}))
    assert again["applied"] == {}


def test_a_waiting_job_is_held_when_that_is_asked(house: House) -> None:
    path = house.file()
    house.offer(path)
    first = house.offer(path, hold=True, named=frozenset({"hold"}))
    assert (first["decision"], first["status"], first["applied"]) == ("waiting", "paused", {"hold": True})
    assert house.offer(path, hold=True, named=frozenset({"hold"}))["applied"] == {}


def test_what_a_paused_job_had_made_of_the_old_profile_is_forgotten(house: House) -> None:
    path = house.file()
    job = house.offer(path)["job"]
    lease = house.claim()
    row: Any = dict.fromkeys(progress.RenditionRow.__annotations__)
    row |= {"name": "1080p", "status": "in_progress", "required": True, "segments_done": 1, "kept": 50.0}
    row |= {"progress": 50.0}

    def run_a_little(db: Any) -> None:
        token = LeaseToken(lease.job, lease.epoch, lease.instance)
        report = progress.Report(step="transcode", progress=50, renditions=[row])
        assert progress.save(db, token, report, at=1)
        operations.operate(db, job, Operation.PAUSE, now=now_us(), actor="test")
        outcomes.release(db, token, Control.PAUSE, now=now_us(), worker="w")

    house.db.write_now(run_a_little)
    result = house.offer(path, house.admission.profile("fast"), named=frozenset({"profile"}))
    assert (result["status"], result["applied"]) == ("paused", {"profile": "fast"})
    assert house.db.read_now(progress.renditions, job) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"named": frozenset({"profile"})}, "the profile web"),
        ({"hold": True, "named": frozenset({"hold"})}, "only a waiting job can be held"),
    ],
)
def test_a_running_job_refuses_what_it_cannot_be(house: House, more: Any, expected: str) -> None:
    path = house.file()
    job = house.offer(path)["job"]
    house.claim()
    with pytest.raises(RunningJob, match=expected) as refused:
        house.offer(path, house.admission.profile("fast"), **more)
    assert (refused.value.code, refused.value.job) == (ErrorCode.REFUSED, job)
    assert f"tqstudio job {'pause' if 'hold' in more else 'retranscode'} {job}" in refused.value.hint
    assert _job(house, job).profile == "web"


def test_a_running_job_is_as_good_with_the_same_profile_or_another_priority(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.claim()
    words = replace(house.web, description="in other words")
    assert house.decided(path, words, priority=5, named=frozenset({"profile", "priority"})) == "waiting"


def test_force_makes_a_waiting_change_make_everything(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.publish()
    job = house.offer(path, override(house.web, {"crf": "25"}))["job"]
    assert _job(house, job).kind is JobKind.CHANGED
    assert house.offer(path, force=True)["applied"] == {"force": True}
    assert _job(house, job).kind is JobKind.RETRANSCODE
    assert house.offer(path, force=True)["applied"] == {}


def test_a_retried_job_takes_priority_and_hold_too(house: House) -> None:
    path = house.file()
    job = house.offer(path)["job"]
    house.fail()
    result = house.offer(path, priority=5, hold=True, named=frozenset({"priority", "hold"}))
    assert (result["decision"], result["job"], result["status"]) == ("retried", job, "paused")
    assert result["applied"] == {"priority": 5, "hold": True}


def test_bytes_between_the_samples_count_when_they_are_looked_at(house: House) -> None:
    content = bytearray(os.urandom(8_000_000))
    path = house.file(content=bytes(content))
    house.offer(path)
    video = house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    mtime_ns = path.stat().st_mtime_ns
    content[1_500_000] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    assert house.decided(path) == "cached", "nothing casts a doubt"
    os.utime(path, ns=(6, 6))
    assert house.decided(path) == "changed"
    after = house.db.read_now(videos.get, video.id)
    assert after is not None
    assert after.quick_hash != video.quick_hash, "no rendition of the old content may count for the new"

    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    assert house.decided(path) == "cached"
    os.utime(path, ns=(7, 7))
    assert house.decided(path) == "cached", "another time, the same bytes"


def test_a_full_hash_is_taken_from_who_offers_the_file(house: House) -> None:
    """A drop folder reads large files on a thread of its own."""
    path = house.file(content=bytes(8_000_000))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    assert house.decided(path, may_read=False) == "cached", "nothing is to be read"
    outdated = fingerprint.digest(os.fsencode(path))
    with path.open("r+b") as file:
        file.seek(1_500_000)
        file.write(b"another")
    os.utime(path, ns=(6, 6))
    for digest in (None, outdated, outdated._replace(mtime_ns=6, size=1), outdated._replace(size=8_000_000)):
        with pytest.raises(NotHashed):
            house.offer(path, may_read=False, digest=digest)
    assert house.decided(path, may_read=False, digest=fingerprint.digest(os.fsencode(path))) == "changed"


def test_content_that_came_and_went_unmade_is_distinguished_from_the_next(house: House) -> None:
    """A ladder of A plays. B was queued and cancelled; C differs from it between the samples, as A does."""
    path = house.file(content=bytes(8_000_000))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))

    def write(content: bytes, time: int) -> Any:
        with path.open("r+b") as file:
            file.seek(1_500_000)
            file.write(content)
        os.utime(path, ns=(time, time))
        return house.offer(path)

    b = write(b"B", 6)
    house.db.write_now(operations.operate, b["job"], Operation.CANCEL, now=now_us(), actor="test")
    row = house.db.read_now(videos.get, b["video"])
    assert row is not None
    c = write(b"C", 7)
    assert (c["decision"], c["reason"]) == ("changed", "source")
    after = house.db.read_now(videos.get, c["video"])
    assert after is not None
    assert after.quick_hash != row.quick_hash


def test_a_failed_file_with_a_new_time_is_requeued_where_it_may_differ(house: House) -> None:
    """It was never read whole, so nothing shows that it was not mended between the samples."""
    large, small = house.file("large.mp4", bytes(8_000_000)), house.file("small.mp4", bytes(1_000))
    for path in (large, small):
        house.offer(path)
        house.fail()
        os.utime(path, ns=(6, 6))
    assert house.decided(large, retry_failed=False) == "retried"
    assert house.decided(small, retry_failed=False) == "failed", "all of it is the same"


def _renamed(path: Path, name: str = "new name.mp4") -> Path:
    return path.rename(path.with_name(name))


@pytest.mark.parametrize("state", ["pending", "paused", "in_progress", "failed"])
def test_a_job_follows_its_file_to_another_name(house: House, state: str) -> None:
    path = house.file()
    first = house.offer(path, hold=state == "paused")
    if state == "in_progress":
        house.claim()
    if state == "failed":
        house.fail(ErrorCode.SOURCE_MISSING)
    result = house.offer(_renamed(path), retry_failed=False, folder=_folder(house))
    assert (result["decision"], result["job"]) == (
        "retried" if state == "failed" else "waiting",
        first["job"],
    )
    row = house.db.read_now(videos.get, first["video"])
    assert row is not None
    assert (row.name, row.title) == ("new name.mp4", "new name")
    assert row.slug == ("clip" if state == "in_progress" else "new-name")
    assert house.left == [os.fsencode(path)]


def test_the_parts_of_a_disc_have_the_name_of_its_folder(house: House) -> None:
    base = os.fsencode(house.root)
    for disc, slug in (("Alps", "alps-vts_01_1"), ("Baltic Sea", "baltic-sea-vts_01_1")):
        (house.root / disc / "VIDEO_TS").mkdir(parents=True)
        part = house.file(f"{disc}/VIDEO_TS/VTS_01_1.VOB", disc.encode())
        result = house.offer(part, base=base, hold=True)
        row = house.db.read_now(videos.get, result["video"])
        assert row is not None
        assert (row.name, row.title, row.slug) == (f"{disc} VTS_01_1.VOB", f"{disc} VTS 01 1", slug)
    moved = (house.root / "Alps").rename(house.root / "Alps 2019")
    house.offer(moved / "VIDEO_TS/VTS_01_1.VOB", base=base, folder=_folder(house))
    row = house.db.read_now(videos.find, os.fsencode(moved / "VIDEO_TS/VTS_01_1.VOB"), os.fsencode(house.out))
    assert row is not None
    assert (row.name, row.slug) == ("Alps 2019 VTS_01_1.VOB", "alps-2019-vts_01_1")


def _folder(house: House) -> int:
    values = {
        "path": os.fsencode(house.root),
        "output_root": os.fsencode(house.out),
        "profile": "web",
        "watch": "auto",
        "recursive": 1,
        "patterns": [],
        "settle_s": None,
        "priority": 0,
        "autorestart_limit": 0,
        "autorestart_delay_s": 0,
    }
    row = house.db.write_now(folders.add, values, now=now_us())
    return row.id if row else house.db.read_now(folders.listing)[0].id


@pytest.mark.parametrize("state", ["pending", "in_progress", "failed"])
def test_a_file_that_is_moved_to_another_folder_is_made_as_that_one_says(house: House, state: str) -> None:
    path = house.file()
    job = house.offer(path)["job"]
    if state == "in_progress":
        house.claim()
    if state == "failed":
        house.fail(ErrorCode.SOURCE_MISSING)
    fast = house.admission.profile("fast")
    result = house.offer(_renamed(path), fast, priority=3, retry_failed=False, folder=_folder(house))
    assert (result["job"], result["error"]) == (job, None)
    spec = _job(house, job)
    assert (spec.profile, spec.priority) == (("web", 0) if state == "in_progress" else ("fast", 3))
    again = house.offer(_renamed(house.root / "new name.mp4", "c.mp4"), folder=_folder(house))
    assert (again["job"], _job(house, job).profile) == (job, spec.profile), "within a folder it stays so"


def _row(house: House, video: int) -> videos.VideoRow:
    row = house.db.read_now(videos.get, video)
    assert row is not None
    return row


@pytest.mark.fault(
    "A finished source is renamed, with its folder, or moved to another disk",
    "Its ladder follows it, with its slug",
    area="publishing",
)
@pytest.mark.parametrize("how", ["renamed", "its folder renamed", "copied and removed"])
@pytest.mark.parametrize("size", [20, 8_000_000])
def test_a_finished_film_follows_its_file(house: House, how: str, size: int) -> None:
    folder = house.root / "films"
    folder.mkdir()
    path = folder / "film.mp4"
    path.write_bytes(os.urandom(size))
    house.offer(path)
    video = house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    new = house.root / "new/film.mp4"
    if how == "its folder renamed":
        folder.rename(house.root / "new")
    else:
        new.parent.mkdir()
        if how == "renamed":
            path.rename(new)
        else:
            shutil.copyfile(path, new)
            path.unlink()
    if how == "copied and removed" and size > 20:
        with pytest.raises(NotHashed):
            house.offer(new, may_read=False, skip_duplicates=True)
    result = house.offer(new, skip_duplicates=True, folder=_folder(house))
    assert (result["decision"], result["video"]) == ("cached", video.id)
    row = _row(house, video.id)
    assert (row.source, row.slug, row.folder) == (os.fsencode(new), video.slug, _folder(house))
    assert house.db.read_now(lambda db: len(videos.page(db, after=0, limit=9))) == 1
    assert house.decided(new, force=True) == "changed"


def test_a_finished_film_follows_its_file_also_without_its_job(house: House) -> None:
    """It was removed from the list, as by `queue clear`; the ladder is there."""
    path = house.file()
    job = house.offer(path)["job"]
    video = house.publish()
    house.db.write_now(operations.operate, job, Operation.DELETE, now=now_us(), actor="test")
    new = path.with_name("new name.mp4")
    path.rename(new)
    result = house.offer(new, folder=_folder(house))
    assert (result["decision"], result["video"]) == ("cached", video.id)
    assert _row(house, video.id).source == os.fsencode(new)


def test_a_finished_film_that_is_added_under_its_new_name_in_a_group_follows_it(house: House) -> None:
    path = house.file()
    house.offer(path)
    video = house.publish()
    copy = house.root / "moved.mp4"
    shutil.copy2(path, copy)
    path.unlink()
    answers = house.offer_all([copy, house.file("other.mp4", b"another")])
    assert [each["decision"] for each in answers] == ["cached", "queued"]
    assert _row(house, video.id).source == os.fsencode(copy)


@pytest.mark.parametrize(
    "why", ["it is there", "its disk is away", "the content differs", "deleted", "removed when done"]
)
def test_a_finished_film_follows_no_other_file(house: House, why: str) -> None:
    path = house.file(content=b"the content")
    house.offer(path)
    video = house.publish()
    copy = house.root / "copy.mp4"
    shutil.copy2(path, copy)
    if why != "it is there":
        path.unlink()
    match why:
        case "its disk is away":
            house.disk_is_away = True
        case "the content differs":
            before = copy.stat()
            copy.write_bytes(b"one content")
            os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "deleted":
            _mark(house, video.id, "deleted_at")
        case "removed when done":
            _mark(house, video.id, "source_deleted_at")
    result = house.offer(copy)
    assert (result["decision"], result["video"] == video.id) == ("queued", False)
    assert _row(house, video.id).source == os.fsencode(path)


def _mark(house: House, video: int, column: str) -> None:
    house.db.write_now(lambda db: db.execute(f"UPDATE video SET {column} = 1 WHERE id = :id", {"id": video}))


@pytest.mark.parametrize("column", ["deleted_at", "source_deleted_at"])
def test_a_renamed_file_of_a_video_that_is_gone_is_a_new_one(house: House, column: str) -> None:
    path = house.file()
    house.offer(path)
    video = house.publish()
    _mark(house, video.id, column)
    assert house.decided(_renamed(path)) == "queued"


def test_an_inode_that_is_used_again_for_another_film_of_the_size_and_time_is_not_followed(
    house: House,
) -> None:
    path = house.file(content=b"the content")
    house.offer(path)
    house.publish()
    before = path.stat()
    path.write_bytes(b"one content")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert house.decided(_renamed(path)) == "queued"


def test_two_finished_films_that_swap_their_names_are_made_again(house: House) -> None:
    one, two = house.file("one.mp4", b"the content of one"), house.file("two.mp4", b"that of two")
    for path in (one, two):
        house.offer(path)
        house.publish()
    one.rename(house.root / "kept")
    two.rename(one)
    (house.root / "kept").rename(two)
    assert [house.decided(path) for path in (one, two)] == ["changed", "changed"]


def test_a_finished_film_whose_name_another_one_took_does_not_follow_its_file(house: House) -> None:
    path = house.file(content=b"the content")
    house.offer(path)
    house.publish()
    new = _renamed(path)
    house.file(content=b"another")
    assert house.decided(new) == "queued"


def test_a_file_whose_video_changes_while_it_is_looked_at_is_looked_at_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = house.file()
    house.offer(path)
    video = house.publish()
    new, real = _renamed(path), admission.is_current

    def and_it_moves(*args: Any) -> bool:
        house.db.write_now(
            lambda db: db.execute("UPDATE video SET source = :to WHERE id = 1", {"to": os.fsencode(new)})
        )
        return real(*args)

    monkeypatch.setattr(admission, "is_current", and_it_moves)
    result = house.offer(new)
    assert (result["decision"], result["video"]) == ("cached", video.id)


def test_a_file_is_one_video_under_two_hard_linked_names(house: House) -> None:
    path = house.file()
    first, linked = house.offer(path), house.root / "linked.mp4"
    os.link(path, linked)
    assert (house.offer(linked)["decision"], house.offer(linked)["job"]) == ("waiting", first["job"])
    assert house.offer(linked)["path"] == str(path)
    house.publish()
    assert house.decided(linked, skip_duplicates=True) == "cached"
    elsewhere = Offer(profile=house.web, output_root=os.fsencode(house.root / "2"))
    assert asyncio.run(house.admission.offer(os.fsencode(linked), elsewhere))["decision"] == "queued"
    path.unlink()
    assert (house.offer(linked)["decision"], house.offer(linked)["video"]) == ("cached", first["video"])
    assert _row(house, first["video"]).source == os.fsencode(linked)


def test_a_digest_of_a_second_name_counts_for_the_first(house: House) -> None:
    path = house.file(content=os.urandom(8_000_000))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    linked = house.root / "linked.mp4"
    os.link(path, linked)
    house.offer(linked)
    os.utime(path, ns=(1, 1))
    house.db.write_now(lambda db: db.execute("UPDATE video SET mtime_ns = 1"))
    digest = fingerprint.digest(os.fsencode(linked))
    how = {"may_read": False, "certainty": Certainty.WHOLE}
    assert house.offer(linked, digest=digest, **how)["decision"] == "cached"


def test_a_new_name_is_a_new_file_where_nothing_waits_for_the_old_one(house: House) -> None:
    failed = house.file("failed.mp4", b"a video that failed")
    house.offer(failed)
    house.fail()
    assert house.decided(_renamed(failed, "failed 2.mp4"), retry_failed=False) == "queued"
    other = house.file("other.mp4", b"one content")
    first, found = house.offer(other), other.stat()
    other.write_bytes(b"the content")
    os.utime(other, ns=(found.st_mtime_ns, found.st_mtime_ns))
    second = house.offer(_renamed(other, "other 2.mp4"))
    assert (second["decision"], second["job"] == first["job"]) == ("queued", False)


def test_a_file_is_one_video_under_all_names_of_its_folder(house: House, tmp_path: Path) -> None:
    path = house.file()
    first = house.offer(path)
    (tmp_path / "link").symlink_to(house.root, target_is_directory=True)
    for name in (b"/" + os.fsencode(path), os.fsencode(tmp_path / "link" / path.name)):
        result = house.offer(name)
        assert (result["decision"], result["job"]) == ("waiting", first["job"]), name


def test_files_that_are_added_together_share_commits(house: House) -> None:
    paths = [house.file(f"{number}.mp4", b"%d" % number) for number in range(1000)]
    statements: list[str] = []
    house.db.write_now(lambda db: db.raw.set_trace_callback(statements.append))
    results = house.offer_all(paths)
    house.db.write_now(lambda db: db.raw.set_trace_callback(None))
    assert statements.count("COMMIT") < 40
    assert [result["path"] for result in results] == [str(path) for path in paths]
    assert [result["job"] for result in results] == [*range(1, 1001)], (
        "the queue has the order of the request"
    )


def test_a_bad_file_among_others_spoils_none(house: House, tmp_path: Path) -> None:
    good = [house.file(f"{number}.mp4", b"%d" % number) for number in range(5)]
    house.offer(good[3])
    house.claim()
    missing = tmp_path / "missing.mp4"
    paths = [good[0], missing, good[1], b"relative.mp4", good[2], good[3], good[4]]
    results = house.offer_all(paths, hold=True, named=frozenset({"hold"}))
    codes = [result for result in results if isinstance(result, ErrorCode)]
    assert [results[1], results[3], results[5]] == codes
    assert codes == [ErrorCode.SOURCE_MISSING, ErrorCode.BAD_REQUEST, ErrorCode.REFUSED]
    queued = [result["path"] for result in results if result not in codes and result["status"] == "paused"]
    assert queued == [str(good[at]) for at in (0, 1, 2, 4)]


def _offer_settled(house: House, *paths: Path) -> list[Exception | None]:
    """Offer files of the drop folder that is the root of the house."""
    _folder(house)
    row = house.db.read_now(folders.listing)[0]
    files = {os.fsencode(path): None for path in paths}
    return asyncio.run(house.admission.offer_settled(row, files))


def test_files_of_a_drop_folder_are_queued_together_and_a_bad_one_spoils_none(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = house.file("large.mp4", bytes(8_000_000))
    house.offer(large)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(large)))
    os.utime(large, ns=(6, 6))
    good = [house.file(f"{number}.mp4", b"%d" % number) for number in range(40)]
    bad = [house.root / "missing.mp4", house.file("empty.mp4", b""), house.file("bug.mp4", b"bug"), large]

    def decide_or_break(db: Connection, file: OfferedFile, settings: Settings) -> AddResult:
        if file.path.endswith(b"bug.mp4"):
            raise ZeroDivisionError
        return decide(db, file, settings)

    monkeypatch.setattr(admission, "decide", decide_or_break)
    statements: list[str] = []
    house.db.write_now(lambda db: db.raw.set_trace_callback(statements.append))
    errors = _offer_settled(house, *good[:2], *bad, *good[2:])
    house.db.write_now(lambda db: db.raw.set_trace_callback(None))
    kinds = [error.code if isinstance(error, TqError) else type(error) for error in errors[2:6]]
    assert kinds == [ErrorCode.SOURCE_MISSING, ErrorCode.SOURCE_EMPTY, ZeroDivisionError, NotHashed]
    assert errors[:2] + errors[6:] == [None] * 40
    rows = house.db.read_now(videos.page, after=0, limit=99)
    assert [row.source for row in rows if row.folder] == [os.fsencode(path) for path in good]
    assert all(house.db.read_now(jobs.open_job_of, row.id) for row in rows if row.folder)
    # The bug runs each decision of its group by itself once more.
    assert statements.count("COMMIT") < len(good)


def test_a_file_that_is_replaced_or_vanishes_before_its_group_is_decided_has_one_job(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced, vanished, kept = paths = [house.file(f"{name}.mp4", name.encode()) for name in "abc"]
    look = admission._readable

    def look_and_change(*args: Any) -> Any:
        found = look(*args)
        os.rename(house.file("other", b"another video"), replaced)
        vanished.unlink()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(admission, "_readable", look_and_change)
        assert _offer_settled(house, *paths) == [None] * 3
    first = {row.source: row for row in house.db.read_now(videos.page, after=0, limit=9)}
    assert len(first) == 3, "a job whose source is gone fails, and says so"
    assert _offer_settled(house, replaced, kept) == [None] * 2
    again = {row.source: row for row in house.db.read_now(videos.page, after=0, limit=9)}
    assert {row.id for row in again.values()} == {row.id for row in first.values()}
    assert again[os.fsencode(replaced)].size == len(b"another video")
    assert house.db.read_now(lambda db: db.execute("SELECT count(*) FROM job").scalar()) == 3


def test_names_of_one_file_that_are_added_together_are_one_video(house: House, tmp_path: Path) -> None:
    path, other = house.file(), house.file("other.mp4", b"another video")
    (tmp_path / "link").symlink_to(house.root, target_is_directory=True)
    results = house.offer_all([path, other, tmp_path / "link" / path.name, path])
    assert [result["decision"] for result in results] == ["queued", "queued", "waiting", "waiting"]
    assert [result["job"] for result in results] == [1, 2, 1, 1]


def test_a_file_that_has_to_be_read_whole_keeps_its_place_among_others(house: House) -> None:
    path, *others = [house.file(f"{number}.mp4", bytes(8_000_000) + b"%d" % number) for number in range(3)]
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    os.utime(path, ns=(6, 6))
    results = house.offer_all([others[0], path, others[1]])
    assert [result["decision"] for result in results] == ["queued", "cached", "queued"]


def test_a_file_that_was_missed_is_made_when_it_is_there(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    house.fail(ErrorCode.SOURCE_MISSING)
    fast = house.admission.profile("fast")
    result = house.offer(path, fast, retry_failed=False, folder=_folder(house))
    assert (result["decision"], result["job"]) == ("retried", first["job"])
    assert _job(house, first["job"]).profile == "web", "a folder takes nothing away"
    house.fail(ErrorCode.SOURCE_MISSING)
    path.write_bytes(b"another video")
    assert house.offer(path, retry_failed=False)["job"] == first["job"], "nothing was made of the other one"
    house.publish()
    again = house.offer(path, force=True)
    house.fail(ErrorCode.SOURCE_MISSING)
    assert house.offer(path, retry_failed=False)["job"] == again["job"], "what was asked for is still owed"
    house.fail(ErrorCode.SOURCE_MISSING)
    path.write_bytes(b"a third video")
    changed = house.offer(path, retry_failed=False)
    assert (changed["decision"], _job(house, changed["job"]).kind) == ("changed", JobKind.CHANGED)


def test_a_file_is_given_up_when_the_supervisor_ends(house: House) -> None:
    path = house.file(content=bytes(8_000_000))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    os.utime(path, ns=(6, 6))
    asyncio.run(house.admission.stop())
    with pytest.raises(TqError) as refused:
        house.offer(path)
    assert refused.value.code is ErrorCode.REFUSED


def test_every_byte_is_read_when_that_is_asked(house: House) -> None:
    content = bytearray(8_000_000)
    path = house.file(content=bytes(content))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    mtime_ns = path.stat().st_mtime_ns
    content[1_500_000] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    assert house.decided(path, certainty=Certainty.WHOLE) == "changed"


def test_a_waiting_job_learns_what_its_file_is_now(house: House) -> None:
    path = house.file()
    video = house.offer(path)["video"]
    path.write_bytes(b"another video, longer")
    assert house.decided(path) == "waiting"
    row = house.db.read_now(videos.get, video)
    assert row is not None
    assert (row.size, row.mtime_ns) == (21, path.stat().st_mtime_ns)
    os.utime(path, ns=(5, 5))
    assert house.decided(path) == "waiting"
    row = house.db.read_now(videos.get, video)
    assert row is not None
    assert row.mtime_ns == 5, "the same bytes with another time are no change for the worker to stumble on"


def test_what_is_published_and_unchanged_is_cached(house: House) -> None:
    path = house.file()
    house.offer(path)
    video = house.publish()
    result = house.offer(path)
    assert (result["decision"], result["master"]) == ("cached", str(place_of(video).master))
    os.utime(path, ns=(5, 5))
    assert house.decided(path) == "cached", "another time, the same bytes"
    assert house.decided(path, replace(house.web, description="another text")) == "cached"


def refused_as_duplicate(house: House, path: Path, **more: Any) -> bool:
    try:
        return house.decided(path, skip_duplicates=True, **more) != "queued"
    except TqError as error:
        return error.code is ErrorCode.DUPLICATE


def test_the_content_of_a_published_source_is_skipped_on_request(house: House) -> None:
    path = house.file()
    house.offer(path)
    assert not refused_as_duplicate(house, house.file("before it was published.mp4"))
    first = house.file("first.mp4", b"one video")
    house.offer(first, priority=9)
    video = house.publish()
    copy = house.file("copy.mp4", b"one video")
    with pytest.raises(TqError, match=f"video {video.id} ") as refused:
        house.offer(copy, skip_duplicates=True)
    assert refused.value.code is ErrorCode.DUPLICATE
    assert house.decided(first, skip_duplicates=True) == "cached"
    assert not refused_as_duplicate(house, house.file("other.mp4", b"two video"))
    assert not refused_as_duplicate(house, copy, profile=house.admission.profile("fast"))


def test_a_template_places_new_ladders_and_moves_none(house: House) -> None:
    drop = house.root / "in"
    tree = {"template": "{relative_dir}/{slug}", "base": os.fsencode(drop)}
    path = drop / "Acme Corp/2024/Film.mp4"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"one film")
    assert house.offer(path, **tree)["slug"] == "acme-corp/2024/film"
    video = house.publish()
    assert place_of(video).master.is_file()
    assert place_of(video).folder.relative_to(house.out) == Path("acme-corp/2024/film")
    assert house.offer(path)["decision"] == "cached", "a changed template moves no ladder"
    assert house.offer(path, force=True)["slug"] == "acme-corp/2024/film"
    assert place_of(house.publish()).master.is_file()
    top = drop / "top.mp4"
    top.write_bytes(b"another film")
    assert house.offer(top, **tree)["slug"] == "top"


def test_a_copy_is_encoded_for_another_output_and_without_a_whole_ladder(house: House) -> None:
    house.offer(house.file())
    place = place_of(house.publish())
    copy = house.file("copy.mp4")
    assert refused_as_duplicate(house, copy)
    elsewhere = Offer(profile=house.web, output_root=os.fsencode(house.root / "2"), skip_duplicates=True)
    answer = asyncio.run(house.admission.offer(os.fsencode(copy), elsewhere))
    assert answer["decision"] == "queued"
    (place.generation(1) / "480p" / segment_name(1)).unlink()
    assert not refused_as_duplicate(house, copy)


def test_a_copy_that_differs_between_the_samples_is_none(house: House) -> None:
    content = bytearray(os.urandom(8_000_000))
    path = house.file(content=bytes(content))
    house.offer(path)
    house.publish(full_hash=fingerprint.full_hash(os.fsencode(path)))
    copy = house.file("copy.mp4", bytes(content))
    with pytest.raises(NotHashed):
        house.offer(copy, skip_duplicates=True, may_read=False)
    digest = fingerprint.digest(os.fsencode(copy))
    assert refused_as_duplicate(house, copy, may_read=False, digest=digest)
    outdated = digest._replace(mtime_ns=1)
    with pytest.raises(NotHashed):
        house.offer(copy, skip_duplicates=True, may_read=False, digest=outdated)
    content[1_500_000] ^= 1
    other = house.file("other.mp4", bytes(content))
    assert not refused_as_duplicate(house, other, digest=fingerprint.digest(os.fsencode(other)))


def test_a_large_copy_of_a_source_without_a_full_hash_is_encoded(house: House) -> None:
    house.offer(house.file(content=bytes(8_000_000)))
    house.publish()
    assert not refused_as_duplicate(house, house.file("copy.mp4", bytes(8_000_000)), may_read=False)


def test_what_a_full_check_finds_broken_is_made_again(house: House) -> None:
    path = house.file()
    house.offer(path)
    place = place_of(house.publish())
    assert house.decided(path, certainty=Certainty.WHOLE) == "cached"
    victim = place.generation(1) / "480p" / segment_name(1)
    found = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(found[:-1] + bytes([found[-1] ^ 1]))
    assert house.decided(path) == "cached", "its boxes are whole"
    result = house.offer(path, certainty=Certainty.WHOLE)
    assert result["decision"] == "changed"
    lease = house.claim()
    asked = house.db.read_now(assignment_of, lease.job)
    assert (lease.job, asked.kind) == (result["job"], JobKind.RETRANSCODE)
    assert asked.requested == ("480p",)


def test_changed_content_makes_a_new_job_and_the_old_ladder_stays(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    video = house.publish()
    path.write_bytes(b"other video")
    result = house.offer(path)
    assert (result["decision"], result["video"], result["slug"]) == ("changed", first["video"], first["slug"])
    assert result["job"] != first["job"]
    assert house.db.read_now(jobs.spec_of, result["job"]).kind is JobKind.CHANGED
    assert _changed(house, result)["size"] == ("10", "11")
    assert set(_changed(house, result)) <= {"size", "modified", "content"}
    row = house.db.read_now(videos.get, first["video"])
    assert row is not None
    assert row.facts is None, "what was found in the old content says nothing of the new"
    assert place_of(video).master.exists()
    house.publish()
    assert house.decided(path) == "cached"


def test_one_changed_rung_dirties_one_rendition(house: House) -> None:
    path = house.file()
    house.offer(path)
    video = house.publish()
    assert video.quick_hash is not None
    rungs = tuple(
        replace(rung, maxrate_kbps=rung.maxrate_kbps + 1) if rung.short_side == 480 else rung
        for rung in house.web.rungs
    )
    changed = replace(house.web, rungs=rungs)
    before, after = (
        {r.name: settings_hash(video.quick_hash, p, r, FACTS) for r in build_ladder(FACTS, p)}
        for p in (house.web, changed)
    )
    assert {name for name in before if before[name] != after[name]} == {"480p"}
    assert house.decided(path, changed) == "changed"


def test_a_changed_setting_makes_a_new_job(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.publish()
    result = house.offer(path, override(house.web, {"crf": "25"}))
    assert (result["decision"], result["reason"]) == ("changed", "settings")
    spec = house.db.read_now(jobs.spec_of, result["job"])
    assert spec.kind is JobKind.CHANGED
    assert _changed(house, result) == {"crf": ("22", "25")}


def test_another_profile_is_named_as_the_change(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.publish()
    result = house.offer(path, house.admission.profile("archive"))
    changes = _changed(house, result)
    assert changes["profile"] == ("web", "archive")
    assert 1 < len(changes) <= 12
    assert "description" not in changes


def _changed(house: House, result: Any) -> dict[str, tuple[str | None, str | None]]:
    record = house.db.read_now(records.one, result["job"])
    assert record is not None
    return {change["what"]: (change["before"], change["after"]) for change in record["changes"]}


@pytest.mark.parametrize("harm", ["segment", "master"])
def test_a_damaged_ladder_is_made_again(house: House, harm: str) -> None:
    path = house.file()
    house.offer(path)
    place = place_of(house.publish())
    (place.generation(1) / "360p" / segment_name(0) if harm == "segment" else place.master).unlink()
    result = house.offer(path)
    assert (result["decision"], result["reason"]) == ("changed", "ladder")
    assert _changed(house, result) == {"ladder": ("complete", "incomplete")}


def test_force_makes_it_again(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.publish()
    result = house.offer(path, force=True)
    assert (result["decision"], result["reason"]) == ("changed", "forced")
    assert _changed(house, result) == {}
    assert house.db.read_now(jobs.spec_of, result["job"]).kind is JobKind.RETRANSCODE


def test_a_failed_job_is_requeued_with_the_profile_of_now(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    house.fail()
    assert house.decided(path, retry_failed=False) == "failed"
    assert house.status(first["job"]) is JobStatus.FAILED
    result = house.offer(path, house.admission.profile("fast"), batch="again")
    assert (result["decision"], result["job"]) == ("retried", first["job"])
    assert house.status(first["job"]) is JobStatus.PENDING
    assert house.db.read_now(jobs.spec_of, first["job"]).profile == "fast"


def test_a_cancelled_job_is_requeued(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    house.db.write_now(operations.operate, first["job"], Operation.CANCEL, now=now_us(), actor="test")
    assert house.decided(path) == "retried"
    assert house.status(first["job"]) is JobStatus.PENDING


def test_a_failed_file_that_changed_gets_a_new_job(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    house.fail()
    path.write_bytes(b"mended video")
    result = house.offer(path, retry_failed=False)
    assert result["decision"] == "queued"
    assert result["job"] != first["job"]


def test_an_older_job_that_was_retried_is_the_one_that_waits(house: House) -> None:
    path = house.file()
    first = house.offer(path)
    house.fail()
    path.write_bytes(b"mended video")
    second = house.offer(path)
    house.fail()
    house.db.write_now(operations.operate, first["job"], Operation.RETRY, now=now_us(), actor="test")
    again = house.offer(path)
    assert (again["decision"], again["job"]) == ("waiting", first["job"])
    assert house.status(second["job"]) is JobStatus.FAILED


def test_a_failed_retranscode_leaves_the_ladder_cached(house: House) -> None:
    path = house.file()
    house.offer(path)
    house.publish()
    house.offer(path, force=True)
    house.fail()
    assert house.decided(path) == "cached"


def test_one_source_may_have_two_outputs(house: House, tmp_path: Path) -> None:
    path = house.file()
    first = house.offer(path)
    house.out = tmp_path / "elsewhere"
    second = house.offer(path)
    assert second["decision"] == "queued"
    assert second["video"] != first["video"]
    assert second["slug"] == first["slug"]
    assert (first["other_job"], second["other_job"]) == (None, first["job"]), "and that is reported"


# What is not taken


def refused(house: House, path: Path | bytes) -> TqError:
    with pytest.raises(TqError) as caught:
        house.offer(path)
    assert house.db.read_now(lambda db: videos.page(db, after=0, limit=9)) == []
    return caught.value


def test_a_missing_file(house: House, tmp_path: Path) -> None:
    error = refused(house, tmp_path / "none.mp4")
    assert error.code is ErrorCode.SOURCE_MISSING
    assert str(tmp_path / "none.mp4") in error.message


def test_a_broken_link(house: House, tmp_path: Path) -> None:
    (tmp_path / "link.mp4").symlink_to(tmp_path / "none.mp4")
    assert refused(house, tmp_path / "link.mp4").code is ErrorCode.SOURCE_MISSING


def test_an_empty_file(house: House) -> None:
    assert refused(house, house.file(content=b"")).code is ErrorCode.SOURCE_EMPTY


def test_a_folder(house: House, tmp_path: Path) -> None:
    error = refused(house, tmp_path)
    assert error.code is ErrorCode.UNSUPPORTED
    assert "tqstudio folder add" in error.hint


def test_a_fifo_is_not_waited_for(house: House, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.mp4")
    assert refused(house, tmp_path / "fifo.mp4").code is ErrorCode.UNSUPPORTED


def test_a_path_through_a_file(house: House) -> None:
    assert refused(house, house.file() / "x.mp4").code is ErrorCode.SOURCE_MISSING


def test_a_relative_path(house: House) -> None:
    assert refused(house, b"clip.mp4").code is ErrorCode.BAD_REQUEST


def test_a_name_that_is_too_long(house: House, tmp_path: Path) -> None:
    assert refused(house, tmp_path / ("x" * 300)).code is ErrorCode.SOURCE_UNREADABLE


def test_a_file_without_permission(house: House) -> None:
    path = house.file()
    path.chmod(0)
    if os.getuid():
        assert refused(house, path).code is ErrorCode.PERMISSION
        return
    # Root reads everything; without its capabilities it is as anybody.
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tqstudio.config import Settings\n"
        "from tqstudio.engine.admission.admission import Admission\n"
        "from tqstudio.engine.admission.offer import Offer\n"
        "from tqstudio.engine.store.db.database import Database\n"
        "from tqstudio.errors import TqError\n"
        "from tqstudio.home import Home\n"
        "home = Home(Path(sys.argv[2]))\n"
        "home.create()\n"
        "db = Database(home.database)\n"
        "db.open()\n"
        "later = dict.fromkeys(('on_left', 'on_settled', 'is_away', 'restore_deleted'))\n"
        "admission = Admission(home, Settings(), db, **later)\n"
        "how = Offer(admission.profile('web'), b'/out')\n"
        "try:\n"
        "    asyncio.run(admission.offer(os.fsencode(sys.argv[1]), how))\n"
        "except TqError as error:\n"
        "    print(error.code)\n"
        "db.close()\n"
    )
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    command = [*drop, sys.executable, "-c", code, str(path), str(path.parent / "other")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "PERMISSION\n", done.stderr


# Names


def test_titles() -> None:
    assert _title(b"/in/My_Holiday  2024.mp4") == "My Holiday 2024"
    assert _title(b"/in/\x1b\x07.mp4") == "untitled"
    assert _title("/in/東京\u3000می\u200cخواهم\u200e.mp4".encode()) == "東京 می\u200cخواهم"
