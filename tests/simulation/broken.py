"""Engines that are broken on purpose, and the invariant that must catch each of them, alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import bindparam, event, update

from tqstudio.engine import outputs
from tqstudio.engine.gates import volume_monitor
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.media.check import apple
from tqstudio.engine.media.plan.file_names import segment_name
from tqstudio.engine.outputs import publisher, retention
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.queue.recovery import Recovery
from tqstudio.engine.store import events
from tqstudio.engine.store.db.tables import job
from tqstudio.engine.store.dialects import sqlite
from tqstudio.engine.store.jobs import claims, jobs, operations, outcomes, transitions
from tqstudio.engine.store.library import generations
from tqstudio.engine.store.machine import quarantine, supervisors
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import Decision, Effect, JobStatus, Operation, Trigger, sources_of

from .life import _SimulatedDatabase
from .timekeeping import patched

Break = Callable[[], Any]


@contextmanager
def sql(*replacements: tuple[str, str]) -> Iterator[None]:
    """Run other statements: (part of the SQL that the driver gets, with named values; what replaces it)."""
    used, make = set(), sqlite.create_engine

    def replaced(_c: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> tuple[str, Any]:
        statement = " ".join(statement.split())
        for what, instead in replacements:
            if what in statement:
                used.add(what)
                statement = statement.replace(what, instead)
        return statement, values

    def engine(*arguments: Any, **more: Any) -> Any:
        made = make(*arguments, paramstyle="named", **more)
        event.listen(made, "before_cursor_execute", replaced, retval=True)
        return made

    with patched((sqlite, "create_engine", engine)):
        sqlite.engine_of.cache_clear()
        yield
    assert used == {what for what, _ in replacements}, "no such statement was run"


def _assigned(**changed: Any) -> Any:
    """The end of a lease sets other columns; `...` leaves one as it is."""
    real = outcomes.move

    def move(*arguments: Any, **more: Any) -> Any:
        assign = {
            name: changed.get(name, value)
            for name, value in (more.pop("assign", None) or {}).items()
            if changed.get(name) is not ...
        }
        return real(*arguments, **more, assign=assign)

    return patched((outcomes, "move", move))


_HELD = "job.id = :leased AND job.epoch = :lease_epoch AND job.instance = :holder"
_RUNS = "job.id = :leased AND job.status = 'in_progress'"
_READY = "job.status = 'pending' AND job.not_before IS NULL AND job.deleted_at IS NULL"


def a_claim_takes_what_runs() -> Any:
    """Neither the choice nor the claim looks whether the job still waits."""
    return sql(
        (
            f"INDEXED BY ix_job_ready WHERE {_READY}",
            "WHERE job.status IN ('pending', 'in_progress') AND job.deleted_at IS NULL",
        ),
        (f"WHERE job.id = :candidate AND {_READY} RETURNING", "WHERE job.id = :candidate RETURNING"),
    )


def a_claim_passes_a_shut_gate() -> Any:
    return sql((" AND NOT (EXISTS (SELECT gate.kind FROM gate))", ""))


def a_disabled_worker_claims() -> Any:
    return sql(("worker.enabled = :enabled_1 AND worker.draining = :draining_1 AND ", ""))


def an_end_counts_from_anybody() -> Any:
    """Neither complete nor fail nor release looks at epoch, instance and expiry."""
    return _both(
        sql((f"FROM job WHERE {_HELD}", f"FROM job WHERE {_RUNS}")),
        patched((Leases, "is_live", lambda *_: True)),
    )


def an_expired_lease_is_revived() -> Any:
    """A heartbeat does not look whether the lease that it renews has run out."""
    return patched((Leases, "is_live", Leases.knows))


def a_beat_renews_what_it_does_not_name() -> Any:
    """A request of one worker renews the leases of all."""
    real = Leases.heartbeat

    def heartbeat(self: Leases, instance: str, named: Any) -> Any:
        return real(self, instance, [*named, *(held.token for held in self._held.values())])

    return patched((Leases, "heartbeat", heartbeat))


def a_beat_renews_nothing() -> Any:
    """Whoever sends it gets another answer."""

    def heartbeat(self: Leases, _instance: str, named: Any) -> Any:
        return [token for token in named if self.is_live(token)]

    return patched((Leases, "heartbeat", heartbeat))


@contextmanager
def _both(one: Any, other: Any) -> Iterator[None]:
    with one, other:
        yield


_DUE = (
    "(job.not_before <= :not_before_1 OR job.not_before > :not_before_2 AND job.not_before < :not_before_3)"
)


def a_backoff_is_cut_short() -> Any:
    return sql(
        (
            _DUE,
            "TRUE",
        )
    )


def a_report_counts_from_anybody() -> Any:
    """Progress is taken and stored whoever reports it."""
    real = Leases.is_live

    def is_live(self: Leases, token: Any) -> bool:
        held = self._held.get(token.job)
        return real(self, token) or (held is not None and held.token != token)

    return _both(
        sql((f"WHERE {_HELD} RETURNING progress", f"WHERE {_RUNS} RETURNING progress")),
        patched((Leases, "is_live", is_live)),
    )


def a_replaced_generation_stays_current() -> Any:
    return sql(
        ("UPDATE generation SET retired_at=:retired_at WHERE", "UPDATE generation SET retired_at=NULL WHERE")
    )


def a_lost_worker_is_never_counted() -> Any:
    """A file that kills every worker is tried for ever."""
    return _assigned(crashes=...)


def a_lost_answer_takes_another_job() -> Any:
    """A claim that is repeated does not find the lease it made."""
    return patched((claims, "of_instance", lambda *_: []))


def a_change_leaves_no_event() -> Any:
    real = events.append

    def append(db: Any, trigger: str, **more: Any) -> None:
        if trigger != "pause":
            real(db, trigger, **more)

    return patched((events, "append", append))


def an_expired_lease_is_never_taken_back() -> Any:

    async def scan(_: Recovery) -> int:
        return 0

    return patched((Recovery, "scan", scan))


def a_quarantined_worker_claims() -> Any:
    return sql((" AND worker.quarantined_at IS NULL", ""))


def a_draining_worker_claims() -> Any:
    return sql((" AND worker.draining = :draining_1", ""))


def a_claim_takes_what_waits_out_a_backoff() -> Any:
    ready = _READY.replace(" AND job.not_before IS NULL", "")
    return sql(
        (f"INDEXED BY ix_job_ready WHERE {_READY}", f"WHERE {ready}"),
        (f":candidate AND {_READY} RETURNING", f":candidate AND {ready} RETURNING"),
    )


def an_epoch_is_left_out() -> Any:
    return sql(("epoch=(job.epoch + :epoch_1)", "epoch=(job.epoch + 2)"))


def _judged_loss(*, further: bool) -> Any:
    real = outcomes.judge_loss
    progress = {"got_further": further, "had_got_further": further}
    return patched((outcomes, "judge_loss", lambda **facts: real(**{**facts, **progress})))


def a_finished_segment_is_not_seen() -> Any:
    """A job that gets further is poison all the same."""
    return _judged_loss(further=False)


def each_crash_is_the_first() -> Any:
    """A file that kills every worker is never poison."""
    return _judged_loss(further=True)


def segments_at_a_crash_are_not_kept() -> Any:
    """One segment, finished once, excuses every later crash."""
    return _assigned(segments_at_crash=...)


def where_a_crashed_attempt_had_resumed_is_not_kept() -> Any:
    """One attempt that resumed in the middle excuses every later crash."""
    return _assigned(resumed_at_crash_s=...)


def a_last_report_is_forgotten() -> Any:
    return patched((LeaseEnd, "save_last", lambda *_: None))


def a_failure_costs_two_attempts() -> Any:
    real = outcomes.judge_failure

    def judge(*arguments: Any, **facts: Any) -> Any:
        verdict = real(*arguments, **facts)
        return replace(verdict, attempts=min(verdict.attempts * 2, facts["max_attempts"]))

    return patched((outcomes, "judge_failure", judge))


def an_attempt_is_given_back() -> Any:
    """A failure is not counted, as if it were a shortage."""
    return _assigned(attempts=...)


def autorestarts_never_end() -> Any:
    return _both(
        sql((" AND job.restarts < job.autorestart_limit", "")),
        patched((outcomes, "_failed", lambda now, **_: {"completed_at": now})),
    )


def a_control_request_is_forgotten() -> Any:
    """Whoever asked for a pause sees the job continue after its worker stopped."""
    return patched((outcomes, "_ending", lambda db, token, **_: claims.held(db, token)))


def a_control_request_outlives_its_lease() -> Any:
    """Nor does the schema forbid it."""
    return _both(
        patched((transitions, "NO_LEASE", {**transitions.NO_LEASE, "control": job.c.control})),
        _schema("PRAGMA ignore_check_constraints = ON"),
    )


def a_shutdown_sets_jobs_aside() -> Any:
    """What was to continue by itself waits for a user."""
    real = outcomes.move

    def move(db: Any, number: int, trigger: Trigger, **more: Any) -> Any:
        return real(
            db, number, EventKind.PAUSE if more.get("event") == "aborted:shutdown" else trigger, **more
        )

    return patched((outcomes, "move", move))


def _is_requeued(operation: Operation, trigger: Trigger, *ended: JobStatus) -> Any:
    """The lifecycle lets an operation take a job out of an end that it must not leave so."""
    decide = operations.decide

    def decided(status: JobStatus, asked: Operation, *more: Any) -> Decision:
        return (
            Decision(Effect.NOW) if asked is operation and status in ended else decide(status, asked, *more)
        )

    move = update(job).where(
        job.c.id == bindparam("number"),
        job.c.status.in_([*sources_of(trigger), *ended]),
        job.c.deleted_at.is_(None),
    )
    moves = {**transitions._MOVES, trigger: move}
    return _both(patched((operations, "decide", decided)), patched((transitions, "_MOVES", moves)))


def a_done_job_is_retried() -> Any:
    return _is_requeued(Operation.RETRY, EventKind.RETRY, JobStatus.DONE)


def an_ended_job_is_resumed() -> Any:
    return _is_requeued(Operation.RESUME, EventKind.RESUME, JobStatus.FAILED, JobStatus.CANCELLED)


def an_event_names_another_status() -> Any:
    real = events.append

    def append(db: Any, trigger: str, **more: Any) -> None:
        real(db, trigger, **{**more, "target": "paused"} if trigger == "claim" else more)

    return patched((events, "append", append))


def a_job_waits_without_a_reason() -> Any:
    return _assigned(error_code=None)


def a_worker_may_fail_for_ever() -> Any:
    return patched((quarantine, "failed", lambda *_, **__: False))


def one_bad_file_stops_a_worker() -> Any:
    """The same job counts each time that it fails."""
    return sql(
        (
            "failed_jobs=:failed_jobs WHERE worker.id = :id_1 AND",
            "failed_jobs=worker.failed_jobs WHERE worker.id = :id_1 AND",
        )
    )


def a_job_is_done_and_nothing_was_recorded() -> Any:
    return patched((generations, "record", lambda *_, **__: 1))


def a_ladder_lacks_a_segment() -> Any:
    """Removed after the last check before it is named."""
    real = apple.check

    def check(written: Path) -> Any:
        results = real(written)
        numbers = [
            int(folder.name[1:]) for folder in written.parent.glob("v*") if folder.name[1:].isdecimal()
        ]
        next((written.parent / f"v{max(numbers)}").rglob(segment_name(0))).unlink()
        return results

    return patched((apple, "check", check))


def retention_removes_what_plays() -> Any:
    blind = SimpleNamespace(named=lambda _place: None, remove=outputs.remove)
    return _both(
        sql(
            (" AND generation.id IS NOT video.generation_id", ""),
            ("generation.retired_at < :retired_at_1", "generation.published_at < :retired_at_1"),
        ),
        patched((retention, "outputs", blind)),
    )


def a_second_answer_is_another() -> Any:
    real = claims.first_answer

    def first_answer(*arguments: Any) -> Any:
        return None if real(*arguments) is None else JobStatus.PAUSED

    return patched((claims, "first_answer", first_answer))


def a_repeated_request_is_done_again() -> Any:
    return patched((supervisors, "stored_answer", lambda *_: None))


def _schema(statement: str) -> Any:
    """A schema that keeps out less."""
    real = _SimulatedDatabase.open

    def opened(self: Any) -> None:
        real(self)
        self._writer.db.raw.execute(statement)

    return patched((_SimulatedDatabase, "open", opened))


def a_count_is_not_kept() -> Any:
    return _schema("DROP TRIGGER IF EXISTS job_count_update")


def a_video_gets_a_second_job() -> Any:
    return _both(
        patched((jobs, "open_job_of", lambda *_: None)), _schema("DROP INDEX IF EXISTS ix_job_one_open")
    )


def another_program_writes_past_the_engine() -> Any:
    async def remove_retired(self: Any) -> None:
        with sqlite3.connect(self._db.address) as other:
            other.execute("UPDATE job SET priority = 5 WHERE status = 'failed'")
        other.close()

    return patched((retention.Retention, "remove_retired", remove_retired))


def history_is_forgotten_too_soon() -> Any:
    real = events.prune
    return patched((events, "prune", lambda db, *, before, now: real(db, before=max(before, now), now=now)))


def a_backoff_never_passes() -> Any:
    return sql(
        (
            _DUE,
            "FALSE",
        )
    )


def a_disk_gate_never_opens() -> Any:
    return patched((volume_monitor, "_open", lambda _db: None))


def some_ladders_are_never_good_enough() -> Any:
    real = publisher._require_something

    def require(publication: Any) -> None:
        real(publication)
        if publication.video.id % 5 == 1:
            raise TqError(ErrorCode.OUTPUT_INVALID, "it does not please")

    return patched((publisher, "_require_something", require))


def an_answer_fails() -> Any:
    def first_answer(*_: Any) -> Any:
        raise LookupError("no such column")

    return patched((claims, "first_answer", first_answer))


@dataclass(frozen=True)
class Broken:
    """A broken engine, the one invariant that is to catch it, and the world that brings it about."""

    how: Break
    caught_by: str
    fault_profile: str = "mixed"
    steps: int = 2_500
    seed: int = 1
    """Of the first world in which it is looked for."""

    def __str__(self) -> str:
        return self.how.__name__


SHORT = 200
"""Steps of a world of which the end says it."""
BROKEN = (
    Broken(a_claim_takes_what_runs, "one_owner_per_job", "zombies"),
    Broken(a_lost_answer_takes_another_job, "one_job_per_worker", "zombies"),
    Broken(a_control_request_outlives_its_lease, "a_lease_is_set_exactly_while_in_progress"),
    Broken(autorestarts_never_end, "counters_stay_in_bounds", "zombies", 3_500),
    Broken(a_failure_costs_two_attempts, "every_end_is_counted_as_its_kind", "zombies"),
    Broken(an_attempt_is_given_back, "every_end_is_counted_as_its_kind", "zombies"),
    Broken(a_lost_worker_is_never_counted, "crashes_are_counted_in_a_row", "zombies"),
    Broken(a_finished_segment_is_not_seen, "crashes_are_counted_in_a_row", "zombies"),
    Broken(each_crash_is_the_first, "crashes_are_counted_in_a_row", "zombies"),
    Broken(segments_at_a_crash_are_not_kept, "crashes_are_counted_in_a_row", "zombies"),
    Broken(where_a_crashed_attempt_had_resumed_is_not_kept, "crashes_are_counted_in_a_row", "zombies"),
    Broken(a_last_report_is_forgotten, "what_was_reported_counts"),
    Broken(a_control_request_is_forgotten, "a_control_request_is_fulfilled"),
    Broken(a_shutdown_sets_jobs_aside, "events_replay_to_the_state", "restarts"),
    Broken(a_done_job_is_retried, "done_is_immutable", "zombies"),
    Broken(an_ended_job_is_resumed, "terminal_is_final_but_for_a_retry", "zombies"),
    Broken(an_epoch_is_left_out, "the_epoch_only_grows"),
    Broken(a_change_leaves_no_event, "events_replay_to_the_state"),
    Broken(an_event_names_another_status, "the_last_event_names_the_status"),
    Broken(an_end_counts_from_anybody, "only_the_holder_ends_a_lease", "zombies", 4_000, seed=10),
    Broken(a_report_counts_from_anybody, "reports_come_from_the_holder", "zombies"),
    Broken(a_beat_renews_what_it_does_not_name, "only_the_holder_renews_a_lease", "zombies"),
    Broken(an_expired_lease_is_revived, "an_expired_lease_is_never_revived", "zombies"),
    Broken(a_beat_renews_nothing, "a_worker_that_is_heard_keeps_its_job", "hangs"),
    Broken(a_beat_renews_nothing, "an_owner_is_not_refused", "time"),
    Broken(a_job_waits_without_a_reason, "a_job_is_claimable_or_says_why_not", "zombies"),
    Broken(a_backoff_is_cut_short, "a_backoff_is_waited_out", "zombies"),
    Broken(a_claim_takes_what_waits_out_a_backoff, "nothing_is_claimed_but_what_waits", "zombies"),
    Broken(a_claim_passes_a_shut_gate, "no_claim_through_a_shut_gate", "shortages"),
    Broken(a_disabled_worker_claims, "only_workers_that_may_work_claim"),
    Broken(a_draining_worker_claims, "only_workers_that_may_work_claim", "zombies"),
    Broken(a_quarantined_worker_claims, "only_workers_that_may_work_claim"),
    Broken(a_worker_may_fail_for_ever, "a_worker_that_fails_job_after_job_is_held_back"),
    Broken(one_bad_file_stops_a_worker, "a_worker_that_fails_job_after_job_is_held_back"),
    Broken(a_replaced_generation_stays_current, "one_generation_per_done_job"),
    Broken(a_job_is_done_and_nothing_was_recorded, "one_generation_per_done_job"),
    Broken(a_ladder_lacks_a_segment, "a_ladder_is_recorded_whole"),
    Broken(retention_removes_what_plays, "what_plays_is_whole"),
    Broken(a_second_answer_is_another, "a_worker_is_answered_what_came_true", "zombies"),
    Broken(an_expired_lease_is_never_taken_back, "an_expired_lease_is_taken_back_soon", "zombies"),
    Broken(a_count_is_not_kept, "counts_are_true"),
    Broken(another_program_writes_past_the_engine, "every_job_is_known", "restarts"),
    Broken(a_video_gets_a_second_job, "open_jobs_of_a_video_are_one"),
    Broken(history_is_forgotten_too_soon, "history_explains_every_job", "zombies", SHORT),
    Broken(a_backoff_never_passes, "every_job_ends", "zombies", SHORT),
    Broken(a_disk_gate_never_opens, "every_job_ends", "shortages", SHORT),
    Broken(some_ladders_are_never_good_enough, "a_good_source_is_done", "zombies", SHORT),
    Broken(a_repeated_request_is_done_again, "a_repeated_request_is_answered_alike", "restarts"),
    Broken(an_answer_fails, "nothing_fails_unforeseen"),
)
