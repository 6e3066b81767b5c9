"""Describes an operation on all jobs that match a filter, for commands and the terminal UI."""

from __future__ import annotations

from collections.abc import Mapping

from tqstudio.lifecycle import Operation
from tqstudio.words.format import number

_WORDS = {
    Operation.PAUSE: ("pausing", "paused"),
    Operation.RESUME: ("resuming", "resumed"),
    Operation.CANCEL: ("cancelling", "cancelled"),
    Operation.RETRY: ("retrying", "requeued"),
    Operation.RESTART: ("restarting", "restarted"),
    Operation.CHANGE: ("changing", "changed"),
    Operation.RETRANSCODE: ("queueing", "queued again"),
    Operation.PRIORITY: ("changing", "changed"),
    Operation.DELETE: ("deleting", "deleted"),
    Operation.UNDELETE: ("restoring", "restored"),
}


def progress(operation: Operation, so_far: int, total: int | None) -> str:
    """How many jobs were gone through: `cancelling 2 500 of 9 775`."""
    return f"{_WORDS[operation][0]} {number(so_far)}{'' if total is None else f' of {number(total)}'}"


def sentence(operation: Operation, done: int, skipped: Mapping[str, int], *, stopped: bool) -> str:
    """What was done: `9 771 cancelled, 4 skipped: done`, with the states of those that were skipped."""
    left = f", {number(sum(skipped.values()))} skipped: {', '.join(skipped)}" if skipped else ""
    return f"{number(done)} {_WORDS[operation][1]}{left}{'; stopped' if stopped else ''}"
