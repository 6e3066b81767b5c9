"""What a user may ask of a job, written down a second time; the product's table is held against it."""

from __future__ import annotations

from tqstudio.lifecycle import JobStatus, Operation

_TABLE = """
             pending    in_progress  paused     done  failed     cancelled
pause        paused     asked        same       no    no         no
resume       same       same         pending    no    no         no
cancel       cancelled  asked        cancelled  no    cancelled  same
retry        same       no           no         no    pending    pending
restart      no         asked        pending    no    pending    pending
retranscode  no         no           no         new   no         no
change       given      no           given      new   no         no
priority     set        no           set        no    set        set
delete       gone       no           gone       gone  gone       gone
"""


def _read() -> dict[tuple[Operation, JobStatus], str]:
    header, *lines = _TABLE.strip("\n").splitlines()
    statuses = [JobStatus(word) for word in header.split()]
    cells: dict[tuple[Operation, JobStatus], str] = {}
    for line in lines:
        name, *words = line.split()
        cells |= {(Operation(name), status): word for status, word in zip(statuses, words, strict=True)}
    return cells


MATRIX = _read()
"""asked: of the worker; same: it is so already; no: refused; new: a new job; given: by `queue/operations`,
which knows the settings; a status: at once."""

NAMES_OF = {
    JobStatus.PENDING: ("still waiting",),
    JobStatus.IN_PROGRESS: ("running",),
    JobStatus.PAUSED: ("paused",),
    JobStatus.DONE: ("done",),
    JobStatus.FAILED: ("failed",),
    JobStatus.CANCELLED: ("cancelled",),
}
"""How a refusal names the status to a user."""
