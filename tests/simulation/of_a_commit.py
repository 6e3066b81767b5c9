"""What must be so of each commit as a whole, and of the answers that workers get."""

from __future__ import annotations

from tqstudio.engine.store.machine.quarantine import BLAMES
from tqstudio.events import EventKind

from .audit import Answered, Commit, Heard, Refused, Violation
from .of_a_job import is_crash
from .of_the_whole import the_ladder_is_whole


def no_claim_through_a_shut_gate(commit: Commit) -> None:
    """While a gate is shut no job is handed out."""
    shut = commit.audit.shut
    for event in commit.events:
        if event.trigger == "gate_closed":
            shut.add(str(event.code))
        elif event.trigger == "gate_opened":
            shut.discard(str(event.code))
        elif event.trigger == EventKind.CLAIM and shut:
            raise Violation(f"job {event.job} was claimed while these gates were shut: {shut}")


def only_workers_that_may_work_claim(commit: Commit) -> None:
    """A claim comes from a registered process of a worker that is enabled, not draining, not quarantined."""
    claims = {event.worker for event in commit.events if event.trigger == EventKind.CLAIM}
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
            newly = any(event.trigger == EventKind.CLAIM and event.worker == name for event in change.events)
            # A new life of the same name may have begun in the same commit.
            if newly and change.after["status"] == "in_progress" and may[1] is not None:
                change.require(change.after["instance"] == may[1], f"another life of {name} is registered")


def one_generation_per_done_job(commit: Commit) -> None:
    """Every done job has published once; a video with generations has exactly one that plays, the newest."""
    ended = {change.after["video_id"] for change in commit.jobs.values() if change.after["status"] == "done"}
    for video in commit.videos | ended:
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


def a_ladder_is_recorded_whole(commit: Commit) -> None:
    """What is recorded as published plays, and every file of it is there."""
    for event in commit.events:
        if event.trigger == "published" and event.video is not None:
            the_ladder_is_whole(commit.audit, event.video)


def a_worker_that_fails_job_after_job_is_held_back(commit: Commit) -> None:
    """A worker that failed so many different jobs in a row gets none before it passed a test encode or was
    enabled; one that failed the test is quarantined, and no other."""
    blamed, after = commit.audit.blamed, commit.audit.world.settings.quarantine_after
    for event in commit.events:
        if event.trigger in ("worker_enabled", EventKind.COMPLETE):
            blamed.pop(str(event.worker), None)
        elif event.trigger in ("worker_quarantined", "worker_tested"):
            jobs = blamed.pop(str(event.worker), set())
            # More: a worker that registered again held a second job before the lease of the first ran out.
            if len(jobs) < after:
                raise Violation(f"{event.worker} was tested for the jobs {sorted(jobs)}")
        elif event.trigger == EventKind.CLAIM and len(blamed.get(str(event.worker), ())) >= after:
            raise Violation(f"{event.worker} got job {event.job} although it failed {blamed[event.worker]}")
        elif event.source == "in_progress" and event.job and (is_crash(event) or event.code in BLAMES):
            before = commit.jobs[event.job].before
            if before is not None and not _was_held_back(commit, before["processed_by"]):
                blamed.setdefault(before["processed_by"], set()).add(event.job)


def _was_held_back(commit: Commit, name: str) -> bool:
    """Before this commit."""
    row = commit.audit.raw.execute("SELECT quarantined_at FROM worker WHERE name = ?", (name,)).fetchone()
    newly = any(e.trigger == "worker_quarantined" and e.worker == name for e in commit.events)
    return row is not None and row[0] is not None and not newly


# Of the answers that a worker gets


def a_worker_is_answered_what_came_true(answer: Answered) -> None:
    """What a worker is sent about the end of its job is how its attempt ended, and the same each time."""
    key = (answer.job, answer.epoch, answer.instance)
    first = answer.audit.answers.setdefault(key, answer.status)
    if first != answer.status:
        raise Violation(
            f"job {answer.job} epoch {answer.epoch}: its end was answered {first}, then {answer.status}"
        )
    row = answer.audit.raw.execute(
        "SELECT instance, ended_at, answer FROM attempt WHERE job_id = ? AND epoch = ?", key[:2]
    ).fetchone()
    if row is None or row[0] != answer.instance or row[1] is None or row[2] != answer.status:
        raise Violation(f"{key} was answered {answer.status}, and the attempt is {row}")


def an_owner_is_not_refused(refused: Refused) -> None:
    """A worker that was granted a job may report on it and end it for the length of a lease."""
    row = refused.audit.known[refused.job]
    owner = (row["status"], row["epoch"], row["instance"])
    if owner == ("in_progress", refused.epoch, refused.instance) and refused.audit.is_assured(
        refused.job, refused.epoch, refused.instance
    ):
        raise Violation(f"job {refused.job} epoch {refused.epoch} was refused to {refused.instance}")


def an_expired_lease_is_never_revived(heard: Heard) -> None:
    """Once a lease has run out it is not renewed any more, also not by its holder."""
    if (heard.job, heard.epoch, heard.instance) in heard.audit.expired:
        raise Violation(f"job {heard.job} epoch {heard.epoch} was renewed for {heard.instance}")
