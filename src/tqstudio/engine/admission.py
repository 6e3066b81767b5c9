"""Decides what to do with a file that is offered: a new job, a job for what changed, or nothing.

| what is known of the file | decision |
|---|---|
| nothing | queued |
| a complete ladder, same content and settings | cached |
| a complete ladder, other content or settings | changed: a new job, the old ladder plays on |
| a failed or cancelled job | retried, if that is allowed |
| an open job | waiting: left alone |
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqstudio.config import Settings
from tqstudio.engine import publishing
from tqstudio.engine.media import profiles
from tqstudio.engine.media import source as sources
from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.fingerprint import quick_hash
from tqstudio.engine.media.profiles import Profile
from tqstudio.engine.scheduling import now_us
from tqstudio.engine.store import generations, jobs, operations, supervisors, videos
from tqstudio.engine.store.connection import Connection
from tqstudio.engine.store.database import Database
from tqstudio.engine.store.generations import GenerationRow
from tqstudio.engine.views import error_view, place_of
from tqstudio.engine.wanted import wanted
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import JobKind, JobStatus, Operation
from tqstudio.schemas import AddAnswer, AddResult
from tqstudio.sources import display, encode

MAX_SLUG = 80


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
    metadata: Mapping[str, Any] = field(default_factory=dict)
    actor: str = "user"


@dataclass(frozen=True, slots=True)
class _Look:
    """What the file system says of a source now."""

    size: int
    mtime_ns: int
    quick_hash: str | None


class Admission:
    """Takes offers from the API and from drop folders."""

    def __init__(self, home: Home, settings: Settings, db: Database) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._answering: dict[str, asyncio.Task[AddAnswer]] = {}

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
        remembered = await self._db.read(supervisors.remembered, key)
        if remembered is not None:
            again: AddAnswer = json.loads(remembered)
            return again
        answer = await make()
        text = json.dumps(answer)
        await self._db.write(lambda db: supervisors.remember(db, key, text, now=now_us()))
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
            return os.path.normpath(given)
        chosen = Path(self._settings.output).expanduser() if self._settings.output else self._home.output
        return os.fsencode(chosen.absolute())

    async def offer(self, path: bytes, how: Offer) -> AddResult:
        """Decide on one file. Never raises for the file's sake: the answer carries the error."""
        try:
            return await self._offer(path, how)
        except TqError as error:
            answer = _answer(path, "rejected")
            answer["error"] = error_view(error)
            return answer

    async def _offer(self, path: bytes, how: Offer) -> AddResult:
        if not path.startswith(b"/"):
            raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is not an absolute path")
        known = await self._db.read(videos.find, path, how.output_root)
        look = await asyncio.to_thread(_look_at, path, known)
        generation = await self._db.read(generations.current, known.id) if known else None
        current = (
            known is not None
            and generation is not None
            and not how.force
            and await asyncio.to_thread(_is_current, known, generation, look, how.profile)
        )
        return await self._db.write(self._decide, path, how, look, current)

    def _decide(self, db: Connection, path: bytes, how: Offer, look: _Look, current: bool) -> AddResult:
        now = now_us()
        known = videos.find(db, path, how.output_root)
        if known is None:
            video = videos.create(
                db,
                videos.NewVideo(
                    source=path,
                    output_root=how.output_root,
                    name=display(os.path.basename(path)),
                    title=_title(path),
                    slug=_slug(path),
                    size=look.size,
                    mtime_ns=look.mtime_ns,
                    quick_hash=look.quick_hash,
                    folder=how.folder,
                ),
                now=now,
            )
            return self._new_job(db, path, how, video, JobKind.NEW, "queued", now)
        changed = look.quick_hash is not None and look.quick_hash != known.quick_hash
        if how.folder is not None and known.folder != how.folder:
            videos.adopt(db, known.id, how.folder)
        generation = generations.current(db, known.id)
        newest = jobs.newest_job_of(db, known.id)
        if newest is not None and newest[1] in (JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.PAUSED):
            if newest[1] is not JobStatus.IN_PROGRESS:
                _refresh(db, known.id, look, changed=changed)
            return _answer(path, "waiting", video=known.id, job=newest[0], slug=known.slug)
        if current and generation is not None:
            _refresh(db, known.id, look, changed=False)
            answer = _answer(
                path, "cached", video=known.id, job=newest[0] if newest else None, slug=known.slug
            )
            answer["master"] = display(os.fsencode(place_of(known).master))
            return answer
        _refresh(db, known.id, look, changed=changed)
        if generation is not None:
            kind = JobKind.RETRANSCODE if how.force and not changed else JobKind.CHANGED
            if newest is None or newest[1] is JobStatus.DONE or changed or how.force:
                return self._new_job(db, path, how, known.id, kind, "changed", now)
        if newest is not None and newest[1] in (JobStatus.FAILED, JobStatus.CANCELLED) and not changed:
            if not how.retry_failed:
                return _answer(path, "failed", video=known.id, job=newest[0], slug=known.slug)
            operations.operate(db, newest[0], Operation.RETRY, now=now, actor=how.actor)
            jobs.adopt(
                db,
                newest[0],
                batch=how.batch,
                profile=how.profile.name,
                profile_json=json.dumps(how.profile.to_json()),
                prefer_gpu=how.profile.prefer_gpu,
            )
            return _answer(path, "retried", video=known.id, job=newest[0], slug=known.slug)
        kind = JobKind.NEW if generation is None else JobKind.CHANGED
        return self._new_job(
            db, path, how, known.id, kind, "queued" if generation is None else "changed", now
        )

    def _new_job(
        self, db: Connection, path: bytes, how: Offer, video: int, kind: JobKind, decision: str, now: int
    ) -> AddResult:
        job = jobs.create(
            db,
            jobs.NewJob(
                video=video,
                profile=how.profile.name,
                profile_json=json.dumps(how.profile.to_json()),
                prefer_gpu=how.profile.prefer_gpu,
                kind=kind,
                priority=how.priority,
                hold=how.hold,
                batch=how.batch,
                max_attempts=self._settings.max_attempts,
                max_crashes=self._settings.max_crashes,
                metadata=how.metadata,
            ),
            now=now,
            actor=how.actor,
        )
        row = videos.get(db, video)
        return _answer(path, decision, video=video, job=job, slug=row.slug if row else None)


