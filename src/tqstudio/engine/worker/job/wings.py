"""Names the wings of a worker's process; each is imported when a job needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tqstudio.engine.media.encode.ladder_encode import LadderEncode
    from tqstudio.engine.worker.job.attempt import Attempt
    from tqstudio.errors import JobWarning


class Quality(Protocol):
    """Finds CRFs for `video.quality`, and measures what they reached."""

    def find(self, attempt: Attempt) -> Sequence[JobWarning]:
        """Decide the CRFs that are missing of a job, adding them to `Attempt.crfs`; a failure is a warning.

        Raises:
            StopWork: the lease ended.
            TqError: a resource is short, or the source changed.
        """

    def measure(self, attempt: Attempt, encode: LadderEncode) -> Mapping[str, str]:
        """Measure what was made of the largest rungs: name → remark. Raises as `find`."""


def quality() -> Quality:
    return import_module("tqstudio.wings.quality.work").WORK  # type: ignore[no-any-return]
