"""What a file that is offered again asks of the job it has already: another profile, priority, or to be held.

Only what was asked for by name counts: the defaults of a command take nothing away from a job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import autorestart, jobs, operations
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import AutorestartRule, Effect, Operation


@dataclass(frozen=True, slots=True)
class Wishes:
    """None and False are no wish."""

    profile: Profile | None = None
    priority: int | None = None
    hold: bool = False
    force: bool = False
    """Make everything, not only what differs."""
    autorestart: AutorestartRule | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def grant(db: Connection, job: int, wishes: Wishes, *, now: int, actor: str) -> dict[str, Any]:
    """Let a job that waits take over the wishes; answers those that changed it, by name."""
    applied: dict[str, Any] = {}
    spec = jobs.spec_of(db, job)
    if wishes.profile is not None and not is_same(wishes.profile, spec.profile_json):
        set_profile(db, job, wishes.profile, now=now, actor=actor)
        applied["profile"] = wishes.profile.name
    if wishes.priority is not None and wishes.priority != spec.priority:
        operations.set_priority(db, job, value=wishes.priority, delta=None, now=now, actor=actor)
        applied["priority"] = wishes.priority
    if wishes.force and jobs.encode_all(db, job, now=now, actor=actor):
        applied["force"] = True
    if wishes.autorestart is not None and autorestart.set_rule(db, job, wishes.autorestart):
        applied["autorestart"] = wishes.autorestart.limit
    applied |= note(db, job, wishes)
    if wishes.hold:
        held = operations.operate(db, job, Operation.PAUSE, now=now, actor=actor)
        if held is not None and held.decision.effect is Effect.NOW:
            applied["hold"] = True
    return applied


def note(db: Connection, job: int, wishes: Wishes) -> dict[str, Any]:
    """Keep what is to be noted with a job, which may run: nothing that it makes depends on it.

    Raises:
        TqError: BAD_REQUEST when that is too much, together with what is noted already.
    """
    if not wishes.metadata:
        return {}
    before = jobs.metadata_of(db, job)
    if before | dict(wishes.metadata) == before:
        return {}
    require_small("metadata", before | dict(wishes.metadata))
    jobs.set_metadata(db, job, before | dict(wishes.metadata))
    return {"metadata": dict(wishes.metadata)}


def refusal(db: Connection, job: int, name: str, wishes: Wishes) -> TqError | None:
    """Why a job that runs cannot follow the wishes, and what to do; None when it need not change for them.

    Its priority no longer matters: nothing that waits goes before it.

    Args:
        name: of the file.
    """
    spec = jobs.spec_of(db, job)
    if wishes.profile is not None and not is_same(wishes.profile, spec.profile_json):
        if wishes.profile.name == spec.profile:
            running, again = f"other settings of {spec.profile}", f"add it again when job {job} is done"
        else:
            running = f"the profile {spec.profile}"
            again = (
                f"when it is done: tqstudio job retranscode {job} --profile {wishes.profile.name};"
                f" or end it now with: tqstudio job cancel {job}, and add it again"
            )
        return TqError(ErrorCode.REFUSED, f"{name} is being made by job {job} with {running}", again)
    if wishes.force and not spec.encodes_all:
        return TqError(
            ErrorCode.REFUSED,
            f"{name} is being made by job {job}, which makes only a part",
            f"when it is done: tqstudio job retranscode {job}",
        )
    if wishes.hold:
        return TqError(
            ErrorCode.REFUSED,
            f"{name} is being made by job {job}; only what waits can be held",
            f"pause it with: tqstudio job pause {job}",
        )
    return None


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
    """Whether a job's recorded profile makes the same; its description makes nothing."""
    recorded: Mapping[str, Any] = json.loads(profile_json)
    mine = json.loads(json.dumps(profile.to_json()))
    return {**recorded, "description": ""} == {**mine, "description": ""}
