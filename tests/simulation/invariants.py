"""What must be so after every commit, whatever happened. Each is one function that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tqstudio.engine.media.layout import PLAYLIST_NAME
from tqstudio.engine.publishing import is_whole
from tqstudio.engine.scheduling import RESOURCE_WAIT_S
from tqstudio.engine.store import generations, videos
from tqstudio.engine.store.connection import Connection
from tqstudio.engine.store.events import EventRow
from tqstudio.engine.views import place_of
from tqstudio.lifecycle import TERMINAL, TRANSITIONS, Trigger

from .audit import Audit, Commit, JobChange, Violation

_US = 1_000_000
_UNDER_WAY_US = 14 * _US
"""A beat that was heard in time waits so long for the next flush and a slow disk."""
_NOTICED_S = 10.0
"""So soon a supervisor has noticed that the clock was set or that it was stopped."""
_SOON_S = 40.0
"""Two scans, and a disk that is slow."""
_TABLE = {(t.trigger.value, t.source, t.target) for t in TRANSITIONS}
_PAIRS = {(t.source, t.target) for t in TRANSITIONS}
_TRIGGERS = {trigger.value for trigger in Trigger}
_BACK_FROM_THE_END = {Trigger.RETRY.value, Trigger.RESTART.value, Trigger.AUTORESTART.value}


# Of each job that a commit touched


def one_owner_per_job(change: JobChange) -> None:
    """A job in progress has one running attempt, that of its holder; any other job has none."""
    job = change.after
    if job["status"] != "in_progress":
        change.require(not change.open_attempts, f"attempts go on: {change.open_attempts}")
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
    others = change.audit.raw.execute(
        "SELECT id FROM job WHERE status = 'in_progress' AND instance = ? AND id <> ?"
        " AND lease_expires_at > ?",
        (change.after["instance"], change.job, change.after["claimed_at"]),
    ).fetchall()
    change.require(not others, f"its worker holds these too: {others}")


def a_lease_is_set_exactly_while_in_progress(change: JobChange) -> None:
    """Worker, instance and expiry are set while a job is in progress; a wish is pending only then."""
    job = change.after
    held = [job[name] is not None for name in ("worker_id", "instance", "lease_expires_at", "claimed_at")]
    running = job["status"] == "in_progress"
    change.require(all(held) if running else not any(held), "lease and status disagree")
    change.require(running or job["control"] == "none", "a wish is pending and nobody can fulfil it")


def counters_stay_in_bounds(change: JobChange) -> None:
    """Attempts, crashes and restarts stay within their limits, and rise by one at a time."""
    job, before = change.after, change.before
    for name, limit in (("attempts", "max_attempts"), ("crashes", "max_crashes")):
        change.require(0 <= job[name] <= job[limit], f"{name} is out of bounds")
        ends = sum(1 for event in change.events if event.source == "in_progress" and event.target)
        change.require(before is None or job[name] <= before[name] + ends, f"{name} rose by more than one")
        used_up = job[name] == job[limit] and job["status"] in ("pending", "in_progress")
        change.require(not used_up, f"it goes on though its {name} are used up")
    change.require(job["restarts"] <= job["autorestart_limit"], "it was restarted too often")


_COUNTS = {
    "worker_lost": (0, 1),
    "requeued:stale": (0, 1),
    "fail_retryable": (1, 0),
    "release": (0, 0),
    "aborted:shutdown": (0, 0),
    "requeued:supervisor": (0, 0),
    "pause": (0, 0),
}
"""What the end of a lease adds to attempts and crashes."""


def every_end_is_counted_as_its_kind(change: JobChange) -> None:
    """A failure counts an attempt, a lost worker a crash; a pause, a shutdown or a shortage nothing."""
    moves = [event for event in change.events if event.target]
    if change.before is None or len(moves) != 1 or moves[0].source != "in_progress":
        return
    if (added := _COUNTS.get(moves[0].trigger)) is not None:
        before = change.before["attempts"] + added[0], change.before["crashes"] + added[1]
        change.require((change.after["attempts"], change.after["crashes"]) == before, "it was miscounted")


def done_is_immutable(change: JobChange) -> None:
    """Nothing of a done job changes ever again but whether it is shown."""
    if change.before is None or change.before["status"] != "done":
        return
    differs = [name for name, value in change.after.items() if value != change.before[name]]
    change.require(set(differs) <= {"deleted_at"}, f"it was done, and changed: {differs}")


def terminal_is_final_but_for_a_retry(change: JobChange) -> None:
    """A job that ended goes again only by a retry, a restart or an autorestart."""
    for event in change.events:
        back = event.source in TERMINAL and event.target not in TERMINAL and event.target is not None
        change.require(not back or event.trigger in _BACK_FROM_THE_END, f"it came back by {event}")


def the_epoch_only_grows(change: JobChange) -> None:
    """The epoch rises by one with each claim, and never otherwise."""
    before = 0 if change.before is None else change.before["epoch"]
    claims = sum(1 for event in change.events if event.trigger == Trigger.CLAIM)
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
    """Whoever reads the history backwards meets the job's status first."""
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
        if event.trigger == Trigger.CLAIM:
            return
        if event.source != "in_progress" or event.target is None or event.actor in ("supervisor", "user"):
            continue
        change.require(event.actor == before["processed_by"], f"{event.actor} ended it")
        # A publish that was begun in time is finished, however long it takes.
        live = before["lease_expires_at"] > event.at or event.trigger == Trigger.COMPLETE
        change.require(live or _time_has_moved(change.audit), f"its lease had run out: {event}")


