"""Runs the encode of a job and watches over it: progress, stalls, and the wish to stop."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tqstudio import shell, sources
from tqstudio.engine.media.encode import LadderEncode
from tqstudio.engine.media.encode_state import EncodeSpec, RenditionState, look_up_audio, look_up_video
from tqstudio.engine.media.layout import GPU_ENCODERS
from tqstudio.engine.worker.attempt_log import AttemptLog
from tqstudio.engine.worker.choice import Choice, rows
from tqstudio.engine.worker.lease import Lease
from tqstudio.engine.worker.report import Pace, Report
from tqstudio.errors import ErrorCode, TqError
from tqstudio.units import size

TRANSCODE_ENDS_AT = 97.0
"""Percent of a job that its encode is; verifying, hashing and publishing are the rest."""
_LOOK_S = 0.1


def require_space(sink: Path, spec: EncodeSpec, choice: Choice, reserve: int, factor: float) -> None:
    """Make sure that the ladder fits, unless the store has all of it.

    Raises:
        TqError: DISK_LOW.
    """
    if all(state.status == "completed" for state in _look_up(spec, choice)):
        return
    free = shutil.disk_usage(sink).free
    needed = reserve + int(factor * spec.facts.size)
    if free < needed:
        where = sources.display(os.fsencode(sink.parent.parent))
        raise TqError(
            ErrorCode.DISK_LOW,
            f"the disk of {where} has {size(free)} free, {size(needed)} are needed"
            f" ({size(reserve)} of them stay free)",
        )


def transcode(
    spec: EncodeSpec,
    choice: Choice,
    poster: Path,
    lease: Lease,
    report: Report,
    log: AttemptLog,
    stall_s: float,
) -> LadderEncode:
    """Make what is missing. ffmpeg is dead when this returns or raises. Call it from the main thread.

    Args:
        poster: where the poster goes as soon as it is made, for this attempt and later ones.
        stall_s: seconds without any advance after which ffmpeg is ended.

    Raises:
        StopWork: the lease ended.
        TqError: why the encode failed; STALLED when nothing moved for `stall_s`.
    """
    encode = LadderEncode(spec)
    watch = _Watch(spec, choice, report, log)
    try:
        encode.start()
        watch.look(encode)
        while encode.state == "running":
            lease.check()
            encode.step()
            _keep_poster(encode, poster)
            watch.look(encode)
            _require_advance(encode, stall_s)
            if encode.state == "running":
                time.sleep(_LOOK_S)
    finally:
        encode.kill()
        watch.look(encode)
    if encode.error is not None:
        raise encode.error
    return encode


def _keep_poster(encode: LadderEncode, poster: Path) -> None:
    if encode.poster is not None and encode.poster != poster:
        encode.poster = encode.poster.replace(poster)


class _Watch:
    """Carries what an encode shows into the report and the log."""

    def __init__(self, spec: EncodeSpec, choice: Choice, report: Report, log: AttemptLog) -> None:
        self._choice = choice
        self._report = report
        self._log = log
        self._gpu = spec.encoder if spec.encoder in GPU_ENCODERS else None
        self._pace = Pace()
        self._runs = 0
        self._warnings = 0

    def look(self, encode: LadderEncode) -> None:
        states = encode.renditions
        speeds = [s.speed for s in states if s.kind == "video" and s.status == "in_progress" and s.speed]
        self._report.advance(
            encode.fraction * TRANSCODE_ENDS_AT,
            min(speeds, default=None),
            self._pace.eta_s(encode.fraction),
        )
        self._report.show(rows(self._choice, {state.name: state for state in states}, self._gpu))
        self._log.follow(encode.runs)
        for warning in encode.warnings[self._warnings :]:
            self._log.line(f"warning: {warning}")
        self._warnings = len(encode.warnings)
        if len(encode.runs) > self._runs:
            self._runs = len(encode.runs)
            self._tell_runs(encode)

    def _tell_runs(self, encode: LadderEncode) -> None:
        videos = [run for run in encode.runs if run.label.startswith("video")]
        self._report.tell(
            argv=[[shell.transportable(word) for word in run.argv] for run in encode.runs],
            resumed_from=min((run.resumed_from for run in videos), default=None),
            encoder=videos[-1].encoder if videos else None,
        )


def _require_advance(encode: LadderEncode, stall_s: float) -> None:
    if encode.state == "running" and time.monotonic() - encode.last_advance > stall_s:
        raise TqError(ErrorCode.STALLED, f"ffmpeg made no progress for {stall_s:g} s and was ended")


def _look_up(spec: EncodeSpec, choice: Choice) -> Iterator[RenditionState]:
    yield from (look_up_video(spec, rung) for rung in choice.make)
    yield from (look_up_audio(spec, sound) for sound in choice.audio)
