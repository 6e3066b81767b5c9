"""What is done to one row changes no other: each write by a key, with a row of another key beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import (
    autorestart,
    claims,
    jobs,
    operations,
    outcomes,
    progress,
    transitions,
    undo,
)
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.library import crfs, folders, generations, publications, removals, videos
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.engine.store.library.removals import Removal
from tqstudio.engine.store.library.videos import Unprobed
from tqstudio.engine.store.machine import gates, quarantine, speeds, supervisors, workers
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    AttemptOutcome,
    AutorestartRule,
    GateKind,
    JobStatus,
    Operation,
    Step,
    Undoable,
)
from tqstudio.protocol.requests import SourceIdentity

from .conftest import NOW, TV, Queue, token

TABLES = (
    *(tables.folder, tables.video, tables.generation, tables.published_rendition, tables.publication),
    *(tables.source_removal, tables.deletion, tables.speed, tables.job, tables.rendition, tables.attempt),
    *(tables.worker, tables.supervisor, tables.gate, tables.idempotency),
    *(tables.undo, tables.undo_step),
)

FOLDER: dict[str, Any] = {
    "after_done": "delete",
    "done_dir": None,
    "duplicates": "encode",
    "template": "{slug}",
    "audio": "skip",
    "output_root": b"/out",
    "profile": "web",
    "watch": "auto",
    "recursive": 1,
    "patterns": [],
    "settle_s": None,
    "priority": 0,
    "autorestart_limit": 0,
    "autorestart_delay_s": 0,
    "exclude": [],
}


def rows(db: Connection) -> dict[str, Any]:
    """Every row by its table and key: `rendition 3 360p` → its values."""
    return {
        " ".join(str(each) for each in (table, *row[: len(table.primary_key)])): row[len(table.primary_key) :]
        for table in TABLES
        for row in db.execute(select(*table.primary_key, table))
    }


class Street:
    """Two of everything; what is done is done to the first."""

    def __init__(self, queue: Queue) -> None:
        self.queue, self.db = queue, queue.db
        self.running = [self._running(number) for number in range(2)]
        self.waiting = [queue.job() for _ in range(2)]
        self.failed = [queue.in_status(JobStatus.FAILED) for _ in range(2)]
        self.folders = [self._folder(number) for number in range(2)]
        for lease, folder in zip(self.running, self.folders, strict=True):
            videos.adopt(self.db, lease.video, folder)
            for number in (1, 2):
                self.publish(lease.video, number)
            self.db.execute("UPDATE job SET from_folder = 1 WHERE id = :id", {"id": lease.job})
            removals.plan(self.db, lease.job, SourceIdentity(size=1, mtime_ns=1, inode=1, ctime_ns=1))
        self.paused = [self._paused(actor) for actor in ("ada", "bob")]
        for kind in (GateKind.USER, GateKind.DISK):
            gates.shut(self.db, kind, "for a test", now=queue.now, actor="test")

    def _running(self, number: int) -> HeldLease:
        lease = self.queue.claimed(self.queue.worker(f"cpu-{number}"))
        progress.set_renditions(self.db, lease.job, [RENDITION], at=NOW)
        publications.begin(self.db, publication(lease), now=self.queue.now)
        return lease

    def _paused(self, actor: str) -> tuple[int, list[undo.UndoStep]]:
        """A job that was paused twice by a person, and what the last time has changed."""
        number, steps = self.queue.job(), list[undo.UndoStep]()
        for operation in (Operation.PAUSE, Operation.RESUME, Operation.PAUSE):
            before = undo.states(self.db, [number])
            self.queue.do(number, operation)
            steps = undo.changed(self.db, before)
            undo.record(self.db, Undoable(operation), steps, actor=actor, now=self.queue.now)
        return number, steps

    def _folder(self, number: int) -> int:
        row = folders.add(self.db, FOLDER | {"path": b"/in/%d" % number}, now=self.queue.now)
        assert row is not None
        return row.id

    def publish(self, video: int, number: int) -> None:
        generations.record(
            self.db, video, number, settings_hash="h", poster=None, renditions=[], now=self.queue.now
        )

    @property
    def lease(self) -> HeldLease:
        return self.running[0]

    @property
    def video(self) -> int:
        return self.lease.video

    @property
    def removal(self) -> Removal:
        at = (self.lease.job, self.video, 1, 1, 1, 1)
        return Removal(*at, None, None, frozenset(), b"/in", None, None, None, None, None)

    def attempt(self, lease: HeldLease) -> str:
        [row] = self.db.execute("SELECT id FROM attempt WHERE job_id = :job", {"job": lease.job})
        return f"attempt {row[0]}"

    @property
    def rendition(self) -> str:
        return f"rendition {self.lease.job} {RENDITION['name']}"

    @property
    def generations(self) -> list[int]:
        of_video = {"id": self.video}
        found = self.db.execute("SELECT id FROM generation WHERE video_id = :id ORDER BY id", of_video)
        return [row[0] for row in found]


RENDITION = RenditionRow(
    name="360p",
    status="in_progress",
    reason=None,
    required=True,
    width=640,
    height=360,
    encoder="libx264",
    progress=0.0,
    segments_done=0,
    segments_total=None,
    speed=None,
    settings_hash=None,
    stream_key=None,
    error=None,
    kept=0.0,
    started_at=None,
    completed_at=None,
)


def publication(lease: HeldLease) -> PublicationRow:
    return PublicationRow(
        job=lease.job,
        epoch=lease.epoch,
        instance=lease.instance,
        worker="cpu-0",
        video=lease.video,
        number=3,
        slug="clip",
        manifest="{}",
        full_hash=None,
    )


def report(street: Street) -> None:
    assert progress.save(
        street.db,
        token(street.lease),
        progress.Report(
            step="transcode", progress=5, renditions=[{**RENDITION, "kept": 5.0}], steps={"probe": 1.0}
        ),
        at=NOW + 1,
    )


def register(street: Street) -> None:
    workers.register(
        street.db,
        street.lease.worker_id,
        instance="another life",
        pid=2,
        pid_started=2.0,
        encoder="libx264",
        capabilities={},
        metadata={},
        now=NOW,
    )


def probed(street: Street) -> None:
    known = videos.get(street.db, street.video)
    assert known is not None
    seen = Unprobed(street.lease.job, street.video, known.source, size=1000, mtime_ns=1)
    assert videos.set_probed(street.db, seen, facts={"duration_s": 5}, error=None)


def renamed(street: Street) -> None:
    before = videos.get(street.db, street.video)
    assert before is not None
    assert videos.rename(
        street.db, before, b"/in/new", name="new", title="new", job=street.lease.job, now=NOW, actor="test"
    )


Act = Callable[[Street], object]
Changed = Callable[[Street], set[str]]


def job(street: Street) -> set[str]:
    return {f"job {street.lease.job}"}


def waiting(street: Street) -> set[str]:
    return {f"job {street.waiting[0]}"}


def failed(street: Street) -> set[str]:
    return {f"job {street.failed[0]}"}


def video(street: Street) -> set[str]:
    return {f"video {street.video}"}


def video_and_job(street: Street) -> set[str]:
    return video(street) | job(street)


def worker(street: Street) -> set[str]:
    return {f"worker {street.lease.worker_id}"}


def job_and_attempt(street: Street) -> set[str]:
    return {*job(street), street.attempt(street.lease)}


def _folder(street: Street) -> dict[str, Any]:
    """A row as an undo has it."""
    return folders._plain(street.db, street.folders[0]) or {}


RULE = AutorestartRule(2, 5)

WRITES: dict[str, tuple[Act, Changed]] = {
    "a supervisor renews its lease": (
        lambda s: supervisors.renew(s.db, s.queue.supervisor, now=NOW, lease_us=9),
        lambda s: {f"supervisor {s.queue.supervisor}"},
    ),
    "an attempt ends": (
        lambda s: claims.end_attempt(s.db, s.lease, AttemptOutcome.FAILED, now=NOW, answer=JobStatus.PENDING),
        lambda s: {s.attempt(s.lease)},
    ),
    "a job is moved": (
        lambda s: transitions.move(s.db, s.waiting[0], EventKind.PAUSE, now=NOW, actor="test"),
        waiting,
    ),
    "a job goes back": (
        lambda s: outcomes.requeue(s.db, s.lease, now=NOW, why="for a test"),
        job_and_attempt,
    ),
    "a worker reports": (
        report,
        lambda s: job_and_attempt(s) | {s.rendition},
    ),
    "a step is lengthened": (
        lambda s: progress.lengthen(s.db, token(s.lease), Step.FINALIZE, 1.0),
        lambda s: {s.attempt(s.lease)},
    ),
    "renditions settle": (
        lambda s: progress.settle_renditions(s.db, s.lease.job, running_becomes="pending", now=NOW),
        lambda s: {s.rendition},
    ),
    "renditions are forgotten": (
        lambda s: progress.reset_renditions(s.db, s.lease.job),
        lambda s: {s.rendition},
    ),
    "a rule is set": (lambda s: autorestart.set_rule(s.db, s.failed[0], RULE), failed),
    "a batch is joined": (lambda s: jobs.join_batch(s.db, s.waiting[0], "batch"), waiting),
    "metadata is set": (lambda s: jobs.set_metadata(s.db, s.waiting[0], {"client": "acme"}), waiting),
    "a profile is set": (
        lambda s: jobs.set_settings(s.db, s.waiting[0], TV, now=NOW, actor="test"),
        waiting,
    ),
    "a control request is noted": (lambda s: s.queue.do(s.lease.job, Operation.PAUSE), job),
    "a job is deleted": (lambda s: s.queue.do(s.waiting[0], Operation.DELETE), waiting),
    "a priority is set": (
        lambda s: operations.set_priority(s.db, s.waiting[0], value=7, delta=None, now=NOW, actor="test"),
        waiting,
    ),
    "an action can be undone": (
        lambda s: undo.record(s.db, Undoable.DELETE, s.paused[1][1], actor="eve", now=NOW),
        lambda s: {"undo 7", f"undo_step 7 {s.paused[1][0]}"},
    ),
    "an action is undone": (
        lambda s: undo.take(s.db, 3, limit=9),
        lambda s: {"undo 3", f"undo_step 3 {s.paused[0][0]}"},
    ),
    "a job is put back": (
        lambda s: undo.put_back(s.db, Undoable.PAUSE, s.paused[0][1], now=NOW, actor="ada"),
        lambda s: {f"job {s.paused[0][0]}", f"undo_step 2 {s.paused[0][0]}"},
    ),
    "a folder is put back": (
        lambda s: folders.put_back(
            s.db,
            s.folders[0],
            {"before": {**_folder(s), "priority": 3}, "after": _folder(s)},
            now=NOW,
        ),
        lambda s: {f"folder {s.folders[0]}"},
    ),
    "a failure is held against a worker": (
        lambda s: quarantine.failed(
            s.db, s.lease.job, s.lease.epoch, ErrorCode.ENCODER_EXIT, after=1, now=NOW
        ),
        worker,
    ),
    "a job is predicted": (lambda s: speeds.set_prediction(s.db, s.waiting[0], 1.0), waiting),
    "a run is measured": (lambda s: speeds.add_work(s.db, s.lease.job, s.lease.epoch, now=NOW + 9), job),
    "a folder is changed": (
        lambda s: folders.change(s.db, s.folders[0], {"priority": 3}, now=NOW),
        lambda s: {f"folder {s.folders[0]}"},
    ),
    "a folder is removed": (
        lambda s: folders.remove(s.db, s.folders[0], now=NOW),
        lambda s: {f"folder {s.folders[0]}", *video(s)},
    ),
    "a gate opens": (
        lambda s: gates.reopen(s.db, GateKind.USER, now=NOW, actor="test"),
        lambda _: {"gate user"},
    ),
    "a generation replaces another": (
        lambda s: s.publish(s.video, 3),
        lambda s: {*video(s), *(f"generation {number}" for number in s.generations[1:])},
    ),
    "a generation is removed": (
        lambda s: generations.removed(s.db, s.generations[0], s.video, 1, now=NOW),
        lambda s: {f"generation {s.generations[0]}"},
    ),
    "a removal ends": (
        lambda s: removals.forget(s.db, s.removal),
        lambda s: {f"source_removal {s.lease.job}"},
    ),
    "a publication ends": (
        lambda s: publications.end(s.db, s.lease.job),
        lambda s: {f"publication {s.lease.job}"},
    ),
    "a fingerprint is set": (
        lambda s: videos.set_fingerprint(s.db, s.video, size=2, mtime_ns=2, quick_hash="other", changed=True),
        video,
    ),
    "facts are set": (
        lambda s: videos.set_facts(s.db, s.video, {"duration_s": 5}, quick_hash=None),
        video_and_job,
    ),
    "a CRF is decided": (
        lambda s: crfs.add(
            s.db,
            s.video,
            [{"settings_hash": "a", "encoder": "x", "crf": 20, "vmaf": 93.0, "remark": ""}],
        ),
        video,
    ),
    "a first quality plays": (lambda s: videos.set_viewable(s.db, s.video, "480p"), video),
    "the probe found something": (probed, video_and_job),
    "a slug is set": (lambda s: videos.set_slug(s.db, s.video, "other"), video),
    "a video wants another slug": (lambda s: videos.want_slug(s.db, s.video, b"/out", "other"), video),
    "a video follows its source": (renamed, video),
    "a video is adopted": (lambda s: videos.adopt(s.db, s.video, s.folders[1]), video),
    "a hash is set": (lambda s: videos.set_full_hash(s.db, s.video, "full"), video),
    "a worker registers": (register, worker),
    "a worker is heard": (
        lambda s: workers.store_heartbeats(s.db, [(s.lease.worker_id, s.lease.instance, NOW + 1)]),
        worker,
    ),
    "a worker ends": (
        lambda s: workers.ended(
            s.db, s.lease.worker_id, instance=s.lease.instance, now=NOW, why="for a test"
        ),
        worker,
    ),
    "a worker is disabled": (lambda s: workers.set_intent(s.db, "cpu-0", enabled=False, now=NOW), worker),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_is_done_to_one_row_changes_no_other(queue: Queue, write: str) -> None:
    street = Street(queue)
    act, changed = WRITES[write]
    before = rows(queue.db)
    act(street)
    after = rows(queue.db)
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed(street)