def reports_come_from_the_holder(change: JobChange) -> None:
    """What a job and its renditions show was reported under its own leases, the newest last."""
    job = change.after
    for attempt in change.open_attempts:
        mark = f"{attempt['instance']}/{attempt['epoch']}"
        change.require(
            attempt["encoder"] in (None, mark), f"its attempt was reported by {attempt['encoder']}"
        )
    before = change.before
    if before is None or job["status"] != "in_progress" or before["epoch"] != job["epoch"]:
        change.audit.marks[change.job] = change.marks
        return
    new = change.marks - change.audit.marks.get(change.job, set())
    change.require(new <= {f"{job['instance']}/{job['epoch']}"}, f"its renditions were reported by {new}")
    change.audit.marks[change.job] = change.marks


def only_the_holder_renews_a_lease(change: JobChange) -> None:
    """A lease is made longer by a sign of life of its own holder, and by no other."""
    job, before = change.after, change.before
    if job["status"] != "in_progress" or before is None or before["epoch"] != job["epoch"]:
        return
    if job["lease_expires_at"] <= before["lease_expires_at"] or _time_has_moved(change.audit):
        return
    signs, token = change.audit.signs, (change.job, job["epoch"], job["instance"])
    if not change.audit.claiming[job["instance"]]:
        change.require(signs[token] > 0, "its lease was renewed without a sign of its holder")
        signs[token] -= 1


def an_expired_lease_is_never_revived(change: JobChange) -> None:
    """Once a lease has run out it is not renewed any more, also not by its holder."""
    job, before = change.after, change.before
    if job["status"] != "in_progress" or before is None or before["epoch"] != job["epoch"]:
        return
    if job["lease_expires_at"] <= before["lease_expires_at"]:
        return
    late = change.audit.now - before["lease_expires_at"]
    change.require(late <= _UNDER_WAY_US or _time_has_moved(change.audit), f"it ran out {late} µs ago")


def _time_has_moved(audit: Audit) -> bool:
    """A clock was set, or nobody could be heard: when the supervisor notices, every lease begins anew."""
    return audit.world.loop.time() - audit.world.sound_since < _NOTICED_S


def a_job_is_claimable_or_says_why_not(change: JobChange) -> None:
    """Every job that nobody may claim now has a reason that a person can read, and it passes."""
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


