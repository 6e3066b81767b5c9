"""Decides what to do with an added file: a new job, a job for what changed, or nothing.

| what is known of the file | decision |
|---|---|
| nothing | queued |
| nothing, but it is the renamed file of a waiting job | waiting: the job follows it |
| a complete ladder, same content and settings | cached |
| a complete ladder, other content or settings | changed: a new job, the old ladder stays playable |
| a published ladder that is damaged | changed: a new job, which keeps what is intact |
| a failed or cancelled job | retried, if allowed; always if it only missed its file |
| a waiting job | waiting: explicitly given profile, priority and hold are applied to it |
| a running job | waiting: only metadata is applied; rejected if it would have to change otherwise |
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqstudio.config import Settings
from tqstudio.engine import outputs
from tqstudio.engine.admission import existing_job, full_check
from tqstudio.engine.admission.change_detection import (
    Certainty,
    SourceState,
    has_left,
    is_current,
    is_same_place,
    look_at,
)
from tqstudio.engine.admission.existing_job import JobChanges
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.fingerprint import Digest, Stopped
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs, operations
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import folders, generations, videos
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import NO_AUTORESTART, OPEN, AutorestartRule, JobKind, JobStatus, Operation
from tqstudio.paths import data, display, encode, normal, readable
from tqstudio.protocol.answers import AddAnswer, AddResult, error_view

MAX_SLUG = 80
_OF_FOLDER = frozenset(("profile", "priority", "autorestart"))
"""The options that a drop folder sets for its jobs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The options for the jobs of added files."""

    profile: Profile
    output_root: bytes
    priority: int = 0
    hold: bool = False
    force: bool = False
    retry_failed: bool = True
    batch: str | None = None
    folder: int | None = None
    autorestart: AutorestartRule = NO_AUTORESTART
    metadata: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    actor: str = "user"
    named: frozenset[str] = frozenset()
    """Which of profile, priority, hold and autorestart were given explicitly; they apply to a waiting job."""
    certainty: Certainty = Certainty.SETTLED
    digest: Digest | None = None
    """The file's digest, if the caller has computed it."""
    may_read: bool = True
    """Compute a full hash of the file if needed, which may take minutes; otherwise raise `NotHashed`."""

    def changes(self, *, follow_profile: bool) -> JobChanges:
        """The changes to an existing job of the file.

        Args:
            follow_profile: change the profile even if it was not given explicitly.
        """
        return JobChanges(
            profile=self.profile if follow_profile or "profile" in self.named else None,
            priority=self.priority if "priority" in self.named else None,
            hold="hold" in self.named,
            force=self.force,
            autorestart=self.autorestart if "autorestart" in self.named else None,
            metadata=self.metadata,
        )