def new_batch() -> str:
    """A name for the jobs that are asked for together."""
    return uuid.uuid4().hex[:12]


def _look_at(path: bytes, known: videos.VideoRow | None) -> _Look:
    found = sources.check(path)
    unchanged = known is not None and (known.size, known.mtime_ns) == (found.st_size, found.st_mtime_ns)
    if unchanged and known is not None and known.quick_hash is not None:
        # Equal size and mtime are trusted; hashing 5 MB of each of a million files is not free.
        return _Look(found.st_size, found.st_mtime_ns, None)
    return _Look(found.st_size, found.st_mtime_ns, quick_hash(path))


def _is_current(video: videos.VideoRow, generation: GenerationRow, look: _Look, profile: Profile) -> bool:
    """Whether the published ladder is what this profile makes of this content, and every file is there."""
    if look.quick_hash is not None and look.quick_hash != video.quick_hash:
        return False
    if video.facts is None or video.quick_hash is None:
        return False
    try:
        facts = SourceFacts.from_json(video.facts)
    except (KeyError, TypeError, ValueError):
        return False
    published = {row.name: row.settings_hash for row in generation.renditions}
    keys = wanted(video.quick_hash, profile, facts)
    # What was left out on purpose is not made by itself: only other settings, or a person, ask for it again.
    return (
        published.keys() <= keys.keys()
        and all(key in (published.get(name), generation.omitted.get(name)) for name, key in keys.items())
        and publishing.intact(place_of(video), generation.number, generation.renditions)
    )


def _refresh(db: Connection, video: int, look: _Look, *, changed: bool) -> None:
    videos.set_fingerprint(
        db, video, size=look.size, mtime_ns=look.mtime_ns, quick_hash=look.quick_hash, changed=changed
    )


def _answer(
    path: bytes, decision: str, *, video: int | None = None, job: int | None = None, slug: str | None = None
) -> AddResult:
    return {
        "path": display(path),
        "path_b64": encode(path),
        "decision": decision,
        "video": video,
        "job": job,
        "slug": slug,
        "master": None,
        "error": None,
    }


def _stem(path: bytes) -> str:
    return os.path.splitext(os.path.basename(path))[0].decode("utf-8", "replace")


def _title(path: bytes) -> str:
    stem = re.sub(r"[_\s]+", " ", _stem(path)).strip()
    return "".join(c for c in stem if c.isprintable()) or "untitled"


def _slug(path: bytes) -> str:
    """A folder name from a file name: letters of any script, digits and dashes; may be empty."""
    text = unicodedata.normalize("NFKC", _stem(path).replace("�", "")).lower()
    slug = re.sub(r"[^\w]+", "-", text, flags=re.UNICODE).strip("-_")
    # Bytes bound a file name, not characters.
    while len(slug.encode()) > MAX_SLUG:
        slug = slug[:-1]
    return slug.strip("-_")
