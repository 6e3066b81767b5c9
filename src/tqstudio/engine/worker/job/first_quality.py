"""Reports the first quality of a ladder when it is complete, while the others are encoded."""

from __future__ import annotations

from pathlib import Path

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.poster import is_poster_complete
from tqstudio.engine.worker.job import manifest
from tqstudio.engine.worker.job.attempt import Attempt


class FirstQuality:
    """The quality of an attempt that is published before the others, if there is one."""

    def __init__(self, attempt: Attempt, encode: LadderEncode, poster: Path) -> None:
        self._attempt, self._encode, self._poster = attempt, encode, poster
        self._is_reported = encode.spec.first is None

    def report(self) -> None:
        """Report it once, as soon as it is complete with all sound and subtitles.

        Raises:
            StopWork: the lease ended.
            TqError: the source has changed.
            OSError: from the file system.
        """
        if self._is_reported or not self._is_complete():
            return
        self._is_reported = True
        attempt, name = self._attempt, self._encode.spec.first
        assert attempt.source is not None
        attempt.source.original.require_same()
        poster = self._poster if is_poster_complete(self._poster) else None
        check = attempt.lease.check
        listed = manifest.build(attempt.work_dir, attempt.choice, self._encode, poster, check, name)
        attempt.log.line(f"{name} is complete and may be published before the others")
        attempt.report.publish_first(listed)

    def _is_complete(self) -> bool:
        """Whether others are still encoded, and all that is published with it is there or has failed."""
        states, name = self._encode.renditions, self._encode.spec.first
        left = {state.name for state in states if state.status not in ("completed", "failed")}
        tracks = {state.name for state in states if state.kind != "video"}
        is_made = any(state.name == name and state.status == "completed" for state in states)
        return self._encode.state == "running" and is_made and bool(left) and left.isdisjoint(tracks)