class Admission:
    """Admits files from the API and from drop folders."""

    def __init__(self, home: Home, settings: Settings, db: Database) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._answering: dict[str, asyncio.Task[AddAnswer]] = {}
        self._ending = threading.Event()
        self.on_left: Callable[[bytes], None] = lambda _path: None
        """Called with the previous path of a waiting job's source that was renamed."""

    def end(self) -> None:
        """Stop reading files, at shutdown."""
        self._ending.set()

    async def once(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        """Make an answer, or return the one made earlier, or being made, for the same idempotency key."""
        task = self._answering.get(key)
        if task is None:
            task = asyncio.create_task(self._answer(f"add:{key}", make))
            self._answering[key] = task
            task.add_done_callback(lambda _: self._answering.pop(key, None))
        # Shielded: a client that disconnects will ask again with its key.
        return await asyncio.shield(task)

    async def _answer(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        remembered = await self._db.read(supervisors.stored_answer, key)
        if remembered is not None:
            previous: AddAnswer = json.loads(remembered)
            return previous
        answer = await make()
        text = json.dumps(answer)
        await self._db.write(lambda db: supervisors.store_answer(db, key, text, now=now_us()))
        return answer

    def profile(self, name: str | None, overrides: Mapping[str, str] | None = None) -> Profile:
        """Load a profile by name, with some keys overridden.

        Raises:
            TqError: BAD_CONFIG for an unknown profile or key, or a wrong value.
        """
        profile = profiles.load(name or self._settings.profile, self._home.profiles)
        return profiles.override(profile, overrides) if overrides else profile

    def output_root(self, given: bytes | None) -> bytes:
        """The absolute path of an output folder, by default that of the settings or the home.

        Raises:
            TqError: BAD_REQUEST for a relative path.
        """
        if given is not None:
            if not given.startswith(b"/"):
                raise TqError(ErrorCode.BAD_REQUEST, "the output folder must be an absolute path")
            root = normal(given)
        else:
            chosen = Path(self._settings.output).expanduser() if self._settings.output else self._home.output
            root = normal(os.fsencode(chosen.absolute()))
        logging_setup.know(root)
        return root

    async def offer(self, path: bytes, how: Offer) -> AddResult:
        """Decide on one file. Errors about the file are in the answer.

        Raises:
            NotHashed: as of `look_at`.
        """
        try:
            return await self._offer(path, how)
        except TqError as error:
            answer = _answer(path, "rejected")
            answer["error"] = error_view(error)
            return answer

    async def _offer(self, path: bytes, how: Offer) -> AddResult:
        if not path.startswith(b"/"):
            raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is not an absolute path")
        # One file is one video. `..` is kept: after a link it may lead elsewhere.
        path = re.sub(rb"//+", b"/", path)
        known = await self._db.read(videos.find, path, how.output_root)
        try:
            found = await asyncio.to_thread(
                look_at,
                path,
                known,
                how.certainty,
                digest=how.digest,
                may_read=how.may_read,
                stop=self._ending.is_set,
            )
        except Stopped:
            raise TqError(
                ErrorCode.REFUSED,
                f"the supervisor shut down before it had read {display(path)}",
                "add the file again",
            ) from None
        generation = await self._db.read(generations.current, known.id) if known else None
        current = (
            known is not None
            and generation is not None
            and not how.force
            and await asyncio.to_thread(is_current, known, generation, found, how.profile)
        )
        broken: frozenset[str] = frozenset()
        if known is not None and current and how.certainty is Certainty.WHOLE:
            broken = await full_check.broken(place_of(known).master)
        whole = (
            current
            or known is None
            or generation is None
            or how.force
            or found.shows_change(known)
            or await asyncio.to_thread(
                outputs.intact, place_of(known), generation.number, generation.renditions
            )
        )
        left: videos.VideoRow | None = None
        for other in await self._named_otherwise(found, how.output_root) if known is None else ():
            if await asyncio.to_thread(is_same_place, other.source, path):
                return await self._offer(other.source, how)
            if await asyncio.to_thread(has_left, other.source, found.inode):
                left = other
        answer = await self._db.write(self._decide, path, how, found, current, whole, broken, left)
        if left is not None:
            self.on_left(left.source)
        return answer

    async def _named_otherwise(self, found: SourceState, output_root: bytes) -> list[videos.VideoRow]:
        """The videos whose source was this file when it was last checked."""
        at = {"inode": found.inode, "size": found.size, "mtime_ns": found.mtime_ns}
        return await self._db.read(videos.with_inode, output_root, **at)

    def _decide(
        self,
        db: Connection,
        path: bytes,
        how: Offer,
        found: SourceState,
        current: bool,
        whole: bool,
        broken: frozenset[str],
        left: videos.VideoRow | None,
    ) -> AddResult:
        """Decide on one file, in one transaction.

        Args:
            current: the published ladder fits the file and the profile.
            whole: nothing published is damaged; only checked where it matters.
            broken: damaged renditions of a current ladder, found by reading every byte.
            left: the video whose source this file was before it was renamed.
        """
        now = now_us()
        if how.folder is not None and not folders.exists(db, how.folder):
            raise TqError(ErrorCode.NOT_FOUND, "its drop folder was removed before the file could be queued")
        known = videos.find(db, path, how.output_root)
        if known is None and left is not None and _follow(db, left, path, found, how, now):
            known = videos.find(db, path, how.output_root)
            found = replace(found, content_id=None)
            newest = jobs.newest_job_of(db, left.id)
            if how.folder not in (None, left.folder) and newest and newest[1] is not JobStatus.IN_PROGRESS:
                # A file that was moved to another drop folder gets that folder's options.
                how = replace(how, named=how.named | _OF_FOLDER)
        if known is None:
            video = videos.create(
                db,
                videos.NewVideo(
                    source=path,
                    output_root=how.output_root,
                    name=display(os.path.basename(path)),
                    title=_title(path),
                    slug=_slug(path),
                    size=found.size,
                    mtime_ns=found.mtime_ns,
                    quick_hash=found.content_id,
                    folder=how.folder,
                    inode=found.inode,
                ),
                now=now,
            )
            return self._new_job(db, path, how, video, JobKind.NEW, "queued", now)
        changed = found.shows_change(known)
        if how.folder is not None and known.folder != how.folder:
            videos.adopt(db, known.id, how.folder)
        generation = generations.current(db, known.id)
        newest = jobs.newest_job_of(db, known.id)
        if newest is not None and newest[1] in OPEN:
            if newest[1] is not JobStatus.IN_PROGRESS:
                _refresh(db, known.id, found, changed=changed)
            return _open_already(db, path, how, known, *newest, now)
        if newest is not None and not (changed and generation) and jobs.failed_source_missing(db, newest[0]):
            # It failed because the file was missing, which it no longer is.
            _refresh(db, known.id, found, changed=changed)
            return _retry(db, path, how, known, newest[0], now)
        if current and broken:
            _refresh(db, known.id, found, changed=False)
            kind, damaged = JobKind.RETRANSCODE, tuple(sorted(broken))
            answer = self._new_job(db, path, how, known.id, kind, "changed", now, requested=damaged)
            return {**answer, "reason": "ladder"}
        if current and generation is not None:
            _refresh(db, known.id, found, changed=False)
            job = jobs.creator_of(db, known.id)
            answer = _answer(path, "cached", video=known.id, job=job, slug=known.slug)
            master = place_of(known).master
            return {**answer, "master": data(master), "master_b64": encode(master)}
        _refresh(db, known.id, found, changed=changed)
        reason = "source" if changed else "asked" if how.force else "settings" if whole else "ladder"
        if generation is not None:
            kind = JobKind.RETRANSCODE if how.force and not changed else JobKind.CHANGED
            if newest is None or newest[1] is JobStatus.DONE or changed or how.force:
                answer = self._new_job(db, path, how, known.id, kind, "changed", now)
                return {**answer, "reason": reason}
        if newest is not None and newest[1] in (JobStatus.FAILED, JobStatus.CANCELLED) and not changed:
            # If the file may have changed between the samples, it is not the one that failed.
            if not how.retry_failed and found.is_certain:
                return _answer(path, "failed", video=known.id, job=newest[0], slug=known.slug)
            return _retry(db, path, how, known, newest[0], now)
        if generation is None:
            return self._new_job(db, path, how, known.id, JobKind.NEW, "queued", now)
        return {
            **self._new_job(db, path, how, known.id, JobKind.CHANGED, "changed", now),
            "reason": reason,
        }

    def _new_job(
        self,
        db: Connection,
        path: bytes,
        how: Offer,
        video: int,
        kind: JobKind,
        decision: str,
        now: int,
        *,
        requested: tuple[str, ...] | None = None,
    ) -> AddResult:
        job = jobs.create(
            db,
            jobs.NewJob(
                video=video,
                profile=how.profile.name,
                profile_json=json.dumps(how.profile.to_json()),
                prefer_gpu=how.profile.prefer_gpu,
                kind=kind,
                requested=requested,
                priority=how.priority,
                hold=how.hold,
                batch=how.batch,
                max_attempts=self._settings.max_attempts,
                max_crashes=self._settings.max_crashes,
                autorestart=how.autorestart,
                metadata=how.metadata,
                idempotency_key=how.idempotency_key,
            ),
            now=now,
            actor=how.actor,
        )
        row = videos.get(db, video)
        answer = _answer(path, decision, video=video, job=job, slug=row.slug if row else None)
        other = jobs.open_job_elsewhere(db, path, how.output_root)
        return {**answer, "status": _status(db, job), "other_job": other}


def _follow(
    db: Connection, left: videos.VideoRow, path: bytes, found: SourceState, how: Offer, now: int
) -> bool:
    """Point an unfinished job to the new name of its file; False if there is no such job."""
    newest = jobs.newest_job_of(db, left.id)
    if newest is None or not (newest[1] in OPEN or jobs.failed_source_missing(db, newest[0])):
        return False
    if left.quick_hash is None or left.quick_hash.partition("+")[0] != found.content_id:
        return False
    name, title = display(os.path.basename(path)), _title(path)
    if not videos.rename(db, left, path, name=name, title=title, job=newest[0], now=now, actor=how.actor):
        return False
    slug = _slug(path)
    # Workers and players use the folder by its present slug.
    if slug != _slug(left.source) and left.generation is None and newest[1] is not JobStatus.IN_PROGRESS:
        videos.want_slug(db, left.id, left.output_root, slug)
    return True


def _retry(db: Connection, path: bytes, how: Offer, known: videos.VideoRow, job: int, now: int) -> AddResult:
    operations.operate(db, job, Operation.RETRY, now=now, actor=how.actor)
    if how.batch is not None:
        jobs.join_batch(db, job, how.batch)
    # A drop folder does not override the profile of a job that was added by hand.
    changes = how.changes(follow_profile=how.folder is None)
    applied = existing_job.apply(db, job, changes, now=now, actor=how.actor)
    answer = _answer(path, "retried", video=known.id, job=job, slug=known.slug)
    return {**answer, "status": _status(db, job), "applied": applied}


def _open_already(
    db: Connection, path: bytes, how: Offer, known: videos.VideoRow, job: int, status: JobStatus, now: int
) -> AddResult:
    """Apply explicitly given options to the file's open job."""
    answer = _answer(path, "waiting", video=known.id, job=job, slug=known.slug)
    changes = how.changes(follow_profile=False)
    if status is JobStatus.IN_PROGRESS:
        error = existing_job.refusal(db, job, known.name, changes)
        if error is not None:
            return {**answer, "decision": "rejected", "error": error_view(error), "status": status.value}
        applied = existing_job.merge_metadata(db, job, changes)
        return {**answer, "status": status.value, "applied": applied}
    applied = existing_job.apply(db, job, changes, now=now, actor=how.actor)
    return {**answer, "status": _status(db, job), "applied": applied}


def _status(db: Connection, job: int | None) -> str | None:
    facts = job_facts(db, job) if job is not None else None
    return facts.status.value if facts else None


def new_batch() -> str:
    """Create an id for jobs that are added together."""
    return uuid.uuid4().hex[:12]


def _refresh(db: Connection, video: int, found: SourceState, *, changed: bool) -> None:
    videos.set_fingerprint(
        db,
        video,
        size=found.size,
        mtime_ns=found.mtime_ns,
        quick_hash=found.content_id,
        full_hash=found.full_hash,
        inode=found.inode,
        changed=changed,
    )


def _answer(
    path: bytes, decision: str, *, video: int | None = None, job: int | None = None, slug: str | None = None
) -> AddResult:
    return {
        "path": data(path),
        "path_b64": encode(path),
        "decision": decision,
        "video": video,
        "job": job,
        "slug": slug,
        "master": None,
        "master_b64": None,
        "reason": None,
        "status": None,
        "applied": {},
        "other_job": None,
        "error": None,
    }


def _stem(path: bytes) -> str:
    return os.path.splitext(os.path.basename(path))[0].decode("utf-8", "replace")


def _title(path: bytes) -> str:
    stem = re.sub(r"[_\s]+", " ", _stem(path)).strip()
    return "".join(c for c in stem if readable(c) == c) or "untitled"


def _slug(path: bytes) -> str:
    """Derive a folder name from a file name: letters of any script, digits and dashes; may be empty."""
    text = unicodedata.normalize("NFKC", _stem(path).replace("�", "")).lower()
    slug = re.sub(r"[^\w]+", "-", text, flags=re.UNICODE).strip("-_")
    # The limit of a file name is in bytes.
    while len(slug.encode()) > MAX_SLUG:
        slug = slug[:-1]
    return slug.strip("-_")
