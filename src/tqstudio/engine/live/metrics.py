"""Counts what has happened since the supervisor started, in memory, for `GET /metrics`.

`monitoring/exposition.py` writes it at a scrape, with what is the case now. The counters of prometheus-client
would cost every supervisor 1 MB of memory, scraped or not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.live.running_jobs import LiveJob
from tqstudio.engine.live.workload import size_class
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.errors import ErrorClass, ErrorCode, class_of, code_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import JobStatus, RenditionStatus, Step
from tqstudio.protocol.requests import CompleteRequest, ManifestRendition

RECOVERIES: Mapping[str, str] = {
    EventKind.WORKER_LOST: "worker_lost",
    EventKind.REQUEUED_STALE: "stale",
    EventKind.REQUEUED_ABANDONED: "abandoned",
    EventKind.REQUEUED_SUPERVISOR: "supervisor",
}
"""Events of a job that was requeued because its worker or supervisor ended, and the reason that is shown."""
_SOUND = "sound"
_ENCODE_S = (1, 5, 15, 60, 180, 600, 1800, 3600, 7200, 14_400, 43_200)
_SPEED = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50)
_WAIT_S = (1, 5, 15, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200)
_PUBLISH_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Histogram:
    """How many values were at most so large.

    Args:
        bounds: upper bounds of its buckets, ascending; one without bound follows.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = (*bounds, math.inf)
        self._counts = [0] * len(self._bounds)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Returns for each bound how many values do not exceed it."""
        return list(zip(self._bounds, accumulate(self._counts), strict=True))


class Metrics(Part):
    """The counters and histograms of a supervisor; used on the event loop only."""

    triggers = None

    def __init__(self) -> None:
        # Zeros from the start, because Prometheus sees no increase in a series that begins at 1.
        self.recovered = Counter(dict.fromkeys(RECOVERIES.values(), 0))
        codes = {code.value: class_of(code) for code in ErrorCode if class_of(code) is not ErrorClass.REQUEST}
        self.failures = Counter(dict.fromkeys(codes, 0))
        """Attempts that ended with an error."""
        self.retries = Counter({code: 0 for code, of in codes.items() if of is not ErrorClass.FATAL})
        """Those of them after which the job was queued again."""
        self.exhausted = 0
        """Jobs that failed after retries or crashes."""
        self.heartbeats = 0
        self.claim_conflicts = 0
        """Claims of a worker that has a newer process, and those whose lease expired before the answer."""
        self.encode_s: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_ENCODE_S))
        """By class of the quality, as `speed`."""
        self.speed: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_SPEED))
        """Multiples of real time."""
        self.wait_s, self.publish_s = Histogram(_WAIT_S), Histogram(_PUBLISH_S)

    def on_events(self, rows: Sequence[EventRow]) -> None:
        """Counts committed events."""
        for row in rows:
            if (reason := RECOVERIES.get(row.trigger)) is not None:
                self.recovered[reason] += 1
            if row.source != JobStatus.IN_PROGRESS or row.code is None:
                continue
            code = code_of(row.code).value
            self.failures[code] += 1
            if row.target == JobStatus.PENDING:
                self.retries[code] += 1
            elif row.target == JobStatus.FAILED and class_of(code) is not ErrorClass.FATAL:
                self.exhausted += 1

    def claimed(self, waited_us: int) -> None:
        """Records a claim of a job that had been claimable for so long."""
        self.wait_s.observe(max(0, waited_us) / MICROSECOND)

    def published(self, request: CompleteRequest, run: LiveJob | None, now: int, seconds: float) -> None:
        """Records a published result.

        Args:
            run: the last report of its lease.
            now: when the result arrived, µs since 1970 in UTC.
            seconds: time of the publish.
        """
        self.publish_s.observe(seconds)
        if run is None:
            return
        whole_s = request.steps.get(Step.TRANSCODE)
        rows = {row["name"]: row for row in run.renditions or ()}
        for made in request.manifest.renditions:
            row, kind = rows.get(made.name), _class_of(made)
            if row is None or kind is None:
                continue
            if row["started_at"] is not None:
                # The report in which it is complete may not have been sent.
                encode_s = ((row["completed_at"] or now) - row["started_at"]) / MICROSECOND
            elif row["status"] != RenditionStatus.COMPLETED and whole_s is not None:
                encode_s = whole_s  # it began after the last report
            else:
                continue  # an earlier attempt completed it
            media_s = made.duration_s - (run.resumed_at_s or 0.0)
            if encode_s > 0 and media_s > 0:
                self.encode_s[kind].observe(encode_s)
                self.speed[kind].observe(media_s / encode_s)


def _class_of(made: ManifestRendition) -> str | None:
    """Returns the class of a quality, such as `1080p`; None for subtitles."""
    if made.kind == "video" and made.width and made.height:
        return size_class(min(made.width, made.height))
    return _SOUND if made.kind == "audio" else None
