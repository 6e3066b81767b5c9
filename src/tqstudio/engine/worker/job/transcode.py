"""Runs the encode of a job: reports its progress, and ends it on stalls, timeouts and stop requests."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqstudio import paths, shell_quoting
from tqstudio.engine.files.volumes import occupied_bytes, still_to_come
from tqstudio.engine.media.encode.division import catches_up, division
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.poster import store_poster
from tqstudio.engine.media.encode.values import OwnershipLostError, RenditionState
from tqstudio.engine.media.plan.rungs import max_files_bytes, max_ladder_bytes
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.first_quality import FirstQuality
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.job.manifest import warning_views
from tqstudio.engine.worker.job.rendition_choice import RenditionChoice, rows
from tqstudio.engine.worker.job.source import ExaminedSource
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Lost
from tqstudio.engine.worker.reporting.progress_report import Pace, Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step
from tqstudio.units import size

TRANSCODE_ENDS_AT = 97.0
"""Progress of a job in percent at the end of its encode; the rest is verifying, hashing and publishing."""
_POLL_S = 0.1


def require_space(
    output: Path, store: Path, source: ExaminedSource, encode: LadderEncode, reserve: int, factor: float
) -> None:
    """Check that the missing part of the ladder fits on the disk, else raise DISK_LOW.

    The segments in `store`, the folder of the video, already use their part of the space.
    """
    if all(state.status == "completed" for state in encode.renditions):
        return
    free = shutil.disk_usage(output).free
    most = max_ladder_bytes(source.facts, encode.spec.profile)
    files = max_files_bytes(source.facts, encode.spec.profile)
    needed = reserve + still_to_come(source.facts.size, factor, most, occupied_bytes(store), files)
    if free < needed:
        where = paths.display(os.fsencode(output))
        raise TqError(
            ErrorCode.DISK_LOW,
            f"the disk of {where} has {size(free)} free, {size(needed)} are needed"
            f" (of which {size(reserve)} stay free)",
        )


def transcode(
    encode: LadderEncode,
    poster: Path,
    lease: Lease,
    watch: Watch,
    stall_s: float,
    deadline: Deadline,
    first: FirstQuality,
) -> None:
    """Encode the missing parts. ffmpeg is dead when this returns or raises. Call it from the main thread.

    Args:
        poster: path to which the poster is moved once it is extracted, for this attempt and later ones.
        first: what is reported meanwhile.
        stall_s: seconds without progress after which ffmpeg is killed.

    Raises:
        StopWork: the lease ended.
        TqError: the error of the encode; STALLED without progress for `stall_s`, TIMEOUT at the deadline,
            SOURCE_DAMAGED as soon as decoding shows damage that the profile refuses.
    """
    lost = False
    try:
        encode.start()
        watch.update()
        while encode.state == "running":
            lease.check()
            deadline.check()
            encode.step()
            deadline.advance(sum(state.segments_done for state in encode.renditions))
            _keep_poster(encode, poster)
            watch.update()
            watch.require_accepted()
            first.report()
            _require_advance(encode, stall_s, watch.log)
            if encode.state == "running":
                time.sleep(_POLL_S)
    except StopWork as stop:
        lost = isinstance(stop.outcome, Lost)
        raise
    except OwnershipLostError as gone:
        lost = True
        raise StopWork(Lost(str(gone))) from None
    finally:
        # Without the lease nothing may be stored any more.
        encode.kill(store=not lost)
        watch.update()
    if encode.error is not None:
        raise encode.error


def _keep_poster(encode: LadderEncode, poster: Path) -> None:
    if encode.side.poster is not None and encode.side.poster != poster:
        encode.side.poster = store_poster(encode.side.poster, poster)


@dataclass
class Watch:
    """Copies the state of an encode to the progress report and the log of the attempt."""

    encode: LadderEncode
    source: ExaminedSource
    choice: RenditionChoice
    report: Report
    log: AttemptLog
    gpu: str | None
    """The intended GPU encoder, if any."""
    _pace: Pace = field(default_factory=Pace)
    # What was reported already.
    _unseekable: bool = False
    _runs: int = 0
    _warnings: int = 0
    _notes: int = 0
    _damage: int = 0
    _poster_s: float = 0.0

    def update(self) -> None:
        """Report and log all changes since the last call."""
        encode = self.encode
        states = encode.renditions
        names = {rung.name for rung in self.choice.ladder}
        speeds = [s.speed for s in states if s.name in names and s.status == "in_progress" and s.speed]
        self.report.advance(
            encode.fraction * TRANSCODE_ENDS_AT, min(speeds, default=None), self._pace.eta_s(encode.fraction)
        )
        self.report.show(rows(self.choice, {state.name: state for state in states}, self.gpu))
        if not catches_up(encode):
            self.report.divide(division(encode))
        for note in encode.notes[self._notes :]:
            self.log.line(note)
        self._notes = len(encode.notes)
        if len(encode.warnings) > self._warnings:
            for warning in encode.warnings[self._warnings :]:
                self.log.line(f"warning: {warning.code}: {warning.text}")
            self._warnings = len(encode.warnings)
            self.report.add(warnings=warning_views(encode.warnings))
        if encode.spec.facts.unseekable and not (self._unseekable or self.source.facts.unseekable):
            self._unseekable = True
            self.log.line("seeking in this source is inaccurate: it is decoded from its start")
            self._report_facts()
        if len(encode.damage) > self._damage:
            self._damage = len(encode.damage)
            self._report_facts()
        if len(encode.runs) > self._runs:
            self._report_runs()
        if encode.side.poster_s > self._poster_s:
            self._poster_s = encode.side.poster_s
            self.report.end(Step.EXTRAS, encode.side.poster_s)
            self.log.line(f"{Step.EXTRAS}: took {encode.side.poster_s:.2f} s, in parallel to the encode")
        # Those of runs that have ended are in their records.
        used = [(run.cpu_s, run.peak_memory) for run in encode.runs]
        used += [(task.run.cpu_s, task.run.peak_memory) for task in encode.tasks]
        self.report.use(sum(cpu_s for cpu_s, _ in used), max((memory for _, memory in used), default=0))
        self.log.follow(encode.runs)

    def require_accepted(self) -> None:
        """Refuse what decoding showed, as `ExaminedSource.require_accepted`."""
        self.source.require_accepted(self.encode.spec.profile, self.encode.damage)

    def _report_facts(self) -> None:
        """Report what the encode found out about the source, for later attempts."""
        facts = self.encode.spec.facts
        facts = replace(facts, damage=(*facts.damage, *self.encode.damage))
        self.report.add(facts=facts.to_json(), content_id=self.source.content_id)

    def _report_runs(self) -> None:
        runs = self.encode.runs
        for run in runs[self._runs :]:
            if run.starts_at_s:
                where = f"segment {run.resumed_from}, at {run.starts_at_s:.1f} s"
                how = ", decoding from the start of the source" if run.unseekable else ""
                self.log.line(f"[{run.label}] resumes at {where}{how}")
        self._runs = len(runs)
        videos = [run for run in runs if run.label.startswith("video")]
        # The storyboard's input exists only during its run.
        repeatable = [run.argv for run in runs if run.label != "storyboard"]
        self.report.add(
            argv=[[shell_quoting.transportable(word) for word in argv] for argv in repeatable],
            resumed_from=videos[0].resumed_from if videos else None,
            resumed_at_s=round(videos[0].starts_at_s, 3) if videos else None,
            encoder=videos[-1].encoder if videos else None,
        )


def inventory(states: Sequence[RenditionState]) -> str:
    """Summarise the progress of a ladder: `720p 4 of 6 segments, 480p complete, audio-en not started`."""
    return ", ".join(f"{state.name} {_summary(state)}" for state in states) or "nothing"


def _summary(state: RenditionState) -> str:
    if state.status == "completed":
        return "complete"
    if not state.kept:
        return "not started"
    return f"{state.segments_done} of {state.segments_total} segments"


def _require_advance(encode: LadderEncode, stall_s: float, log: AttemptLog) -> None:
    if encode.state != "running" or time.monotonic() - encode.last_advance <= stall_s:
        return
    labels = [encode.runs[task.number].label for task in encode.tasks]
    for label, task in zip(labels, encode.tasks, strict=True):
        log.line(f"[{label}] stalled after {task.run.cpu_s:.1f} s of CPU: {', '.join(task.run.threads())}")
    what = f"ffmpeg ({', '.join(labels)})" if labels else "ffmpeg"
    stalled = TqError(ErrorCode.STALLED, f"{what} made no progress for {stall_s:g} s and was killed")
    if not encode.leave_device(stalled):
        raise stalled