def a_backoff_is_waited_out(change: JobChange) -> None:
    """A job that waits for its next attempt is claimed when its time has come, not before."""
    before = change.before
    if before is None or before["status"] != "pending" or before["not_before"] is None:
        return
    if change.after["not_before"] is None and not any(event.target for event in change.events):
        # By the clock that said so: another may have been set meanwhile.
        early = before["not_before"] - change.after["ready_at"]
        change.require(early <= 0, f"it was let go {early} µs early")


def nothing_is_claimed_but_what_waits(change: JobChange) -> None:
    """What is claimed was pending, not deleted, and not waiting for a backoff."""
    if change.before is None or not any(event.trigger == Trigger.CLAIM for event in change.events):
        return
    first = change.events[0]
    if first.trigger == Trigger.CLAIM:
        before = change.before
        due = before["not_before"] is None or before["not_before"] <= change.audit.now
        change.require(due, "it was claimed in its backoff")
        change.require(before["deleted_at"] is None, "it was claimed though deleted")


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
            allowed = (
                (event.trigger, event.source, event.target) in _TABLE
                if event.trigger in _TRIGGERS
                else (event.source, event.target) in _PAIRS
            )
            if event.source != status or deleted or not allowed:
                raise Violation(f"{event} follows on {status}, deleted: {deleted}")
            status = event.target
    return status, deleted


# Of each commit


def no_claim_through_a_shut_gate(commit: Commit) -> None:
    """While a gate is shut no job is handed out."""
    shut = commit.audit.shut
    for event in commit.events:
        if event.trigger == "gate_shut":
            shut.add(str(event.code))
        elif event.trigger == "gate_opened":
            shut.discard(str(event.code))
        elif event.trigger == Trigger.CLAIM and shut:
            raise Violation(f"job {event.job} was claimed while these gates were shut: {shut}")


def only_workers_that_may_work_claim(commit: Commit) -> None:
    """A claim comes from a registered life of a worker that is enabled, not draining, not quarantined."""
    claims = {event.worker for event in commit.events if event.trigger == Trigger.CLAIM}
    changed = {event.worker for event in commit.events if event.trigger.startswith("worker_")}
    for name in claims - changed:
        may = commit.audit.raw.execute(
            "SELECT enabled = 1 AND draining = 0 AND quarantined_at IS NULL, instance FROM worker"
            " WHERE name = ?",
            (name,),
        ).fetchone()
        if not may[0]:
            raise Violation(f"{name} claimed and may not work")
        for change in commit.jobs.values():
            newly = any(event.trigger == Trigger.CLAIM and event.worker == name for event in change.events)
            # A new life of the same name may have begun in the same commit.
            if newly and change.after["status"] == "in_progress" and may[1] is not None:
                change.require(change.after["instance"] == may[1], f"another life of {name} is registered")


def one_generation_per_done_job(commit: Commit) -> None:
    """Every done job has published once; a video with generations has exactly one that plays, the newest."""
    for video in commit.videos:
        done, made, current, newest, named = commit.audit.raw.execute(
            "SELECT (SELECT count(*) FROM job WHERE video_id = :v AND status = 'done'), count(*),"
            " sum(retired_at IS NULL), max(id), (SELECT generation_id FROM video WHERE id = :v)"
            " FROM generation WHERE video_id = :v",
            {"v": video},
        ).fetchone()
        if done != made or (made and (current != 1 or named != newest)) or (not made and named is not None):
            raise Violation(
                f"video {video}: {done} jobs done, {made} generations, {current} not retired,"
                f" newest {newest}, current {named}"
            )


# Of the whole


def counts_are_true(audit: Audit) -> None:
    """The counts that triggers keep are the numbers of jobs."""
    kept = dict(audit.raw.execute("SELECT status, n FROM job_count WHERE n <> 0"))
    real = dict(
        audit.raw.execute("SELECT status, count(*) FROM job WHERE deleted_at IS NULL GROUP BY status")
    )
    if kept != real:
        raise Violation(f"the counts say {kept}, the jobs {real}")


