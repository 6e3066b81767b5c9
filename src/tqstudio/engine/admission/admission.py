"""Decides what to do with a file that is offered: a new job, a job for what changed, or nothing.

| what is known of the file | decision |
|---|---|
| nothing | queued |
| nothing, but the file is that of a job which waits, and was renamed | waiting: the job follows it |
| a complete ladder, same content and settings | cached |
| a complete ladder, other content or settings | changed: a new job, the old ladder plays on |
| a ladder that is no longer what was published | changed: the same, and what is sound of it goes on |
| a failed or cancelled job | retried, if that is allowed; always where it only missed its file |
| a job that waits | waiting: it takes over the profile, priority and hold that were asked for by name |
| a job that runs | waiting: it takes over metadata alone; rejected where it cannot be what was asked for |
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
from tqstudio.engine.admission import existing_job as wishes
from tqstudio.engine.admission import full_check
from tqstudio.engine.admission.change_detection import (
    Certainty,
    SourceState,
    has_left,
    is_current,
    is_same_place,
    look_at,
)
from tqstudio.engine.admission.existing_job import Wishes
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
"""What a drop folder says of its jobs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """How the jobs of the offered files are to be made."""

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
    """Which of profile, priority, hold and autorestart were asked for by name: a job that waits takes those
    over."""
    certainty: Certainty = Certainty.SETTLED
    digest: Digest | None = None
    """Of the file, from who offers it."""
    may_read: bool = True
    """Compute a full hash of the file where it is needed, which may take minutes; else raise `NotHashed`."""

    def wishes(self, *, follow_profile: bool) -> Wishes:
        """What is asked of a job that the file has already.

        Args:
            follow_profile: the job takes the profile even when nobody named one.
        """
        return Wishes(
            profile=self.profile if follow_profile or "profile" in self.named else None,
            priority=self.priority if "priority" in self.named else None,
            hold="hold" in self.named,
            force=self.force,
            autorestart=self.autorestart if "autorestart" in self.named else None,
            metadata=self.metadata,
        )


class Admission:
    """Takes offers from the API and from drop folders."""

    def __init__(self, home: Home, settings: Settings, db: Database) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._answering: dict[str, asyncio.Task[AddAnswer]] = {}
        self._ending = threading.Event()
        self.on_left: Callable[[bytes], None] = lambda _path: None
        """Told the path that the source of a waiting job had before it was renamed."""

    def end(self) -> None:
        """Give up what is being read: the supervisor ends."""
        self._ending.set()

    async def once(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        """Make an answer; with the same key it is given again, also to who asks while it is being made."""
        task = self._answering.get(key)
        if task is None:
            task = asyncio.create_task(self._answer(f"add:{key}", make))
            self._answering[key] = task
            task.add_done_callback(lambda _: self._answering.pop(key, None))
        # Shielded: a client that hangs up will ask again with its key.
        return await asyncio.shield(task)

    async def _answer(self, key: str, make: Callable[[], Awaitable[AddAnswer]]) -> AddAnswer:
        remembered = await self._db.read(supervisors.stored_answer, key)
        if remembered is not None:
            again: AddAnswer = json.loads(remembered)
            return again
        answer = await make()
        text = json.dumps(answer)
        await self._db.write(lambda db: supervisors.store_answer(db, key, text, now=now_us()))
        return answer

    def profile(self, name: str | None, overrides: Mapping[str, str] | None = None) -> Profile:
        """A profile by name, with some keys set otherwise.

        Raises:
            TqError: BAD_CONFIG for an unknown profile or key, or a wrong value.
        """
        profile = profiles.load(name or self._settings.profile, self._home.profiles)
        return profiles.override(profile, overrides) if overrides else profile

    def output_root(self, given: bytes | None) -> bytes:
        """The output for files that name none; absolute.

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
        """Decide on one file. Never raises for the file's sake: the answer carries the error.

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
        # One file is one video; dots stay, for behind a link they may lead elsewhere.
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
                f"the supervisor ended before it had read {display(path)}",
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
        """The videos whose source was this file when it was looked at last."""
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
        """
        Args:
            left: the video whose source this file was before it was renamed.
            whole: nothing of what is published is damaged, as far as that decides anything.
            broken: renditions of a current ladder that turned out so when every byte was read.
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
                # Who moves a file to another drop folder wants what that one makes of it.
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
            # It failed because the file was not there, and that it is.
            _refresh(db, known.id, found, changed=changed)
            return _retry(db, path, how, known, newest[0], now)
        if current and broken:
            _refresh(db, known.id, found, changed=False)
            kind, again = JobKind.RETRANSCODE, tuple(sorted(broken))
            answer = self._new_job(db, path, how, known.id, kind, "changed", now, requested=again)
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
            # What may have changed between the samples is not what failed.
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
    """Let a job that is not done follow its file to another name; False where there is no such job."""
    newest = jobs.newest_job_of(db, left.id)
    if newest is None or not (newest[1] in OPEN or jobs.failed_source_missing(db, newest[0])):
        return False
    if left.quick_hash is None or left.quick_hash.partition("+")[0] != found.content_id:
        return False
    name, title = display(os.path.basename(path)), _title(path)
    if not videos.rename(db, left, path, name=name, title=title, job=newest[0], now=now, actor=how.actor):
        return False
    slug = _slug(path)
    # Who works on it, or plays it, knows the folder by the slug it has.
    if slug != _slug(left.source) and left.generation is None and newest[1] is not JobStatus.IN_PROGRESS:
        videos.want_slug(db, left.id, left.output_root, slug)
    return True


def _retry(db: Connection, path: bytes, how: Offer, known: videos.VideoRow, job: int, now: int) -> AddResult:
    operations.operate(db, job, Operation.RETRY, now=now, actor=how.actor)
    if how.batch is not None:
        jobs.join_batch(db, job, how.batch)
    # A drop folder takes nothing away from a job that was added by hand.
    wanted = how.wishes(follow_profile=how.folder is None)
    applied = wishes.grant(db, job, wanted, now=now, actor=how.actor)
    answer = _answer(path, "retried", video=known.id, job=job, slug=known.slug)
    return {**answer, "status": _status(db, job), "applied": applied}


def _open_already(
    db: Connection, path: bytes, how: Offer, known: videos.VideoRow, job: int, status: JobStatus, now: int
) -> AddResult:
    """The file has an open job: one that waits takes over what was asked for by name."""
    answer = _answer(path, "waiting", video=known.id, job=job, slug=known.slug)
    wanted = how.wishes(follow_profile=False)
    if status is JobStatus.IN_PROGRESS:
        error = wishes.refusal(db, job, known.name, wanted)
        if error is not None:
            return {**answer, "decision": "rejected", "error": error_view(error), "status": status.value}
        return {**answer, "status": status.value, "applied": wishes.note(db, job, wanted)}
    applied = wishes.grant(db, job, wanted, now=now, actor=how.actor)
    return {**answer, "status": _status(db, job), "applied": applied}


def _status(db: Connection, job: int | None) -> str | None:
    facts = job_facts(db, job) if job is not None else None
    return facts.status.value if facts else None


def new_batch() -> str:
    """A name for the jobs that are asked for together."""
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
    """A folder name from a file name: letters of any script, digits and dashes; may be empty."""
    text = unicodedata.normalize("NFKC", _stem(path).replace("�", "")).lower()
    slug = re.sub(r"[^\w]+", "-", text, flags=re.UNICODE).strip("-_")
    # Bytes bound a file name, not characters.
    while len(slug.encode()) > MAX_SLUG:
        slug = slug[:-1]
    return slug.strip("-_")
