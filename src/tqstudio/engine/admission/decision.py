"""Decides in one transaction what to do with an offered file: a new job, a job for what changed, or nothing.

| what is known of the file | decision |
|---|---|
| nothing | queued |
| nothing, but it is the renamed file of a waiting job | waiting: the job follows it |
| nothing, but it is the renamed file of a published ladder | as that of the ladder, which follows it |
| a complete ladder, same content and settings | cached |
| a complete ladder, other content or settings | changed: a new job, the old ladder stays playable |
| a published ladder that is damaged | changed: a new job, which keeps what is intact |
| a failed or cancelled job | retried, if allowed; always if it only missed its file |
| a waiting job | waiting: explicitly given profile, priority and hold are applied to it |
| a running job | waiting: only metadata is applied; rejected if it would have to change otherwise |
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial

from tqstudio.config import Settings
from tqstudio.engine.admission import change_words, existing_job, output_template
from tqstudio.engine.admission.change_detection import SourceState
from tqstudio.engine.admission.offer import Offer, OfferedFile
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs, operations
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import deletions, folders, generations, videos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import is_whole_file
from tqstudio.lifecycle import OPEN, JobKind, JobStatus, Operation
from tqstudio.paths import data, display, encode, readable
from tqstudio.protocol.answers import AddResult, ChangeView
from tqstudio.source_files import film_name

_OF_FOLDER = frozenset(("profile", "priority", "autorestart", "max_attempts", "max_crashes"))
"""The options that a drop folder sets for its jobs."""


class Outdated(Exception):
    """The video that a file had left has changed since; the file has to be looked at again."""


def decide(db: Connection, file: OfferedFile, settings: Settings) -> AddResult:
    """Decide on one file.

    Raises:
        Outdated: as that says.
        TqError: NOT_FOUND if its drop folder was removed.
        RunningJob: its job runs and would have to change.
    """
    path, offer, found, now = file.path, file.offer, file.found, now_us()
    if offer.folder is not None and not folders.exists(db, offer.folder):
        raise TqError(ErrorCode.NOT_FOUND, "its drop folder was removed before the file could be queued")
    known = videos.find(db, path, offer.output_root)
    if known is None and file.left is not None and _follow(db, file.left, path, offer, now):
        known = videos.find(db, path, offer.output_root)
        newest = jobs.newest_job_of(db, file.left.id)
        if offer.folder not in (None, file.left.folder) and newest and newest[1] is not JobStatus.IN_PROGRESS:
            # A file that was moved to another drop folder gets that folder's options.
            offer = replace(offer, named=offer.named | _OF_FOLDER)
    elif file.left is not None:
        raise Outdated
    if known is not None and known.deleted_at is not None:
        deletions.restore(db, known.id, now=now, actor=offer.actor)
    new_job = partial(_new_job, db, path, offer, settings, now)
    if known is None:
        return new_job(_new_video(db, file, now), JobKind.NEW, "queued")
    changed = found.shows_change(known)
    if offer.folder is not None and known.folder != offer.folder:
        videos.adopt(db, known.id, offer.folder)
    generation = generations.current(db, known.id)
    newest = jobs.newest_job_of(db, known.id)
    if newest is not None and newest[1] in OPEN:
        if newest[1] is not JobStatus.IN_PROGRESS:
            _refresh(db, known.id, found, changed=changed)
        return _open_already(db, path, offer, known, *newest, now)
    if newest is not None and not (changed and generation) and jobs.failed_source_missing(db, newest[0]):
        # It failed because the file was missing, which it no longer is.
        _refresh(db, known.id, found, changed=changed)
        return _retry(db, path, offer, known, newest[0], now)
    if file.current and file.broken:
        _refresh(db, known.id, found, changed=False)
        damaged = tuple(sorted(name for name in file.broken if not is_whole_file(name)))
        if not damaged:
            # Files are made of what is kept.
            return new_job(known.id, JobKind.CHANGED, "changed", "ladder", changes=change_words.of_ladder())
        return new_job(known.id, JobKind.RETRANSCODE, "changed", "ladder", requested=damaged)
    if file.current and generation is not None:
        _refresh(db, known.id, found, changed=False)
        job = jobs.creator_of(db, known.id)
        answer = result(path, "cached", video=known.id, job=job, slug=known.slug)
        master = place_of(known).master
        return {**answer, "master": data(master), "master_b64": encode(master)}
    _refresh(db, known.id, found, changed=changed)
    reason = "source" if changed else "forced" if offer.force else "settings" if file.whole else "ladder"
    what = partial(_changes, db, known, file, reason)
    if generation is not None:
        kind = JobKind.RETRANSCODE if offer.force and not changed else JobKind.CHANGED
        if newest is None or newest[1] is JobStatus.DONE or changed or offer.force:
            return new_job(known.id, kind, "changed", reason, changes=what())
    if newest is not None and newest[1] in (JobStatus.FAILED, JobStatus.CANCELLED) and not changed:
        # If the file may have changed between the samples, it is not the one that failed.
        if not offer.retry_failed and found.is_certain:
            return result(path, "failed", video=known.id, job=newest[0], slug=known.slug)
        return _retry(db, path, offer, known, newest[0], now)
    if generation is None:
        return new_job(known.id, JobKind.NEW, "queued")
    return new_job(known.id, JobKind.CHANGED, "changed", reason, changes=what())


def _new_video(db: Connection, file: OfferedFile, now: int) -> int:
    path, offer, found = file.path, file.offer, file.found
    new = videos.NewVideo(
        source=path,
        output_root=offer.output_root,
        name=display(film_name(path, offer.base)),
        title=_title(path, offer.base),
        slug=_slug(path, offer),
        size=found.size,
        mtime_ns=found.mtime_ns,
        quick_hash=found.content_id,
        folder=offer.folder,
        inode=found.inode,
    )
    return videos.create(db, new, now=now)


def _changes(db: Connection, known: videos.VideoRow, file: OfferedFile, reason: str) -> list[ChangeView]:
    """What changed since the ladder of a video was encoded."""
    if reason == "source":
        return change_words.of_source(known, file.found)
    if reason == "ladder":
        return change_words.of_ladder()
    creator = jobs.creator_of(db, known.id)
    if reason == "forced" or creator is None:
        return []
    return change_words.of_settings(jobs.spec_of(db, creator).profile_json, file.offer.profile)


def _new_job(
    db: Connection,
    path: bytes,
    offer: Offer,
    settings: Settings,
    now: int,
    video: int,
    kind: JobKind,
    decision: str,
    reason: str | None = None,
    *,
    requested: tuple[str, ...] | None = None,
    changes: Sequence[ChangeView] = (),
) -> AddResult:
    new = jobs.NewJob(
        video=video,
        profile=offer.profile.name,
        profile_json=_as_json(offer.profile),
        prefer_gpu=offer.profile.prefer_gpu,
        kind=kind,
        requested=requested,
        priority=offer.priority,
        hold=offer.hold,
        batch=offer.batch,
        max_attempts=offer.max_attempts or settings.max_attempts,
        max_crashes=offer.max_crashes or settings.max_crashes,
        autorestart=offer.autorestart,
        metadata=offer.metadata,
        idempotency_key=offer.idempotency_key,
        from_folder=offer.folder is not None,
        owner=offer.owner,
        changes=changes,
    )
    job = jobs.create(db, new, now=now, actor=offer.actor)
    row = videos.get(db, video)
    answer = result(path, decision, video=video, job=job, slug=row.slug if row else None)
    other = jobs.open_job_elsewhere(db, path, offer.output_root)
    return {**answer, "reason": reason, "status": new.status.value if job else None, "other_job": other}


@lru_cache(maxsize=8)
def _as_json(profile: Profile) -> str:
    return json.dumps(profile.to_json())


def _follow(db: Connection, left: videos.VideoRow, path: bytes, offer: Offer, now: int) -> bool:
    """Point a video to the new name of its file; False if it changed meanwhile."""
    # None if it was removed from the list; the ladder is there all the same.
    newest = jobs.newest_job_of(db, left.id)
    job = newest[0] if newest else None
    name, title = display(film_name(path, offer.base)), _title(path, offer.base)
    if not videos.rename(db, left, path, name=name, title=title, job=job, now=now, actor=offer.actor):
        return False
    slug = _slug(path, offer)
    # Workers and players use the folder by its present slug.
    if (
        slug != _slug(left.source, offer)
        and left.generation is None
        and (newest is None or newest[1] is not JobStatus.IN_PROGRESS)
    ):
        videos.want_slug(db, left.id, left.output_root, slug)
    return True


def _retry(
    db: Connection, path: bytes, offer: Offer, known: videos.VideoRow, job: int, now: int
) -> AddResult:
    operations.operate(db, job, Operation.RETRY, now=now, actor=offer.actor)
    if offer.batch is not None:
        jobs.join_batch(db, job, offer.batch)
    if offer.folder is None:
        # A drop folder does not override the profile of a job that was added by hand.
        offer = replace(offer, named=offer.named | {"profile"})
    applied = existing_job.apply(db, job, offer, now=now)
    answer = result(path, "retried", video=known.id, job=job, slug=known.slug)
    return {**answer, "status": _status(db, job), "applied": applied}


def _open_already(
    db: Connection, path: bytes, offer: Offer, known: videos.VideoRow, job: int, status: JobStatus, now: int
) -> AddResult:
    """Apply explicitly given options to the file's open job."""
    answer = result(path, "waiting", video=known.id, job=job, slug=known.slug)
    if status is JobStatus.IN_PROGRESS:
        existing_job.require_unchanged(db, job, known.name, offer)
        applied = existing_job.merge_metadata(db, job, offer)
        return {**answer, "status": status.value, "applied": applied}
    applied = existing_job.apply(db, job, offer, now=now)
    return {**answer, "status": _status(db, job), "applied": applied}


def _status(db: Connection, job: int) -> str | None:
    facts = job_facts(db, job)
    return facts.status.value if facts else None


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


def result(
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


def _title(path: bytes, base: bytes | None = None) -> str:
    stem = os.path.splitext(film_name(path, base))[0].decode("utf-8", "replace")
    stem = re.sub(r"[_\s]+", " ", stem).strip()
    return "".join(c for c in stem if readable(c) == c) or "untitled"


def _slug(path: bytes, offer: Offer) -> str:
    return output_template.fill(offer.template, path, offer.base, datetime.now().date())