def every_job_is_known(audit: Audit) -> None:
    """No job changed outside of what was seen."""
    for job, row in audit.known.items():
        if audit.job(job) != row:
            raise Violation(f"job {job} changed unseen: {row}")


def open_jobs_of_a_video_are_one(audit: Audit) -> None:
    """No two jobs work on one video."""
    twice = audit.raw.execute(
        "SELECT video_id, count(*) FROM job WHERE status IN ('pending', 'in_progress', 'paused')"
        " AND deleted_at IS NULL GROUP BY video_id HAVING count(*) > 1"
    ).fetchall()
    if twice:
        raise Violation(f"videos with several open jobs: {twice}")


def an_expired_lease_is_taken_back_soon(audit: Audit) -> None:
    """While a supervisor runs undisturbed, no job stays with a worker that has lost it."""
    world = audit.world
    if world.life is None or not world.life.running or world.loop.time() - world.sound_since < _SOON_S:
        return
    for job in audit.open:
        row = audit.known[job]
        overdue = audit.now - (row["lease_expires_at"] or audit.now)
        if overdue > _SOON_S * _US:
            raise Violation(f"the lease of job {job} ran out {overdue / _US} s ago")


def what_plays_is_whole(audit: Audit) -> None:
    """Every master playlist names a generation of which every file is there, and the recorded one is."""
    db = Connection(audit.raw)
    for video in videos.page(db, after=0, limit=10_000):
        place = place_of(video)
        if place.master.exists():
            named = re.findall(r"^(v\d+/\S+)$|URI=\"(v\d+/[^\"]+)\"", place.master.read_text(), re.MULTILINE)
            for uri in (one or other for one, other in named):
                _playlist_is_whole(place.folder / uri)
        generation = generations.current(db, video.id)
        if generation is not None:
            folder = place.generation(generation.number)
            torn = [row.name for row in generation.renditions if not is_whole(folder, row)]
            if torn or not place.master.exists():
                raise Violation(f"{folder} is recorded and not whole: {torn}")


def _playlist_is_whole(playlist: Path) -> None:
    if playlist.name != PLAYLIST_NAME or not playlist.exists():
        raise Violation(f"a master names {playlist}, which is not there")
    for name in re.findall(r"^([^#\s]\S*)$|URI=\"([^\"]+)\"", playlist.read_text(), re.MULTILINE):
        if not (playlist.parent / (name[0] or name[1])).exists():
            raise Violation(f"{playlist} names {name}, which is not there")


def history_tells_every_job(audit: Audit) -> None:
    """The whole history of a job, read from its first event, leads to what it is."""
    for job, row in audit.known.items():
        events = audit.events_of(job)
        if replay(events) != (row["status"], row["deleted_at"] is not None):
            raise Violation(f"job {job} is {row['status']}, its history says {replay(events)}")
        if sum(1 for event in events if event.trigger == Trigger.CLAIM) != row["epoch"]:
            raise Violation(f"job {job} has epoch {row['epoch']}, its history other claims")


OF_A_JOB = (
    one_owner_per_job,
    one_job_per_worker,
    a_lease_is_set_exactly_while_in_progress,
    counters_stay_in_bounds,
    every_end_is_counted_as_its_kind,
    done_is_immutable,
    terminal_is_final_but_for_a_retry,
    the_epoch_only_grows,
    events_replay_to_the_state,
    the_last_event_names_the_status,
    only_the_holder_ends_a_lease,
    reports_come_from_the_holder,
    only_the_holder_renews_a_lease,
    an_expired_lease_is_never_revived,
    a_job_is_claimable_or_says_why_not,
    a_backoff_is_waited_out,
    nothing_is_claimed_but_what_waits,
)
OF_A_COMMIT = (no_claim_through_a_shut_gate, only_workers_that_may_work_claim, one_generation_per_done_job)
OF_THE_WHOLE = (
    counts_are_true,
    every_job_is_known,
    open_jobs_of_a_video_are_one,
    what_plays_is_whole,
)
AT_THE_END = (history_tells_every_job,)
