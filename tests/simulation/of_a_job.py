"""What must be so of each job that a commit touched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs.retry_rules import RESOURCE_WAIT_S, longest_wait_s
from tqstudio.errors import ErrorClass, ErrorCode, class_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import TERMINAL, TRANSITIONS, Control, Trigger

from .audit import JobChange, Row, Streak, Violation

_US = 1_000_000
_TABLE = {(t.trigger.value, t.source, t.target) for t in TRANSITIONS}
_OTHER_NAMES = {
    "aborted:shutdown": (EventKind.RELEASE,),
    "requeued:supervisor": (EventKind.RELEASE,),
    "requeued:stale": (EventKind.WORKER_LOST,),
    "requeued:abandoned": (EventKind.WORKER_LOST, EventKind.RELEASE),
}
"""What the history calls some transitions, so that it says why."""
_TRIGGERS = frozenset(get_args(Trigger))
_BACK_FROM_THE_END = {EventKind.RETRY.value, EventKind.RESTART.value, EventKind.AUTORESTART.value}
_UNDONE = {EventKind.UNCANCEL.value, EventKind.UNCANCEL_PAUSED.value}
"""A job that comes back by the undo of its cancel keeps what was counted."""


def one_owner_per_job(change: JobChange) -> None:
    """A job in progress has one running attempt, that of its holder; any other job has none."""
    job = change.after
    if job["status"] != "in_progress":
        change.require(not change.open_attempts, f"attempts keep running: {change.open_attempts}")
        return
    change.require(len(change.open_attempts) == 1, f"it has these attempts: {change.open_attempts}")
    attempt = change.open_attempts[0]
    for name in ("epoch", "instance", "worker_id"):
        change.require(attempt[name] == job[name], f"{name} of the attempt is {attempt[name]}")


def one_job_per_worker(change: JobChange) -> None:
    """A worker's process holds one live lease; a claim whose answer was lost is answered with the same."""
    if change.after["status"] != "in_progress" or change.before is None:
        return
    if change.before["epoch"] == change.after["epoch"]:
        return
    instance = change.after["instance"]
    others = change.audit.raw.execute(
        "SELECT id, epoch FROM job WHERE status = 'in_progress' AND instance = ? AND id <> ?",
        (instance, change.job),
    ).fetchall()
    live = [job for job, epoch in others if change.audit.is_assured(job, epoch, instance)]
    change.require(not live, f"its worker holds these too: {live}")


def a_lease_is_set_exactly_while_in_progress(change: JobChange) -> None:
    """Supervisor, worker and instance are set while a job is in progress, and only then a control request."""
    job = change.after
    held = [job[name] is not None for name in ("supervisor_id", "worker_id", "instance", "claimed_at")]
    running = job["status"] == "in_progress"
    change.require(all(held) if running else not any(held), "lease and status disagree")
    change.require(
        running or job["control"] == "none", "a control request is pending and no worker can fulfil it"
    )


def counters_stay_in_bounds(change: JobChange) -> None:
    """Attempts, crashes and restarts stay within their limits; a job that has used them up is not retried."""
    job = change.after
    for name, limit in (("attempts", "max_attempts"), ("crashes", "max_crashes")):
        change.require(0 <= job[name] <= job[limit], f"{name} is out of bounds")
        used_up = job[name] == job[limit] and job["status"] in ("pending", "in_progress")
        change.require(not used_up, f"it continues though its {name} are used up")
    change.require(
        0 <= job["restarts"] <= max(job["autorestart_limit"], _restarts(change.before)), "restarts"
    )
    moves = [event.trigger for event in change.moves]
    again = moves.count(EventKind.AUTORESTART)
    reset = {EventKind.RETRY, EventKind.RESTART, EventKind.COMPLETE} & set(moves)
    wanted = 0 if reset else _restarts(change.before) + again
    change.require(job["restarts"] == wanted, f"it has {job['restarts']} restarts, not {wanted}")


def _restarts(row: Row | None) -> int:
    return 0 if row is None else int(row["restarts"])


