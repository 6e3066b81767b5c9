"""SQLite and PostgreSQL answer the same to the same operations of the store, and then store the same rows."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlmodel import SQLModel

from tqstudio.engine.store import events
from tqstudio.engine.store.db import integrity, tables
from tqstudio.engine.store.db.connection import Address, Connection, dialect_of
from tqstudio.engine.store.jobs import (
    assignments,
    autorestart,
    claims,
    folder_hours,
    jobs,
    operations,
    outcomes,
    progress,
    transitions,
    undo,
    volume_waits,
)
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease, LeaseToken
from tqstudio.engine.store.jobs.outcomes import Failure
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.library import (
    crfs,
    deletions,
    deliveries,
    folders,
    generations,
    publications,
    removals,
    videos,
)
from tqstudio.engine.store.library.generations import PublishedFile, PublishedRow
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.engine.store.library.videos import NewVideo
from tqstudio.engine.store.lists import matching, pages, records
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.store.machine import gates, quarantine, speeds, statistics, supervisors, tokens, workers
from tqstudio.errors import ErrorCode, TqError, WarningCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    UNDOABLE,
    AutorestartRule,
    Control,
    DeliveryState,
    GateKind,
    JobKind,
    JobStatus,
    Operation,
    RenditionStatus,
    Step,
    Undoable,
)
from tqstudio.paths import display
from tqstudio.protocol.filters import SORTS, Filter, Term
from tqstudio.protocol.requests import SourceIdentity
from tqstudio.protocol.roles import GRANTABLE
from tqstudio.wings.alerts import store as outbox
from tqstudio.wings.alerts.store import NewAlert
from tqstudio.wings.uploads import store as uploads

from .conftest import DATABASES, OLDEST, RULES, SECOND, Queue, migrated, rolled_back

Random = random.Random
Act = Callable[[Queue, Random], Any]
ACTS: dict[Act, int] = {}
"""What the store can do, and how often it does that."""
TABLES = SQLModel.metadata.sorted_tables

NAMES = [
    b"clip.mp4",
    b"CLIP 2.mp4",
    b"\xff\xfe raw.mp4",
    b"a\nb\tc.mp4",
    b'it\'s "100%" \\ a_b.mp4',
    *(name.encode() for name in ("été 東京.mov", "🎬 emoji.mkv", "İSTANBUL ẞ.mp4", "e\u0301 می\u200cخ.mp4")),
]
WORDS = ["", "clip", "été", "100%", "_", "%", "\\", '"', "🎬", "\\xff", "istanbul", "東京 mov", "mp4", "p"]
ROOTS = [b"/out", b"/o\xffut", "/aus 🎬%".encode()]
BATCHES = [None, None, "b-1", "b-2", "Größe"]
OWNERS = [None, "user", "folder", "token:ci", "ci"]
TEXTS = ["it broke", "100% of 'x' \"y\" \\ :z %(w)s", "Größe 🎬 \x1b[1m", "long " * 300]
PROCESSES = {"cpu-0": "cpu", "cpu-1": "cpu", "gpu-0": "gpu", "CPU-2 %": "cpu", "été": "gpu"}
CODES = [
    ErrorCode.NO_MEDIA,
    ErrorCode.ENCODER_EXIT,
    ErrorCode.DISK_LOW,
    ErrorCode.SOURCE_MISSING,
    ErrorCode.SOURCE_CHANGED,
    ErrorCode.IO_ERROR,
    ErrorCode.OUT_OF_MEMORY,
]


def often(times: int) -> Callable[[Act], Act]:
    def noted(act: Act) -> Act:
        ACTS[act] = times
        return act

    return noted


def unordered(rows: Iterable[Any]) -> list[str]:
    """For answers whose order nothing relies on."""
    return sorted(map(repr, rows))


def any_id(queue: Queue, rng: Random, table: str, column: str = "id") -> int:
    """An id that was perhaps never given out, or deleted."""
    last = queue.db.execute(f"SELECT max({column}) FROM {table}").scalar() or 0
    return rng.randint(1, last + 1)


def known(queue: Queue, rng: Random, table: str, column: str = "id") -> int:
    """The id of a row; 0 if there is none."""
    values = {"least": any_id(queue, rng, table, column) - 1}
    least = f"SELECT min({column}) FROM {table} WHERE {column} >= :least"
    return queue.db.execute(least, values).scalar() or 0


def running(queue: Queue, rng: Random) -> HeldLease | None:
    held = sorted(claims.granted(queue.db, queue.supervisor), key=lambda lease: lease.job)
    return rng.choice(held) if held else None


def a_token(queue: Queue, rng: Random) -> LeaseToken:
    """Of a lease, which has often ended."""
    lease = running(queue, rng)
    if lease is not None and rng.random() < 0.8:
        return lease.token
    columns = tables.attempt.c["job_id", "epoch", "instance"]
    found = select(*columns).where(tables.attempt.c.id == known(queue, rng, "attempt"))
    row = queue.db.execute(found).first()
    return LeaseToken(*row) if row else LeaseToken(1, 1, "nobody")


def process(queue: Queue, rng: Random) -> Claimant:
    name, kind = rng.choice(list(PROCESSES.items()))
    row = workers.by_name(queue.db, name)
    if row is None or row.instance is None:
        return queue.worker(name, kind)
    return Claimant(row.id, name, kind, row.instance)


# Videos and folders


@often(6)
def new_video(queue: Queue, rng: Random) -> Any:
    name = rng.choice(NAMES)
    new = NewVideo(
        source=b"/in/%d/%s" % (rng.randint(1, 40), name),
        output_root=rng.choice(ROOTS),
        name=display(name),
        title=name.decode(errors="replace"),
        slug=rng.choice(["", "clip", "été", f"clip-{rng.randint(1, 300)}"]),
        size=rng.choice([0, 1000, 2**40]),
        mtime_ns=rng.choice([-5, 1, 2**62]),
        quick_hash=rng.choice([None, "hash", "other"]),
        folder=rng.choice([None, *[known(queue, rng, "folder") or None] * 3, any_id(queue, rng, "folder")]),
        inode=rng.choice([None, 7, 2**63 - 1]),
    )
    return videos.create(queue.db, new, now=queue.now)


@often(4)
def find_videos(queue: Queue, rng: Random) -> Any:
    db, root, size = queue.db, rng.choice(ROOTS), rng.choice([0, 1000, 2**40])
    row = videos.get(db, any_id(queue, rng, "video"))
    return [
        row,
        row and videos.find(db, row.source, row.output_root),
        row and videos.with_source(db, row.source),
        videos.page(db, after=any_id(queue, rng, "video"), limit=5),
        videos.page_before(db, before=any_id(queue, rng, "video"), limit=5),
        unordered(videos.with_inode(db, root, inode=7, size=size, mtime_ns=1)),
        videos.published_with_size(db, root, size),
        videos.published_like(db, root, size=size, samples="hash"),
        videos.output_roots(db),
        unordered(videos.known_sources(db, known(queue, rng, "folder")).items()),
        integrity.has_video(db, any_id(queue, rng, "video")),
        integrity.numbers_at(db, root, "clip"),
        removals.is_taken(db, b"/in/1/clip.mp4"),
    ]


@often(4)
def change_video(queue: Queue, rng: Random) -> Any:
    db, video = queue.db, known(queue, rng, "video")
    match rng.randrange(6):
        case 0:
            state: Any = {"size": rng.choice([1000, 5]), "mtime_ns": rng.choice([1, 2])}
            hashes: Any = {"quick_hash": rng.choice([None, "new"]), "inode": rng.choice([None, 9])}
            return videos.set_fingerprint(db, video, **state, **hashes, changed=rng.random() < 0.5)
        case 1:
            return videos.set_slug(db, video, rng.choice(["clip", "été", "new"]))
        case 2:
            return videos.adopt(db, video, any_id(queue, rng, "folder"))
        case 3:
            return videos.set_full_hash(db, video, "full")
        case 4:
            return videos.want_slug(db, video, rng.choice(ROOTS), rng.choice(["", "clip", "été"]))
    row = videos.get(db, any_id(queue, rng, "video"))
    name = rng.choice(NAMES)
    job = known(queue, rng, "job")
    how: Any = {"name": display(name), "title": "T", "job": job, "now": queue.now, "actor": "scan"}
    return row and videos.rename(db, row, b"/moved/%d/%s" % (rng.randint(1, 9), name), **how)


@often(4)
def probe(queue: Queue, rng: Random) -> Any:
    db, seen = queue.db, videos.unprobed(queue.db, limit=rng.randint(1, 9))
    facts = {"duration_s": rng.choice([60, 12.5, 1e-7, 3e9]), "title": rng.choice(TEXTS)}
    if rng.random() < 0.4:
        return videos.set_facts(db, known(queue, rng, "video"), facts, quick_hash=rng.choice([None, "q"]))
    if rng.random() < 0.2:
        crf: Any = {"settings_hash": rng.choice(TEXTS), "encoder": "x", "crf": 20, "vmaf": 93.5, "remark": ""}
        video = known(queue, rng, "video")
        plays = videos.set_viewable(db, video, rng.choice([None, "480p"]))
        return plays, crfs.add(db, video, [crf]), crfs.of_video(db, video)
    error: Any = {"code": rng.choice(CODES).value, "message": rng.choice(TEXTS), "hint": ""}
    found = rng.choice([facts, None])
    answers = [videos.set_probed(db, each, facts=found, error=None if found else error) for each in seen[:2]]
    return seen, answers


@often(5)
def change_folders(queue: Queue, rng: Random) -> Any:
    db, now, folder = queue.db, queue.now, rng.choice([known(queue, rng, "folder")] * 5 + [999])
    rules: dict[str, Any] = {
        "priority": rng.randint(-5, 5),
        "patterns": ["*.mp4", "été"],
        "settle_s": rng.choice([None, 0.1, 3]),
        "after_done": rng.choice(["keep", "move", "delete"]),
        "duplicates": rng.choice(["encode", "link"]),
        "audio": rng.choice(["skip", "encode"]),
        "hours": rng.choice(["", "22:00-06:00"]),
        "done_dir": rng.choice([None, b"/d\xffne"]),
        "max_attempts": rng.choice([None, 5]),
    }
    match rng.randrange(5):
        case 0:
            return folders.change(db, folder, dict(rng.sample(list(rules.items()), 3)), now=now)
        case 1:
            return folders.change(db, folder, {}, now=now)
        case 2:
            return rng.random() < 0.2 and folders.remove(db, folder, now=now)
    where = {"path": b"/in/%d\xff" % rng.randint(1, 6), "output_root": rng.choice(ROOTS), "profile": "web"}
    return folders.add(db, where | rules, now=now)


@often(4)
def read_folders(queue: Queue, rng: Random) -> Any:
    db = queue.db
    since = queue.now - rng.choice([10, 10_000]) * SECOND
    return [
        folders.listing(db),
        folders.exists(db, any_id(queue, rng, "folder")),
        sorted(folders.ended_since(db, since).items()),
        sorted(folder_hours.closing(db).items()),
    ]


# Jobs


@often(16)
def new_job(queue: Queue, rng: Random) -> Any:
    video = known(queue, rng, "video") if rng.random() < 0.4 else new_video(queue, rng)
    if jobs.open_job_of(queue.db, video) is not None:
        return video
    return queue.job(
        video=video,
        gpu=rng.random() < 0.4,
        hold=rng.random() < 0.1,
        kind=rng.choice(list(JobKind)),
        priority=rng.choice([0, 0, 5, -5, 1000]),
        requested=rng.choice([None, ("1080p", "été")]),
        dropped=rng.choice([(), ("720p",)]),
        max_attempts=rng.choice([1, 3]),
        max_crashes=rng.choice([1, 3]),
        autorestart=rng.choice([AutorestartRule(), AutorestartRule(2, 30), AutorestartRule(1, 0.5)]),
        batch=rng.choice(BATCHES),
        metadata={"k": rng.choice(TEXTS)},
        idempotency_key=rng.choice([None, "key"]),
        from_folder=rng.random() < 0.5,
        owner=rng.choice(OWNERS),
        changes=rng.choice([(), ({"what": "size", "before": "1", "after": None},)]),
    )


@often(12)
def operate(queue: Queue, rng: Random) -> Any:
    operation = rng.choice([*Operation, Operation.UNDELETE])
    job = any_id(queue, rng, "job")
    if operation is Operation.UNDELETE:
        job = queue.db.execute("SELECT max(id) FROM job WHERE deleted_at IS NOT NULL").scalar() or job
    return operations.operate(queue.db, job, operation, now=queue.now, actor="été")


@often(6)
def undo_action(queue: Queue, rng: Random) -> Any:
    """Does something that can be undone, or undoes some of it."""
    db, actor = queue.db, rng.choice(["ada", "été"])
    how: Any = {"now": queue.now, "actor": actor}
    if rng.random() < 0.5:
        ids = [any_id(queue, rng, "job") for _ in range(4)]
        before, operation = undo.states(db, ids), rng.choice(sorted(UNDOABLE - {Operation.PRIORITY}))
        for job in ids:
            operations.operate(db, job, operation, **how)
        steps = undo.changed(db, before)
        undo.record(db, Undoable(operation), steps, **how, bulk=rng.choice(["", "", "é"]))
        return sorted(before.items()), steps
    if rng.random() < 0.3:
        folder = known(queue, rng, "folder")
        removed = rng.random() < 0.2 and folders.remove(db, folder, **how)
        return removed or folders.change(db, folder, {"priority": rng.randint(-5, 5)}, **how)
    undo.prune(db, before=queue.now - 3000 * SECOND)
    action = undo.newest(db, actor=actor, since=queue.now - 2000 * SECOND)
    if action is None or action.operation is Undoable.VIDEO_DELETED:
        return action
    steps, left = undo.take(db, action.id, limit=3)
    if action.operation.startswith("folder"):
        return [folders.put_back(db, step.subject, step.former, now=queue.now) for step in steps], left
    return undo.put_back(db, action.operation, steps, **how), left, undo.steps(db, action.id, limit=1)


@often(3)
def set_priority(queue: Queue, rng: Random) -> Any:
    value, delta = rng.choice(
        [(5, None), (-5000, None), (None, 3), (None, 3000), (None, -3000), (None, None)]
    )
    how: Any = {"value": value, "delta": delta, "now": queue.now, "actor": "test"}
    return operations.set_priority(queue.db, any_id(queue, rng, "job"), **how)


@often(5)
def read_jobs(queue: Queue, rng: Random) -> Any:
    db, job, video = queue.db, any_id(queue, rng, "job"), any_id(queue, rng, "video")
    return [
        jobs.open_job_of(db, video),
        jobs.newest_job_of(db, video),
        jobs.failed_source_missing(db, job),
        jobs.work_ended_at(db, video),
        jobs.may_be_retried(db, video),
        jobs.with_status(db, rng.choice(list(JobStatus)), after=job, limit=5),
        jobs.failed(db, after=0, batch=rng.choice(BATCHES), limit=5),
        jobs.open_job_elsewhere(db, b"/in/1/clip.mp4", rng.choice(ROOTS)),
        jobs.starts_over(db, job),
        jobs.spec_of(db, known(queue, rng, "job")),
        jobs.metadata_of(db, known(queue, rng, "job")),
        assignments.assignment_of(db, known(queue, rng, "job")),
        transitions.job_facts(db, job),
        progress.renditions(db, job),
        progress.attempts(db, job),
        records.by_ids(db, [any_id(queue, rng, "job") for _ in range(4)]),
        sorted((records.batch_counts(db, rng.choice(["b-1", "none"])) or {}).items()),
        speeds.outline(db, job),
        speeds.waiting(db, limit=3),
        gates.need_of(db, job),
    ]


@often(4)
def change_job(queue: Queue, rng: Random) -> Any:
    db, job = queue.db, known(queue, rng, "job")
    how: Any = {"now": queue.now, "actor": "test"}
    match rng.randrange(8):
        case 0:
            return jobs.join_batch(db, job, "b-2")
        case 1:
            return jobs.set_metadata(db, job, {"été": rng.choice(TEXTS)})
        case 2:
            given: Any = {"profile": "tv", "profile_json": '{"é": 1}', "prefer_gpu": rng.random() < 0.5}
            given |= {"requested": rng.choice([None, ("720p",)]), "dropped": ()}
            keep = rng.choice([(), ("720p",)])
            return jobs.set_settings(db, job, jobs.JobSpec(**given), keep=keep, **how)
        case 3:
            return jobs.set_limits(db, job, {"max_attempts": rng.randint(1, 5), "max_crashes": 2})
        case 4:
            return jobs.encode_all(db, job, **how)
        case 5:
            return jobs.has_started_over(db, job)
        case 6:
            return sorted(progress.forget_work(db, known(queue, rng, "video")).items())
    progress.settle_renditions(db, job, running_becomes=rng.choice(["completed", "pending"]), now=queue.now)
    return autorestart.set_rule(db, job, AutorestartRule(rng.randint(0, 2), rng.choice([0.5, 60])))


@often(20)
def list_pages(queue: Queue, rng: Random) -> Any:
    words = {
        "text": [rng.choice([str.upper, str.lower])(rng.choice(WORDS))],
        "batch": [str(rng.choice(BATCHES))],
        "folder": [str(known(queue, rng, "folder"))],
        "kind": rng.sample(list(JobKind), 2),
        "owner": [rng.choice(OWNERS)],
        "profile": [rng.choice(["web", "tv"])],
        "code": [rng.choice(["any", *ErrorCode])],
        "quality": rng.sample(["1080p", "audio é", "720p"], 2),
        "older": [rng.choice(["1s", "2d"])],
        "larger": [rng.choice(["0.001k", "1G"])],
        "longer": [rng.choice(["0.001s", "1h"])],
        "warning": [rng.choice(["any", *WarningCode])],
    }
    names = rng.sample([*words, "text", "text", "text"], rng.choice([0, 1, 1, 2]))
    states = [("deleted",)] if rng.random() < 0.2 else []
    states += [tuple(rng.sample(list(JobStatus), 3))] if rng.random() < 0.25 else []
    terms = [Term("state", each, rng.random() < 0.2) for each in states]
    terms += [Term(name, tuple(words[name]), rng.random() < 0.3) for name in names]
    sort = rng.choice(["", "-"]) + rng.choice(SORTS)
    video = known(queue, rng, "video") if rng.random() < 0.1 else None
    query = PageQuery(Filter(tuple(terms)), sort, video, queue.now)
    limit, around = rng.randint(1, 7), any_id(queue, rng, "job")
    with pytest.MonkeyPatch.context() as patch:
        # With 0 the indexes of the orders are scanned for every query.
        patch.setattr(matching, "FEW", rng.choice([0, 1000]))
        ways: Any = ({}, {"around": around}, {"before": "end"})
        found = [pages.page(queue.db, query, limit=limit, **way) for way in ways]
        for _ in range(4):
            after, before = found[-1].after, found[-1].before
            there: Any = {"after": after} if after and rng.random() < 0.5 else {"before": before or "end"}
            found.append(pages.page(queue.db, query, limit=limit, **there))
    return found


@often(1)
def count(queue: Queue, _: Random) -> Any:
    db = queue.db
    return pages.counts_by_status(db), pages.count(db, ()), integrity.miscounted(db)


# Leases


@often(24)
def claim(queue: Queue, rng: Random) -> Any:
    who = process(queue, rng)
    lease = queue.claim(who, idle_gpus=rng.randint(0, 2), grace_s=rng.choice([0, 60]))
    return lease, lease and lease.waited_us


@often(4)
def read_leases(queue: Queue, rng: Random) -> Any:
    db, of = queue.db, a_token(queue, rng)
    return [
        claims.head(db),
        claims.is_ready(db, any_id(queue, rng, "job")),
        claims.held(db, of),
        claims.first_answer(db, of),
        unordered(claims.granted(db, queue.supervisor)),
        integrity.runs(db, of.job, of.epoch),
        unordered(gates.running_needs(db, beside=of.job)),
        sorted(gates.outputs_in_use(db)),
        gates.work_at(db, rng.choice(ROOTS), limit=3),
    ]


@often(8)
def report(queue: Queue, rng: Random) -> Any:
    of = a_token(queue, rng)
    ladder = [
        RenditionRow(
            name=name,
            status=rng.choice(list(RenditionStatus)),
            reason=rng.choice([None, "été"]),
            required=position == 0,
            width=1920,
            height=None,
            encoder="libx264",
            progress=rng.uniform(0, 100),
            segments_done=rng.randint(0, 9),
            segments_total=9,
            speed=rng.choice([None, 1.5]),
            settings_hash="s",
            stream_key="k",
            error=rng.choice([None, *TEXTS]),
            started_at=rng.choice([None, queue.now]),
            completed_at=rng.choice([None, queue.now]),
            kept=rng.uniform(0, 100),
        )
        for position, name in enumerate(("1080p", "audio é"))
    ]
    how: Any = {
        "step": rng.choice([None, *Step]),
        "progress": rng.uniform(0, 100),
        "renditions": rng.choice([None, [], ladder, ladder[:1]]),
        "steps": {"probe": 0.1},
        "argv": rng.choice([None, [["ffmpeg", "-i", "été %"]]]),
        "resumed_from": rng.choice([None, 3]),
        "resumed_at_s": rng.choice([None, 2.5, 30.0]),
        "warnings": rng.choice([None, [{"code": "SOURCE_KEPT", "text": "été"}]]),
        "cpu_s": rng.choice([None, 3.25]),
        "peak_memory_bytes": rng.choice([None, 2**40]),
        "encoder": rng.choice([None, "libx264"]),
    }
    stored = progress.save(queue.db, of, progress.Report(**how), at=queue.now)
    if stored is not None:
        progress.lengthen(queue.db, of, Step.FINALIZE, 0.5)
    return stored


@often(6)
def complete(queue: Queue, rng: Random) -> Any:
    warnings: Any = rng.choice([(), [{"code": "SOURCE_KEPT", "text": rng.choice(TEXTS)}]])
    how: Any = {
        "warnings": warnings,
        "until_last_progress": rng.random() < 0.2,
        "bytes_out": rng.choice([0, 2**33]),
    }
    of = a_token(queue, rng)
    return outcomes.complete(queue.db, of, now=queue.now, worker="cpu-0", detail="generation 1", **how)


@often(10)
def fail(queue: Queue, rng: Random) -> Any:
    of, code = a_token(queue, rng), rng.choice(CODES)
    failure = Failure(code, rng.choice(TEXTS), rng.choice(["", "mend it"]), rng.choice([None, "1.log"]))
    how: Any = {"worker": "cpu-0", "forgotten": rng.random() < 0.2}
    answer = outcomes.fail(queue.db, of, failure, now=queue.now, rules=RULES, **how)
    after = rng.choice([0, 0, 1, 2])
    return answer, quarantine.failed(queue.db, of.job, of.epoch, code, after=after, now=queue.now)


@often(3)
def release(queue: Queue, rng: Random) -> Any:
    reason: Any = rng.choice([None, "hours", Control.PAUSE])
    return outcomes.release(queue.db, a_token(queue, rng), reason, now=queue.now, worker="cpu-0")


@often(4)
def lose(queue: Queue, rng: Random) -> Any:
    lease = running(queue, rng)
    if lease is None:
        return None
    first = queue.lose(lease) if rng.random() < 0.7 else None
    return first, outcomes.requeue(queue.db, lease, now=queue.now, why=rng.choice(TEXTS)), queue.lose(lease)


@often(6)
def promote(queue: Queue, _: Random) -> Any:
    longest: Any = {"now": queue.now, "longest_us": 660 * SECOND}
    return jobs.is_any_due(queue.db, **longest), queue.promote(), jobs.is_any_due(queue.db, **longest)


@often(4)
def restart(queue: Queue, _: Random) -> Any:
    due = autorestart.is_any_due(queue.db, now=queue.now)
    return due, autorestart.restart_due(queue.db, now=queue.now)


@often(3)
def wait_for_hours_or_volumes(queue: Queue, rng: Random) -> Any:
    db, now, job = queue.db, queue.now, known(queue, rng, "job")
    closed = rng.choice([[], [known(queue, rng, "folder")]])
    code = rng.choice([ErrorCode.DISK_NOT_RESPONDING, ErrorCode.SOURCE_UNAVAILABLE, ErrorCode.OUTSIDE_HOURS])
    until = folder_hours.FOREVER if code is ErrorCode.OUTSIDE_HOURS else now + rng.randint(1, 90) * SECOND
    how: Any = {"until": until, "code": code, "why": rng.choice(TEXTS[:3]), "hint": "h"}
    if claims.is_ready(db, job):
        volume_waits.begin(db, job, now=now, **how)
    longer, back = [known(queue, rng, "job")], [known(queue, rng, "job")]
    if rng.random() < 0.3:
        volume_waits.update_waits(db, longer=longer, back=back, now=now, until=now + SECOND)
    return [
        volume_waits.waiting(db, limit=100),
        folder_hours.is_any_over(db, closed),
        rng.random() < 0.4 and folder_hours.end_waits(db, closed, now=now),
    ]


# Ladders


@often(4)
def publish(queue: Queue, rng: Random) -> Any:
    db, lease = queue.db, running(queue, rng)
    if lease is None:
        return None
    number = generations.next_number(db, lease.video)
    row = PublicationRow(lease.job, lease.epoch, lease.instance, "w", lease.video, number, "été", "{}", None)
    publications.begin(db, row, now=queue.now)
    return publications.of_job(db, lease.job), unordered(publications.of_video(db, lease.video))


@often(4)
def end_publications(queue: Queue, rng: Random) -> Any:
    found = unordered(publications.abandoned(queue.db))
    if rng.random() < 0.7:
        publications.end(queue.db, known(queue, rng, "publication", "job_id"))
    return found


@often(5)
def record_ladder(queue: Queue, rng: Random) -> Any:
    db, video, now = queue.db, known(queue, rng, "video"), queue.now
    files = (PublishedFile("0.m4s", 2**33, 6.006, "ab"), PublishedFile("é.m4s", 5, 1.0))
    values: dict[str, Any] = dict.fromkeys(PublishedRow.__dataclass_fields__)
    values |= {"kind": "video", "codecs": "avc1", "duration_s": 7.006, "average_bps": 2**31 - 1}
    values |= {"peak_bps": 9, "size": 2**33, "settings_hash": "s", "stream_key": "k", "is_default": True}
    values |= {"files": files, "role": "", "video_range": "SDR", "frame_rate": 29.97, "title": "été"}
    ladder = [PublishedRow(**values | {"name": name}) for name in ("1080p", "été")]
    number = max(1, generations.next_number(db, video) - (rng.random() < 0.2))
    how: Any = {"poster": rng.choice([None, "p.jpg"]), "omitted": {"é": "x"}, "now": now}
    made = generations.record(db, video, number, settings_hash="s", renditions=ladder, **how)
    return made, generations.current(db, video), generations.exists(db, video, number + 1)


@often(3)
def read_ladders(queue: Queue, rng: Random) -> Any:
    db = queue.db
    retired = generations.retired_before(db, queue.now - 50 * SECOND, limit=4)
    for row in retired[:1]:
        generations.removed(db, row.id, row.video, row.number, now=queue.now)
    return [
        retired,
        generations.get(db, any_id(queue, rng, "generation")),
        generations.duplicates(db, any_id(queue, rng, "job")),
        jobs.creator_of(db, any_id(queue, rng, "video")) is not None,
    ]


@often(4)
def plan_removal(queue: Queue, rng: Random) -> Any:
    source = SourceIdentity(size=1000, mtime_ns=-5, inode=2**64 - 1, ctime_ns=7)
    return removals.plan(queue.db, known(queue, rng, "job"), source)


@often(4)
def remove_sources(queue: Queue, rng: Random) -> Any:
    db, now, found = queue.db, queue.now, removals.due(queue.db, after=0, limit=20)
    row = rng.choice(found) if found else None
    if row is not None:
        target = b"/done/%d/%s" % (row.job, rng.choice(NAMES))
        match rng.randrange(5):
            case 0:
                return found, removals.begin(db, row, target, now=now)
            case 1:
                removals.moved(db, row, target, os.stat_result([0] * 10), now=now)
            case 2:
                removals.deleted(db, row, now=now)
            case 3:
                removals.record_failure(db, row, rng.choice(TEXTS), now=now)
            case 4:
                removals.forget(db, row)
    return found


@often(1)
def delete_video(queue: Queue, rng: Random) -> Any:
    video = known(queue, rng, "video")
    return deletions.begin(queue.db, video, now=queue.now, actor="test"), deletions.of_video(queue.db, video)


@often(6)
def go_on_with_deletions(queue: Queue, rng: Random) -> Any:
    db, video = queue.db, known(queue, rng, "deletion", "video_id")
    done: Any = None
    match rng.randrange(6):
        case 0 | 1 if not deletions.is_busy(db, video):
            done = deletions.trashed(db, video)
        case 2:
            done = deletions.restore(db, video, now=queue.now, actor="test")
        case 3:
            deletions.restored(db, video, url=rng.choice([None, "s3://é/v"]))
        case 4:
            done = deletions.purge(db, video)
        case 5:
            deletions.purged(db, video, now=queue.now)
    return done, deletions.moving(db), deletions.due(db, queue.now, limit=5), deletions.is_busy(db, video)


@often(5)
def deliver(queue: Queue, rng: Random) -> Any:
    old = queue.now - rng.randrange(20) * SECOND
    row = deliveries.due(queue.db, now=queue.now, old=old, longest_us=rng.randrange(20) * SECOND)
    db, now = queue.db, queue.now
    done: Any = None
    match rng.randrange(6):
        case 0 | 1:
            number, url = rng.randint(1, 3), rng.choice(["s3://a/v", "s3://é/v"])
            deliveries.begin(db, known(queue, rng, "video"), number, url, job=None)
        case 2 if row is not None:
            done = deliveries.advance(db, row, files=9, done=rng.randint(0, 9))
        case 3 if row is not None:
            evicted = rng.random() < 0.5
            done = deliveries.delivered(db, row, now=now, remove_at=now + 20 * SECOND, is_evicted=evicted)
        case 4 if row is not None:
            error = TqError(ErrorCode.UPSTREAM, rng.choice(TEXTS), "é")
            deliveries.failed(db, row, error, now=now, next_at=now + SECOND)
        case 5 if row is not None:
            done = deliveries.is_replaced(db, row)
            if row.state is DeliveryState.UNPUBLISHING:
                deliveries.record_unpublished(db, row, remove_at=now + SECOND)
            else:
                deliveries.removed(db, row, now=now)
    return row, done, deliveries.next_at(db), deliveries.unfinished(db)


@often(1)
def forget_videos(queue: Queue, rng: Random) -> Any:
    return deletions.forget(queue.db, limit=rng.randint(1, 3))


@often(5)
def upload(queue: Queue, rng: Random) -> Any:
    db, now, number = queue.db, queue.now, f"u{rng.randint(1, 9)}"
    how: Any = {"upload_metadata": rng.choice(TEXTS), "actor": "été", "expires_at": now + 50 * SECOND}
    done: Any = None
    match rng.randrange(7):
        case 0 | 1:
            of = rng.choice([{}, {"url": "s3://é/f", "version": None, "output_root": b"/o\xff"}])
            done = uploads.create(db, number, size=2**41, limit=6, **how, **of)
        case 2:
            before, more = rng.choice([0, 5]), rng.choice([5, 2**40])
            done = uploads.advance(db, number, before=before, received=more, expires_at=now)
        case 3:
            uploads.place(db, number, b"/in/\xff")
        case 4:
            uploads.answer(db, number, '{"é": 1}', expires_at=now + SECOND)
        case 5:
            uploads.remove(db, number)
        case 6:
            uploads.prune(db, before=now)
    return done, uploads.find(db, number), uploads.unfinished(db)


# The machine


@often(3)
def start_process(queue: Queue, rng: Random) -> Any:
    name, kind = rng.choice(list(PROCESSES.items()))
    how: Any = {"remote": rng.random() < 0.3, "joined_by": rng.choice([None, "ci"])}
    row = workers.ensure(queue.db, name, kind, device=rng.choice([None, "/dev/dri/0"]), **how)
    return row, queue.worker(name, kind, instance=f"{name} {queue.now}"), workers.by_id(queue.db, row.id)


@often(3)
def watch_processes(queue: Queue, rng: Random) -> Any:
    db, now, who = queue.db, queue.now, process(queue, rng)
    done: Any = None
    match rng.randrange(4):
        case 0:
            done = workers.mark_offline(db, [who.id], now=now)
        case 1:
            workers.ended(db, who.id, instance=rng.choice([None, who.instance]), now=now, why="signal")
        case 2 if rng.random() < 0.2:
            workers.forget_processes(db)
        case _:
            workers.store_heartbeats(db, [(who.id, who.instance, now), (who.id, "earlier", now)])
    return done, workers.listing(db), workers.last_off(db)


@often(8)
def intend(queue: Queue, rng: Random) -> Any:
    name = rng.choice([*PROCESSES, "nobody"])
    enabled: Any = {"enabled": True, "draining": False}
    intent: Any = rng.choice([*[enabled] * 6, {"enabled": False}, {"draining": True}])
    return workers.set_intent(queue.db, name, **intent, now=queue.now)


@often(4)
def try_encode(queue: Queue, rng: Random) -> Any:
    who, problem = process(queue, rng), rng.choice(["", "", rng.choice(TEXTS)])
    return quarantine.tested(queue.db, who.id, instance=who.instance, problem=problem, now=queue.now)


@often(4)
def gate(queue: Queue, rng: Random) -> Any:
    db, kind = queue.db, rng.choice(list(GateKind))
    how: Any = {"now": queue.now, "actor": "test"}
    done: Any = None
    match rng.randrange(6):
        case 0:
            path, until = rng.choice([(None, None), (b"/\xff", queue.now + SECOND)])
            done = gates.shut(db, kind, rng.choice(TEXTS[:3]), path=path, until=until, **how)
        case 1:
            gates.open_until(db, kind, reason="été", until=rng.choice([None, queue.now]), **how)
        case _:
            done = [gates.reopen(db, each, **how) for each in GateKind]
    return done, unordered(gates.listing(db))


@often(3)
def add_up(queue: Queue, rng: Random) -> Any:
    db, until = queue.db, queue.now + rng.choice([0, 1])
    since = until - rng.choice([100, 100_000]) * SECOND
    return [
        in_short(statistics.between(db, since, until)),
        statistics.queue_change(db, since, until),
        [
            [(key, in_short(each)) for key, each in found.items()]
            for found in (
                statistics.grouped(db, "worker", since, until, limit=rng.randint(1, 9)),
                statistics.grouped(db, "batch", since, until, limit=rng.randint(1, 9)),
            )
        ],
        sorted(statistics.batches(db, statistics.grouped(db, "batch", since, until, limit=9)).items()),
    ]


def in_short(figures: statistics.Figures) -> list[Any]:
    """Without the last digits of sums, which depend on the order of the rows."""
    sums = [getattr(figures, name) for name in figures.__dataclass_fields__ if name != "off"]
    return [round(each, 6) if isinstance(each, float) else each for each in sums] + sorted(
        figures.off.items()
    )


@often(3)
def measure(queue: Queue, rng: Random) -> Any:
    db = queue.db
    found = [speeds.Speed(rng.choice(["a", "é"]), rng.random(), rng.randint(1, 9), 2.5)]
    speeds.save(db, found, now=queue.now)
    of = a_token(queue, rng)
    predicted = known(queue, rng, "job")
    speeds.set_prediction(db, predicted, rng.uniform(0, 900))
    if rng.random() < 0.2:
        speeds.forget_prediction(db, predicted)
    return unordered(speeds.load(db)), speeds.outcome(db, of.job, of.epoch), speeds.last_outcomes(db)


@often(3)
def token(queue: Queue, rng: Random) -> Any:
    db, name = queue.db, rng.choice(["ci", "été", "x"])
    how: Any = {"now": queue.now, "actor": "test"}
    done: Any
    if rng.random() < 0.3:
        done = tokens.remove(db, name, **how)
    elif rng.random() < 0.2:
        done = tokens.remove_joined(db, rng.choice(list(PROCESSES)), joined_by="ci", **how)
    else:
        who = rng.choice([None, known(queue, rng, "worker") or None, 999])
        secret: Any = {"prefix": rng.choice("pqrs"), "salt": b"\0\xff", "secret_hash": b"\xff"}
        what: Any = {"role": rng.choice(GRANTABLE), "worker": who, "expires_at": rng.choice([None, 5])}
        what["joined"] = rng.random() < 0.3
        done = tokens.create(db, name=name, **secret, **what, **how)
    return done, tokens.listing(db), tokens.by_prefix(db, "p")


@often(4)
def alert(queue: Queue, rng: Random) -> Any:
    db, now, channel = queue.db, queue.now, rng.choice(["web", "été"])
    if rng.random() < 0.6:
        new = NewAlert(f"k{rng.randint(1, 99)}", "failed", rng.choice("ab"), rng.choice(TEXTS))
        outbox.add(db, new, channel=channel, now=now, cooldown_us=30 * SECOND)
    due = outbox.next_due(db, channel, now=now, longest_us=rng.randrange(20) * SECOND)
    if due is not None:
        due = outbox.begin(db, due.id, retry_at=now + SECOND)
        if rng.random() < 0.5:
            outbox.sent(db, due.id, now=now)
        else:
            outbox.not_sent(db, due.id, "été", next_at=rng.choice([None, now + 5 * SECOND]))
    if rng.random() < 0.1:
        outbox.give_up_others(db, ["web"])
        outbox.prune(db, before=now - 500 * SECOND)
    overdue = unordered(outbox.overdue(db, before=now))
    return due, outbox.listing(db, limit=5), sorted(outbox.known(db, ["k1", "k2"])), overdue


@often(3)
def read_outbox(queue: Queue, rng: Random) -> Any:
    db = queue.db
    if rng.random() < 0.4:
        outbox.move_position(db, rng.choice([None, any_id(queue, rng, "event", "seq")]))
    kinds = [EventKind.FAIL_FINAL, EventKind.COMPLETE]
    through = any_id(queue, rng, "event", "seq")
    return [
        outbox.position(db),
        outbox.unread(db, kinds, limit=3),
        outbox.subject_of(db, any_id(queue, rng, "job")),
        outbox.times_failed(db, any_id(queue, rng, "video"), through=through),
    ]


@often(4)
def read_history(queue: Queue, rng: Random) -> Any:
    db, seq = queue.db, any_id(queue, rng, "event", "seq")
    job, since = rng.choice([None, any_id(queue, rng, "job")]), rng.choice([None, queue.now - 100 * SECOND])
    return [
        events.after(db, seq, limit=5, job=job, since=since),
        events.newest(db, limit=5, job=job, before=rng.choice([None, seq])),
        events.bounds(db),
        integrity.newest_event_at(db),
    ]


@often(1)
def prune_history(queue: Queue, rng: Random) -> Any:
    through, before = any_id(queue, rng, "event", "seq") // 4, queue.now - 5000 * SECOND
    gone = events.forget(queue.db, through=through, limit=9)
    return gone, events.prune(queue.db, before=before, now=queue.now, limit=5)


@often(2)
def answer_again(queue: Queue, rng: Random) -> Any:
    db, key = queue.db, rng.choice(["k", "é", "x"])
    supervisors.store_answer(db, key, rng.choice(TEXTS), now=queue.now)
    if rng.random() < 0.3:
        supervisors.complete_answer(db, key, "whole")
    supervisors.prune_answers(db, before=queue.now - 300 * SECOND)
    return supervisors.stored_answer(db, key), supervisors.stored_answer(db, "none")


@often(1)
def start_again(queue: Queue, _: Random) -> Any:
    """A supervisor that follows another one takes over its leases."""
    supervisors.renew(queue.db, queue.supervisor, now=queue.now, lease_us=60 * SECOND)
    begun = supervisors.begin(queue.db, pid=2, version="2", now=queue.now, lease_us=60 * SECOND)
    queue.supervisor = begun[0]
    return begun, unordered(claims.take_over(queue.db, queue.supervisor, now=queue.now))


# Comparison


def started(queue: Queue) -> None:
    """Gives the store the same identity in every database."""
    queue.db.execute(update(tables.supervisor).values(store_uuid="the same everywhere"))


def shown(answer: Any) -> str:
    """With types: a Decimal is no int. But with RETURNING whole numbers of SQLite's REAL are integers."""
    return re.sub(r"(?<=\d)\.0(?=[,)\]}])", "", repr(answer))


