"""The invariants of the simulator, one function each; `docs/internals/fault-matrix.md` lists them."""

from __future__ import annotations

from . import of_a_commit as commit
from . import of_a_job as job
from . import of_the_whole as whole

OF_A_JOB = (
    job.one_owner_per_job,
    job.one_job_per_worker,
    job.a_lease_is_set_exactly_while_in_progress,
    job.counters_stay_in_bounds,
    job.every_end_is_counted_as_its_kind,
    job.crashes_are_counted_in_a_row,
    job.what_was_reported_counts,
    job.a_control_request_is_fulfilled,
    job.done_is_immutable,
    job.terminal_is_final_but_for_a_retry,
    job.the_epoch_only_grows,
    job.events_replay_to_the_state,
    job.the_last_event_names_the_status,
    job.only_the_holder_ends_a_lease,
    job.reports_come_from_the_holder,
    job.a_worker_that_is_heard_keeps_its_job,
    job.a_job_is_claimable_or_says_why_not,
    job.a_backoff_is_waited_out,
    job.nothing_is_claimed_but_what_waits,
    job.open_jobs_of_a_video_are_one,
)
"""After each commit, of each job that it touched."""
OF_A_COMMIT = (
    commit.no_claim_through_a_shut_gate,
    commit.only_workers_that_may_work_claim,
    commit.one_generation_per_done_job,
    commit.a_ladder_is_recorded_whole,
    commit.a_worker_that_fails_job_after_job_is_held_back,
)
"""After each commit."""
OF_AN_ANSWER = (commit.a_worker_is_answered_what_came_true,)
"""With each answer to a worker that ends its job."""
OF_A_REFUSAL = (commit.an_owner_is_not_refused,)
"""With each refusal of what a worker says of a job."""
OF_A_HEARTBEAT = (commit.an_expired_lease_is_never_revived,)
"""With each answer to a heartbeat, of each lease that it renewed."""
OF_A_STEP = (whole.an_expired_lease_is_taken_back_soon, whole.only_the_holder_renews_a_lease)
"""After each act of a user or a fault."""
OF_THE_WHOLE = (
    whole.counts_are_true,
    whole.every_job_is_known,
    whole.what_plays_is_whole,
)
"""After every 400th commit, and at the end."""
AT_THE_END = (whole.history_explains_every_job,)
OF_THE_COURSE = {
    "every_job_ends": "Once all faults are over every job ends within two hours and 3 000 steps.",
    "a_good_source_is_done": "Then a job whose source is good is done.",
    "a_repeated_request_is_answered_alike": "A request repeated with its key is done once, answered alike.",
    "nothing_fails_unforeseen": "No internal error is answered, no task dies, no error is logged.",
}
"""What the world itself watches over."""

_ALL = (
    OF_A_JOB,
    OF_A_COMMIT,
    OF_AN_ANSWER,
    OF_A_REFUSAL,
    OF_A_HEARTBEAT,
    OF_A_STEP,
    OF_THE_WHOLE,
    AT_THE_END,
)
NAMES = tuple(rule.__name__ for rules in _ALL for rule in rules) + tuple(OF_THE_COURSE)
