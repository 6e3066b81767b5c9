"""Applies user operations to jobs, each with its own result."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import fields

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.queue import job_settings
from tqstudio.engine.queue.job_settings import Subject
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs, operations, undo
from tqstudio.engine.store.jobs.jobs import JobSpec
from tqstudio.engine.store.jobs.operations import Applied
from tqstudio.engine.store.jobs.transitions import JobFacts
from tqstudio.engine.store.jobs.undo import SLICE
from tqstudio.engine.store.lists.matching import matching
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import (
    UNDOABLE,
    WAITING,
    Control,
    Decision,
    Effect,
    JobStatus,
    Operation,
    Undoable,
    decide,
    job_word,
)
from tqstudio.protocol.answers import ActionResult, BulkAnswer, ErrorView
from tqstudio.protocol.requests import ActionRequest, BulkRequest

Request = ActionRequest | BulkRequest


class Operations:
    """Applies operations as `lifecycle` allows, and passes control requests to running jobs."""

    def __init__(self, db: Database, running_jobs: RunningJobs, retention: Retention) -> None:
        self._db, self._running_jobs, self._retention = db, running_jobs, retention
        self._under_way: dict[str, asyncio.Task[list[ActionResult]]] = {}
        """Running requests by idempotency key: a repeated request gets the same answer."""

    async def apply(
        self, request: ActionRequest, *, actor: str = "user", profile: Profile | None = None
    ) -> list[ActionResult]:
        """Applies the operation to every named job; a refusal does not affect the others.

        Args:
            actor: who asked, for events.
            profile: the profile of a change or a retranscode; None for each job's own.
        """
        key = request.idempotency_key
        if key is None:
            return await self._apply(request, actor, profile)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._apply(request, actor, profile))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _apply(self, request: ActionRequest, actor: str, profile: Profile | None) -> list[ActionResult]:
        results, repeated = await self._db.write(self._apply_all, request, actor, profile)
        if repeated:
            return results
        self._pass_on(results)
        if request.operation is Operation.DELETE:
            lost = await self._retention.jobs_deleted([result["job"] for result in results if result["ok"]])
            for result in results:
                result["removed_segments"] = lost.get(result["job"], 0)
            if request.idempotency_key is not None:
                await self._db.write(
                    supervisors.complete_answer, _key(request.idempotency_key), json.dumps(results)
                )
        return results

    async def apply_to_matching(
        self, request: BulkRequest, query: PageQuery, *, actor: str, profile: Profile | None = None
    ) -> BulkAnswer:
        """Applies the operation to the next jobs of a query that is sorted by number, in one transaction."""
        key = _key(f"{request.idempotency_key}:{request.after}")

        def find(db: Connection) -> list[int]:
            found = matching(db, query).read((request.after,), backwards=False, limit=SLICE)
            return [key[-1] for key in found if key[-1] <= request.newest]

        def apply(db: Connection) -> tuple[BulkAnswer, list[ActionResult]]:
            if (stored := supervisors.stored_answer(db, key)) is not None:
                return json.loads(stored), []
            results = self._change(db, ids, request, actor, profile, bulk=request.idempotency_key)
            answer = _summary(results)
            supervisors.store_answer(db, key, json.dumps(answer), now=now_us())
            return answer, results

        ids = await self._db.search(find)
        answer, results = await self._db.write(apply)
        self._pass_on(results)
        if results and request.operation is Operation.DELETE:
            lost = await self._retention.jobs_deleted([result["job"] for result in results if result["ok"]])
            answer["removed_segments"] = sum(lost.values())
            await self._db.write(supervisors.complete_answer, key, json.dumps(answer))
        return answer

    def _pass_on(self, results: list[ActionResult]) -> None:
        """Passes control requests to running jobs."""
        for result in results:
            if result["ok"] and result["status"] == JobStatus.IN_PROGRESS:
                self._running_jobs.control(result["job"], Control(result["control"]))

    def _apply_all(
        self, db: Connection, request: ActionRequest, actor: str, profile: Profile | None
    ) -> tuple[list[ActionResult], bool]:
        """Returns the results, and whether they are remembered ones of the same request."""
        key = None if request.idempotency_key is None else _key(request.idempotency_key)
        if key is not None and (answer := supervisors.stored_answer(db, key)) is not None:
            return json.loads(answer), True
        results = self._change(db, request.ids, request, actor, profile)
        if key is not None:
            supervisors.store_answer(db, key, json.dumps(results), now=now_us())
        return results, False

    def _change(
        self,
        db: Connection,
        ids: list[int],
        request: Request,
        actor: str,
        profile: Profile | None,
        *,
        bulk: str = "",
    ) -> list[ActionResult]:
        """Applies the operation, and records it so that it can be undone."""
        undoable = request.operation in UNDOABLE
        changes = request.operation is Operation.CHANGE
        before = undo.states(db, ids, settings=changes) if undoable else {}
        results = [self._one(db, job, request, actor, profile) for job in ids]
        if undoable:
            steps = undo.changed(db, before)
            undo.record(db, Undoable(request.operation), steps, actor=actor, now=now_us(), bulk=bulk)
        return results

    def _one(
        self,
        db: Connection,
        job: int,
        request: Request,
        actor: str,
        profile: Profile | None,
    ) -> ActionResult:
        now = now_us()
        if request.operation in (Operation.CHANGE, Operation.RETRANSCODE):
            return self._settle(db, job, request, actor, profile, now)
        if request.operation is Operation.PRIORITY:
            value, delta = request.priority, request.delta
            applied = operations.set_priority(db, job, value=value, delta=delta, now=now, actor=actor)
        else:
            applied = operations.operate(db, job, request.operation, now=now, actor=actor)
        return result_of(job, applied)

    def _settle(
        self,
        db: Connection,
        job: int,
        request: Request,
        actor: str,
        profile: Profile | None,
        now: int,
    ) -> ActionResult:
        """Gives a waiting job other settings, or creates a new job for a done one."""
        subject = job_settings.subject_of(db, job)
        if subject is None:
            return result_of(job, None)
        status = subject.facts.status
        if (reason := job_settings.obstacle(subject, request.operation)) is not None:
            return _refused(job, subject.facts, reason, see=subject.other)
        wanted = job_settings.settle(subject, request, profile)
        if isinstance(wanted, str):
            return _refused(job, subject.facts, wanted)
        if status in WAITING:
            return self._set(db, subject, wanted, request, actor, now)
        values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
        new = jobs.create(
            db,
            jobs.NewJob(
                **values,
                video=subject.facts.video,
                hold=bool(request.hold),
                idempotency_key=request.idempotency_key,
            ),
            now=now,
            actor=actor,
        )
        answer = result_of(job, Applied(decide(status, request.operation), status, subject.facts.control))
        answer["new_job"] = new
        return answer

    def _set(
        self, db: Connection, subject: Subject, wanted: JobSpec, request: Request, actor: str, now: int
    ) -> ActionResult:
        """Changes a waiting job."""
        job, spec = subject.facts.id, subject.spec
        if (spec.profile_json, spec.requested) != (wanted.profile_json, wanted.requested):
            kept = job_settings.kept_renditions(subject, wanted)
            jobs.set_settings(db, job, wanted, keep=kept, now=now, actor=actor)
        applied: Applied | None = Applied(Decision(Effect.NOW), subject.facts.status, Control.NONE)
        if wanted.priority != spec.priority:
            applied = operations.set_priority(
                db, job, value=wanted.priority, delta=None, now=now, actor=actor
            )
        if request.hold is not None:
            operation = Operation.PAUSE if request.hold else Operation.RESUME
            applied = operations.operate(db, job, operation, now=now, actor=actor)
        return result_of(job, applied)


def _summary(results: list[ActionResult]) -> BulkAnswer:
    refused = [result for result in results if not result["ok"]]
    return {
        "after": results[-1]["job"] if len(results) == SLICE else None,
        "done": len(results) - len(refused),
        "skipped": Counter(result["word"] or "gone" for result in refused),
        "reason": next((result["error"]["message"] for result in refused if result["error"]), ""),
        "removed_segments": 0,
    }


def _refused(job: int, facts: JobFacts, reason: str, *, see: int | None = None) -> ActionResult:
    return result_of(job, Applied(Decision(None, reason), facts.status, facts.control), see=see)


def _key(idempotency_key: str) -> str:
    return f"act:{idempotency_key}"


def result_of(job: int, applied: Applied | None, *, see: int | None = None) -> ActionResult:
    """Builds the answer to an operation; `applied` is None if the job does not exist.

    Args:
        see: the job that prevents it, if it is another one.
    """
    if applied is None:
        code = ErrorCode.NOT_FOUND
        return {
            "job": job,
            "ok": False,
            "status": None,
            "control": Control.NONE.value,
            "word": None,
            "new_job": None,
            "removed_segments": 0,
            "error": {
                "code": code.value,
                "message": f"there is no job {job}",
                "hint": "list them with: tqstudio job list",
            },
        }
    error: ErrorView | None = None
    if not applied.decision.allowed:
        error = {
            "code": ErrorCode.REFUSED.value,
            "message": f"job {job} {applied.decision.reason}",
            "hint": f"see its state with: tqstudio job show {see or job}",
        }
    return {
        "job": job,
        "ok": applied.decision.allowed,
        "status": applied.status.value,
        "control": applied.control.value,
        "word": job_word(applied.status, applied.control),
        "new_job": None,
        "removed_segments": 0,
        "error": error,
    }