def act(queue: Queue, chosen: Act, seed: str) -> str:
    """Carries out an operation, with choices that depend on the seed and the rows alone; its answer."""
    rng = Random(seed)
    queue.wait(rng.choice([0, 0, 0.25, 1, 40, 700]))
    attempt = queue.db.core.begin_nested()
    try:
        answer = shown(chosen(queue, rng))
    except (IntegrityError, NoResultFound, ValueError) as error:
        attempt.rollback()
        return type(error).__name__
    attempt.commit()
    return answer


def stored(db: Connection) -> dict[str, list[str]]:
    """Every row of every table."""
    rows = {each.name: db.execute(select(each).order_by(*each.primary_key)) for each in TABLES}
    return {name: list(map(repr, found)) for name, found in rows.items()}


def level(addresses: Mapping[str, Address], queues: Mapping[str, Queue]) -> None:
    """Has all give out the same ids next: they count those of rows that were refused differently."""
    last = {each: dialect_of(addresses[each]).last_ids(queue.db.core) for each, queue in queues.items()}
    for table in TABLES:
        highest = max(ids.get(table.name, 0) for ids in last.values())
        for program, ids in last.items():
            if table.autoincrement_column is not None and ids.get(table.name, 0) != highest:
                advance_sequence = dialect_of(addresses[program]).advance_sequence
                advance_sequence(queues[program].db.core, table.autoincrement_column, highest)


