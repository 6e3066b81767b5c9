"""What a supervisor that ends says it leaves."""

from __future__ import annotations

from tqstudio.engine.queue import shutdown_summary
from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
from tqstudio.lifecycle import Operation

from .conftest import Queue


def test_what_is_left_and_what_of_it_is_begun(queue: Queue) -> None:
    done = queue.claimed()
    released, held = queue.claimed(queue.worker("cpu-1")), queue.claimed(queue.worker("cpu-2"))
    paused, deleted = queue.claimed(queue.worker("cpu-3")), queue.claimed(queue.worker("cpu-4"))
    queue.complete(done)
    for lease in (released, paused, deleted):
        queue.release(lease)
    queue.do(paused.job, Operation.PAUSE)
    queue.do(deleted.job, Operation.DELETE)
    queue.job()
    worked_on = {lease.job for lease in (done, released, held, paused, deleted)}
    assert shutdown_summary.count(queue.db, worked_on) == ShutdownSummary(left=3, begun=2, paused=1)
    assert shutdown_summary.count(queue.db, {4711}) == ShutdownSummary(left=3, begun=0, paused=1)
