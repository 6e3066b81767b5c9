"""Runs the encode of a job and watches over it: progress, stalls, and the wish to stop."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqstudio import paths, shell_quoting
from tqstudio.engine.files.volumes import occupied_bytes, still_to_come
from tqstudio.engine.media.encode import poster as pictures
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import NotOursError, RenditionState
from tqstudio.engine.worker.job.attempt_log import AttemptLog
from tqstudio.engine.worker.job.limits import Deadline
from tqstudio.engine.worker.job.manifest import warning_views
from tqstudio.engine.worker.job.rendition_choice import Choice, rows
from tqstudio.engine.worker.job.source import ExaminedSource
from tqstudio.engine.worker.lease import Lease, StopWork
from tqstudio.engine.worker.outcome import Lost
from tqstudio.engine.worker.progress_report import Pace, Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Step
from tqstudio.units import size

TRANSCODE_ENDS_AT = 97.0
"""Percent of a job that its encode is; verifying, hashing and publishing are the rest."""
_LOOK_S = 0.1


def require_space(
    output: Path, store: Path, source: ExaminedSource, encode: LadderEncode, reserve: int, factor: float
) -> None:
    """Make sure that what is missing of the ladder fits, unless the store has all of it.

    Args:
        store: where the video's finished segments are, which take their part already.

    Raises:
        TqError: DISK_LOW.
    """
    if all(state.status == "completed" for state in encode.renditions):
        return
    free = shutil.disk_usage(output).free
    needed = reserve + still_to_come(source.facts.size, factor, occupied_bytes(store))
    if free < needed:
        where = paths.display(os.fsencode(output))
        raise TqError(
            ErrorCode.DISK_LOW,
            f"the disk of {where} has {size(free)} free, {size(needed)} are needed"
            f" ({size(reserve)} of them stay free)",
        )


def transcode(
    encode: LadderEncode, poster: Path, lease: Lease, watch: Watch, stall_s: float, deadline: Deadline
) -> None:
    """Make what is missing. ffmpeg is dead when this returns or raises. Call it from the main thread.

    Args:
        poster: where the poster goes as soon as it is made, for this attempt and later ones.
        stall_s: seconds without any advance after which ffmpeg is ended.

    Raises:
        StopWork: the lease ended.
        TqError: why the encode failed; STALLED when nothing moved for `stall_s`, TIMEOUT behind the deadline.
    """
    lost = False
    try:
        encode.start()
        watch.look()
        while encode.state == "running":
            lease.check()
            deadline.check()
            encode.step()
            _keep_poster(encode, poster)
            watch.look()
            _require_advance(encode, stall_s)
            if encode.state == "running":
                time.sleep(_LOOK_S)
    except StopWork as stop:
        lost = isinstance(stop.outcome, Lost)
        raise
    except NotOursError as gone:
        lost = True
        raise StopWork(Lost(str(gone))) from None
    finally:
        # Who lost the job touches nothing any more.
        encode.kill(store=not lost)
        watch.look()
    if encode.error is not None:
        raise encode.error


def _keep_poster(encode: LadderEncode, poster: Path) -> None:
    if encode.poster is not None and encode.poster != poster:
        encode.poster = pictures.keep(encode.poster, poster)


class Watch:
    """Carries what an encode shows into the report and the log.

    Args:
        gpu: the GPU encoder that was to make it.
    """

    def __init__(
        self,
        encode: LadderEncode,
        source: ExaminedSource,
        choice: Choice,
        report: Report,
        log: AttemptLog,
        gpu: str | None,
    ) -> None:
        self._encode = encode
        self._source = source
        self._choice = choice
        self._report = report
        self._log = log
        self._gpu = gpu
        self._linear = source.facts.linear
        self._pace = Pace()
        self._runs = 0
        self._warnings = 0
        self._notes = 0
        self._damage = 0
        self._poster_s = 0.0

    def look(self) -> None:
        """Tell what is new."""
        encode = self._encode
        states = encode.renditions
        speeds = [s.speed for s in states if s.kind == "video" and s.status == "in_progress" and s.speed]
        self._report.advance(
            encode.fraction * TRANSCODE_ENDS_AT,
            min(speeds, default=None),
            self._pace.eta_s(encode.fraction),
        )
        self._report.show(rows(self._choice, {state.name: state for state in states}, self._gpu))
        for note in encode.notes[self._notes :]:
            self._log.line(note)
        self._notes = len(encode.notes)
        if len(encode.warnings) > self._warnings:
            for warning in encode.warnings[self._warnings :]:
                self._log.line(f"warning: {warning.code}: {warning.text}")
            self._warnings = len(encode.warnings)
            self._report.tell(warnings=warning_views(encode.warnings))
        if encode.mode == "linear" and not self._linear:
            self._linear = True
            self._log.line("seeking in this source misses the frame: it is decoded from its start")
            self._tell_facts()
        if len(encode.damage) > self._damage:
            self._damage = len(encode.damage)
            self._tell_facts()
        if len(encode.runs) > self._runs:
            self._tell_runs()
        if encode.poster_s > self._poster_s:
            self._poster_s = encode.poster_s
            self._report.end(Step.THUMBNAIL, encode.poster_s)
            self._log.line(f"{Step.THUMBNAIL}: took {encode.poster_s:.2f} s, beside the rest")
        self._log.follow(encode.runs)

    def _tell_facts(self) -> None:
        """Report what the encode has found out about the source, for every later attempt."""
        facts = self._source.facts
        facts = replace(facts, linear=self._linear, damage=(*facts.damage, *self._encode.damage))
        self._report.tell(facts=facts.to_json(), content_id=self._source.content_id)

    def _tell_runs(self) -> None:
        runs = self._encode.runs
        for run in runs[self._runs :]:
            if run.starts_at_s:
                where = f"segment {run.resumed_from}, at {run.starts_at_s:.1f} s"
                how = ", decoding from the start of the source" if run.mode == "linear" else ""
                self._log.line(f"[{run.label}] goes on at {where}{how}")
        self._runs = len(runs)
        videos = [run for run in runs if run.label.startswith("video")]
        self._report.tell(
            argv=[[shell_quoting.transportable(word) for word in run.argv] for run in runs],
            resumed_from=videos[0].resumed_from if videos else None,
            resumed_at_s=round(videos[0].starts_at_s, 3) if videos else None,
            encoder=videos[-1].encoder if videos else None,
        )


def inventory(states: Sequence[RenditionState]) -> str:
    """What of a ladder is made: `720p 4 of 6 segments, 480p whole, audio-en not begun`."""
    return ", ".join(f"{state.name} {_made(state)}" for state in states) or "nothing"


def _made(state: RenditionState) -> str:
    if state.status == "completed":
        return "whole"
    if not state.segments_done and not state.prefix.fragments:
        return "not begun"
    return f"{state.segments_done} of {state.segments_total} segments"


def _require_advance(encode: LadderEncode, stall_s: float) -> None:
    if encode.state == "running" and time.monotonic() - encode.last_advance > stall_s:
        raise TqError(ErrorCode.STALLED, f"ffmpeg made no progress for {stall_s:g} s and was ended")