def acts(seed: int, times: int) -> list[tuple[Act, str]]:
    """Operations, and the seeds of their choices."""
    first: list[Act] = [*[change_folders] * 5, *[new_job] * 15, *[claim] * 5]
    chosen = first + Random(seed).choices(list(ACTS), list(ACTS.values()), k=times - len(first))
    return [(each, f"{seed} {number}") for number, each in enumerate(chosen, 1)]


@pytest.fixture
def addresses(tmp_path: Path) -> dict[str, Address]:
    return {program: migrated(program, tmp_path) for program in (*DATABASES, OLDEST)}


def compare(addresses: dict[str, Address], seed: int, times: int, step: int) -> None:
    with ExitStack() as stack:
        queues = {each: stack.enter_context(rolled_back(at)) for each, at in addresses.items()}
        for queue in queues.values():
            started(queue)
        done: list[str] = []
        for chosen, of in acts(seed, times):
            level(addresses, queues)
            answers = {each: act(queue, chosen, of) for each, queue in queues.items()}
            done.append(chosen.__name__)
            assert answers["postgresql"] == answers[OLDEST] == answers["sqlite"], done
            if len(done) % step == 0:
                rows = {each: stored(queue.db) for each, queue in queues.items()}
                assert rows["postgresql"] == rows[OLDEST] == rows["sqlite"], done


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_all_answer_the_same(addresses: dict[str, Address], seed: int) -> None:
    compare(addresses, seed, 300, step=100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, *(pytest.param(seed, marks=pytest.mark.more) for seed in (101, 102))])
def test_all_answer_the_same_for_long(addresses: dict[str, Address], seed: int) -> None:
    compare(addresses, seed, 2000, step=500)