def every_end_is_counted_as_its_kind(change: JobChange) -> None:
    """A failure costs an attempt, unless it is a shortage; a pause, a shutdown, a lost worker cost none."""
    if change.before is None or len(change.moves) != 1 or change.moves[0].source != "in_progress":
        return
    [end] = change.moves
    attempts, fatal = change.before["attempts"], end.code and class_of(end.code) is ErrorClass.FATAL
    if end.trigger in (EventKind.FAIL_RETRYABLE, EventKind.FAIL_FINAL) and not is_crash(end) and not fatal:
        attempts += 1
    if end.trigger != EventKind.RESTART:
        change.require(change.after["attempts"] == attempts, f"{end.trigger} left {change.after['attempts']}")


def is_crash(event: EventRow) -> bool:
    """Whether a job was taken from a worker that is lost, through no one else's fault."""
    return event.source == "in_progress" and event.code in (ErrorCode.WORKER_LOST, ErrorCode.REPEATED_CRASHES)


def crashes_are_counted_in_a_row(change: JobChange) -> None:
    """A lost worker adds one crash, and is the first again where a segment was finished since the last one.

    Where the attempt began further on than the one that crashed before, that one's crash was the first.
    The last that is allowed, and no other, is poison. Whatever begins a job again begins the count again.
    """
    streak, job = change.audit.streaks.get(change.job, Streak()), change.after
    for event in change.moves:
        if event.trigger in _BACK_FROM_THE_END:
            streak = Streak()
        elif is_crash(event):
            segments, resumed_at_s = change.segments, change.resumed_at_s(event.at)
            had_got_further = resumed_at_s > streak.resumed_at_s
            in_a_row = min(streak.crashes, 1) if had_got_further else streak.crashes
            crashes = 1 if segments > streak.segments else in_a_row + 1
            streak = Streak(
                min(crashes, job["max_crashes"]),
                max(streak.segments, segments),
                max(streak.resumed_at_s, resumed_at_s),
            )
            facts = f"crash {crashes}, {segments} segments, resumed at {resumed_at_s} s: {event.code}"
            change.require(
                (event.code == ErrorCode.REPEATED_CRASHES) == (crashes >= job["max_crashes"]), facts
            )
    change.audit.streaks[change.job] = streak
    change.require(
        job["crashes"] == streak.crashes, f"{job['crashes']} crashes, not {streak.crashes} in a row"
    )
    reached = (job["segments_at_crash"], job["resumed_at_crash_s"])
    change.require(reached == (streak.segments, streak.resumed_at_s), f"not as far as at its crash: {streak}")


def what_was_reported_counts(change: JobChange) -> None:
    """The segments of a worker's last report are known when its job is taken from it."""
    before = change.before
    for event in change.moves:
        if before is None or not is_crash(event) or before["status"] != "in_progress":
            continue
        life, segments = change.audit.heard.get((change.job, before["epoch"]), (None, 0))
        if life is change.audit.world.life:
            change.require(change.segments >= segments, f"{segments} segments were reported")


_REQUESTS = {
    EventKind.PAUSE: Control.PAUSE,
    EventKind.CANCEL: Control.CANCEL,
    EventKind.RESTART: Control.RESTART,
}


def a_control_request_is_fulfilled(change: JobChange) -> None:
    """A running job is paused, cancelled or restarted if a user requested it, and then however it ends.

    A job that was done before the request reached its worker is done.
    """
    request = Control.NONE.value if change.before is None else change.before["control"]
    for event in change.events:
        if event.trigger.endswith("_requested"):
            request = event.trigger.removesuffix("_requested").replace("resume", Control.NONE.value)
        elif event.target and event.source == "in_progress":
            came = _REQUESTS.get(event.trigger, Control.NONE) if event.trigger in _TRIGGERS else "none"
            right = request == came or event.trigger == EventKind.COMPLETE
            change.require(right, f"it was asked to {request}, and ended by {event.trigger}")
            request = Control.NONE.value
    change.require(change.after["control"] == request, f"what is asked of it is {request}")


