"""Applies a repeated `add` to the file's existing job: another profile, priority, hold and so on.

Only explicitly given options count; the defaults of a command do not change a job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import autorestart, jobs, operations
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import AutorestartRule, Effect, Operation


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Requested changes of a job; None and False change nothing."""

    profile: Profile | None = None
    priority: int | None = None
    hold: bool = False
    force: bool = False
    """Encode everything, not only what differs."""
    autorestart: AutorestartRule | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def apply(db: Connection, job: int, changes: JobChanges, *, now: int, actor: str) -> dict[str, Any]:
    """Change a waiting job; return the values that were different before, by name."""
    applied: dict[str, Any] = {}
    spec = jobs.spec_of(db, job)
    if changes.profile is not None and not is_same(changes.profile, spec.profile_json):
        set_profile(db, job, changes.profile, now=now, actor=actor)
        applied["profile"] = changes.profile.name
    if changes.priority is not None and changes.priority != spec.priority:
        operations.set_priority(db, job, value=changes.priority, delta=None, now=now, actor=actor)
        applied["priority"] = changes.priority
    if changes.force and jobs.encode_all(db, job, now=now, actor=actor):
        applied["force"] = True
    if changes.autorestart is not None and autorestart.set_rule(db, job, changes.autorestart):
        applied["autorestart"] = changes.autorestart.limit
    applied |= merge_metadata(db, job, changes)
    if changes.hold:
        held = operations.operate(db, job, Operation.PAUSE, now=now, actor=actor)
        if held is not None and held.decision.effect is Effect.NOW:
            applied["hold"] = True
    return applied


def merge_metadata(db: Connection, job: int, changes: JobChanges) -> dict[str, Any]:
    """Merge metadata into that of a job, which may be running.

    Raises:
        TqError: BAD_REQUEST when the merged metadata is too large.
    """
    if not changes.metadata:
        return {}
    before = jobs.metadata_of(db, job)
    if before | dict(changes.metadata) == before:
        return {}
    require_small("metadata", before | dict(changes.metadata))
    jobs.set_metadata(db, job, before | dict(changes.metadata))
    return {"metadata": dict(changes.metadata)}


class RunningJob(TqError):
    """The running job of an offered file cannot be changed as requested."""

    def __init__(self, job: int, message: str, hint: str) -> None:
        super().__init__(ErrorCode.REFUSED, message, hint)
        self.job = job


def require_unchanged(db: Connection, job: int, name: str, changes: JobChanges) -> None:
    """Check that a running job need not change; a new priority is ignored, because it has no effect on it.

    Args:
        name: the name of the file.

    Raises:
        RunningJob: it would have to.
    """
    spec = jobs.spec_of(db, job)
    if changes.profile is not None and not is_same(changes.profile, spec.profile_json):
        if changes.profile.name == spec.profile:
            running, again = f"other settings of {spec.profile}", f"add it again when job {job} is done"
        else:
            running = f"the profile {spec.profile}"
            again = (
                f"when it is done: tqstudio job retranscode {job} --profile {changes.profile.name};"
                f" or end it now with: tqstudio job cancel {job}, and add it again"
            )
        raise RunningJob(job, f"job {job} is encoding {name} with {running}", again)
    if changes.force and not spec.encodes_all:
        raise RunningJob(
            job,
            f"job {job} is encoding only a part of {name}",
            f"when it is done: tqstudio job retranscode {job}",
        )
    if changes.hold:
        raise RunningJob(
            job,
            f"job {job} is encoding {name}; only a waiting job can be held",
            f"pause it with: tqstudio job pause {job}",
        )


def set_profile(db: Connection, job: int, profile: Profile, *, now: int, actor: str) -> None:
    jobs.set_profile(
        db,
        job,
        profile=profile.name,
        profile_json=json.dumps(profile.to_json()),
        prefer_gpu=profile.prefer_gpu,
        now=now,
        actor=actor,
    )


def is_same(profile: Profile, profile_json: str) -> bool:
    """Whether a job's recorded profile equals this one, apart from the description."""
    try:
        recorded = Profile.from_json(json.loads(profile_json))
    except (KeyError, TypeError):
        return False  # another version wrote it
    return replace(recorded, description="") == replace(profile, description="")
