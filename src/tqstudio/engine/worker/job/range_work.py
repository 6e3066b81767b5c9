"""Encodes some segments of a job that another worker has, so that one video uses all idle workers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from tqstudio.engine.media.encode.division import RangeEncode
from tqstudio.engine.media.encode.values import OwnershipLostError
from tqstudio.engine.media.segments.collector import InitDiffersError, SeamError
from tqstudio.engine.worker.job.attempt import Attempt
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.reporting.lease import StopWork
from tqstudio.engine.worker.reporting.outcome import Lost, Outcome, RangeMade, problem_of
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step
from tqstudio.protocol.worker_answers import AssignedRange

_POLL_S = 0.1


@dataclass
class RangeWork(Attempt):
    """The steps of one range: nothing but its segments is made."""

    encode: RangeEncode | None = None
    assigned: AssignedRange = field(init=False)

    def __post_init__(self) -> None:
        assigned = self.job.get("range")
        assert assigned is not None, "the job is claimed as a range"
        self.assigned = assigned

    def run(self) -> RangeMade:
        with self.step(Step.PROBE):
            self.examine()
        with self.scratch_folder(), self.step(Step.TRANSCODE):
            try:
                self._transcode()
            except OwnershipLostError as gone:
                raise StopWork(Lost(str(gone))) from None
            except (InitDiffersError, SeamError) as error:
                raise TqError(ErrorCode.OUTPUT_INVALID, str(error)) from error
        return RangeMade()

    def _transcode(self) -> None:
        assert self.source is not None
        spec = self.spec(poster=False)
        deadline = Deadline(self.config.time_limit.of(self.source.facts, self.choice.make, spec.encoder))
        assigned = self.assigned
        encode = self.encode = RangeEncode(spec, assigned["first"], assigned["end"], assigned["streams"])
        try:
            while encode.step():
                self.lease.check()
                deadline.advance(sum(encode.done.values()))
                deadline.check()
                if time.monotonic() - encode.last_advance > self.config.stall_s:
                    raise TqError(ErrorCode.STALLED, "ffmpeg made no progress")
                self.report.show(self._rows(encode))
                self.log.follow(encode.runs)
                time.sleep(_POLL_S)
        finally:
            encode.kill()
            self.report.show(self._rows(encode))
            self.log.follow(encode.runs)

    def _rows(self, encode: RangeEncode) -> list[dict[str, object]]:
        return [
            {"name": name, "status": "in_progress", "segments_done": done}
            for name, done in encode.done.items()
        ]

    def log_outcome(self, outcome: Outcome) -> None:
        """Log the outcome, and how many segments are made."""
        made = min(self.encode.done.values()) if self.encode is not None else 0
        assigned = self.assigned
        what = f"{made} of the segments {assigned['first']} to {assigned['end'] - 1} made"
        self.log.line(": ".join(filter(None, (what, problem_of(outcome)))))

    @property
    def _scratch_dir(self) -> Path:
        whole = super()._scratch_dir
        # A killed worker may have left one of the same range.
        return whole.with_name(f"{whole.name}-{self.assigned['first']}-{os.getpid()}")

    def _remove_old(self, root: Path) -> None:
        del root  # the worker that has the job removes what others leave