def done_is_immutable(change: JobChange) -> None:
    """Nothing of a done job changes ever again but whether it is shown."""
    if change.before is None or change.before["status"] != "done":
        return
    differs = [name for name, value in change.after.items() if value != change.before[name]]
    change.require(set(differs) <= {"deleted_at"}, f"it was done, and changed: {differs}")


def terminal_is_final_but_for_a_retry(change: JobChange) -> None:
    """A job that ended is requeued only by a retry, a restart, an autorestart or the undo of a cancel."""
    for event in change.events:
        back = event.source in TERMINAL and event.target not in TERMINAL and event.target is not None
        change.require(not back or event.trigger in _BACK_FROM_THE_END | _UNDONE, f"it came back by {event}")


def the_epoch_only_grows(change: JobChange) -> None:
    """The epoch rises by one with each claim, and never otherwise."""
    before = 0 if change.before is None else change.before["epoch"]
    claims = sum(1 for event in change.events if event.trigger == EventKind.CLAIM)
    change.require(change.after["epoch"] == before + claims, f"{claims} claims after epoch {before}")


def events_replay_to_the_state(change: JobChange) -> None:
    """Every change of status is an allowed transition with its event; together they make the status."""
    before = change.before
    status = None if before is None else before["status"]
    deleted = before is not None and before["deleted_at"] is not None
    found = replay(change.events, status, deleted)
    wanted = (change.after["status"], change.after["deleted_at"] is not None)
    change.require(found == wanted, f"the events lead to {found}: {change.events}")


def the_last_event_names_the_status(change: JobChange) -> None:
    """The newest event of a job names the job's status."""
    last = change.audit.raw.execute(
        "SELECT target FROM event WHERE job_id = ? AND target IS NOT NULL ORDER BY seq DESC LIMIT 1",
        (change.job,),
    ).fetchone()
    change.require(last is not None and last[0] == change.after["status"], f"the last event says {last}")


def only_the_holder_ends_a_lease(change: JobChange) -> None:
    """What a worker says of the end of a job counts only from the holder of a live lease."""
    before = change.before
    if before is None or before["status"] != "in_progress":
        return
    for event in change.events:
        if event.trigger == EventKind.CLAIM:
            return
        if event.source != "in_progress" or event.target is None or event.actor in ("supervisor", "user"):
            continue
        change.require(event.actor == before["processed_by"], f"{event.actor} ended it")
        # However long its end takes to write.
        in_time = (change.job, before["epoch"], before["instance"]) in change.audit.ended_in_time
        change.require(in_time, f"its lease had run out: {event}")


def reports_come_from_the_holder(change: JobChange) -> None:
    """What a job and its renditions show was reported under its own leases, the newest last."""
    job, marks = change.after, {mark for mark, _ in change.renditions if mark}
    for attempt in change.open_attempts:
        mark = f"{attempt['instance']}/{attempt['epoch']}"
        change.require(
            attempt["encoder"] in (None, mark), f"its attempt was reported by {attempt['encoder']}"
        )
    before = change.before
    if before is None or job["status"] != "in_progress" or before["epoch"] != job["epoch"]:
        change.audit.marks[change.job] = marks
        return
    new = marks - change.audit.marks.get(change.job, set())
    change.require(new <= {f"{job['instance']}/{job['epoch']}"}, f"its renditions were reported by {new}")
    change.audit.marks[change.job] = marks


def a_worker_that_is_heard_keeps_its_job(change: JobChange) -> None:
    """A worker whose heartbeat was answered keeps its job for the length of a lease."""
    before = change.before
    if before is None or before["status"] != "in_progress":
        return
    assured = change.audit.is_assured(change.job, before["epoch"], before["instance"])
    stale = any(event.trigger == "requeued:stale" for event in change.events)
    change.require(not (stale and assured), "its worker was heard within the lease")


def a_job_is_claimable_or_says_why_not(change: JobChange) -> None:
    """Every job that no worker may claim now has a readable reason, and the reason passes."""
    job = change.after
    world = change.audit.world
    match job["status"]:
        case "pending" if job["not_before"] is not None:
            longest = max(RESOURCE_WAIT_S, world.settings.backoff_max_s * 1.1, job["autorestart_delay_s"])
            wait = job["not_before"] - change.audit.now
            change.require(wait <= longest * _US + world.set_back_us, f"it waits {wait} µs")
            change.require(job["error_code"] is not None, "it waits, and no error says why")
        case "pending":
            change.require(job["ready_at"] is not None, "it can be claimed, and not since when")
        case "failed":
            change.require(job["error_code"] is not None, "it failed, and no error says why")
            change.require(job["completed_at"] is not None, "it failed, and not when")
        case "done" | "cancelled":
            change.require(job["completed_at"] is not None, "it ended, and not when")
        case _:
            pass


def _waits_for_a_volume(row: Row) -> bool:
    """Whether a job does not wait for a time: its volume may be back before the next look was due."""
    return row["error_code"] in ("DISK_NOT_RESPONDING", "SOURCE_UNAVAILABLE")


def _early_us(change: JobChange, before: Row, at: int) -> int:
    """How long before the end of a job's wait this moment lies, in µs; 0 where it does not.

    A wait that is longer than the longest one was begun before the clock was set back, and is cut short.
    """
    early = max(0, before["not_before"] - at)
    longest = longest_wait_s(change.audit.world.settings.backoff_max_s)
    return 0 if early > longest * _US else early


def a_backoff_is_waited_out(change: JobChange) -> None:
    """A job that waits for its next attempt is claimed when its time has come, not before."""
    before = change.before
    if before is None or before["status"] != "pending" or before["not_before"] is None:
        return
    if _waits_for_a_volume(before):
        return
    if change.after["not_before"] is None and not any(event.target for event in change.events):
        # By the clock that said so: another may have been set meanwhile.
        early = _early_us(change, before, change.after["ready_at"])
        change.require(early == 0, f"it was let go {early} µs early")


def nothing_is_claimed_but_what_waits(change: JobChange) -> None:
    """What is claimed was pending, not deleted, and not waiting for a backoff."""
    if change.before is None or not any(event.trigger == EventKind.CLAIM for event in change.events):
        return
    first = change.events[0]
    if first.trigger == EventKind.CLAIM:
        before = change.before
        # By the clock that said so: the wall's may have been set back since, and no one have noticed yet.
        if before["not_before"] is not None and not _waits_for_a_volume(before):
            early = _early_us(change, before, first.at)
            change.require(early == 0, f"it was claimed {early} µs before the end of its backoff")
        change.require(before["deleted_at"] is None, "it was claimed though deleted")


def open_jobs_of_a_video_are_one(change: JobChange) -> None:
    """No two jobs work on one video."""
    if not _is_open(change.after) or _is_open(change.before):
        return
    others = change.audit.raw.execute(
        "SELECT id FROM job WHERE video_id = ? AND id <> ? AND deleted_at IS NULL"
        " AND status IN ('pending', 'in_progress', 'paused')",
        (change.after["video_id"], change.job),
    ).fetchall()
    change.require(not others, f"its video has these open jobs too: {others}")


def _is_open(row: Row | None) -> bool:
    return row is not None and row["status"] not in TERMINAL and row["deleted_at"] is None


def transitions_of(name: str, source: str | None, target: str) -> set[tuple[str, str | None, str]]:
    """The rows of the lifecycle table that an event may stand for: (trigger, source, target) each."""
    triggers = _OTHER_NAMES.get(name, (name,))
    return {(str(trigger), source, target) for trigger in triggers} & _TABLE


def replay(
    events: Iterable[EventRow], status: str | None = None, deleted: bool = False
) -> tuple[str | None, bool]:
    """Status and deletion after these events.

    Raises:
        Violation: one of them cannot follow on what was before.
    """
    for event in events:
        if event.trigger in ("deleted", "undeleted"):
            if event.source != status or deleted == (event.trigger == "deleted"):
                raise Violation(f"{event} follows on {status}, deleted: {deleted}")
            deleted = not deleted
        elif event.target is not None:
            if (
                event.source != status
                or deleted
                or not transitions_of(event.trigger, event.source, event.target)
            ):
                raise Violation(f"{event} follows on {status}, deleted: {deleted}")
            status = event.target
    return status, deleted
