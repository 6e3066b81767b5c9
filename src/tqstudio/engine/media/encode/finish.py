"""Proves that renditions are whole once all their segments are stored, and records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tqstudio.engine.media.check.rendition import check_end, check_sound, verify_rendition
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState
from tqstudio.engine.media.ffmpeg.process import from_output_error
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of


@dataclass(frozen=True, slots=True)
class Finish:
    """What became of renditions that were thought to be whole."""

    passed: Mapping[str, RenditionCheck] = field(default_factory=dict)
    failures: Mapping[str, TqError] = field(default_factory=dict)
    """Those that did not pass, and why. Nothing of them is left that would be found again."""
    misfit: TqError | None = None
    """Why none of them passed: they do not end where the source does."""


def finish(spec: EncodeSpec, states: Sequence[RenditionState]) -> Finish:
    """Verify stored streams from end to end; those that pass are never made again.

    Raises:
        TqError: DISK_LOW and such.
        NotOursError: another worker has the job.
    """
    failures: dict[str, TqError] = {}
    passed: dict[str, RenditionCheck] = {}
    for state in states:
        grid = spec.grid if state.kind == "video" else None
        try:
            passed[state.name] = verify_rendition(state.directory, grid, name=state.name)
            if grid is None:
                check_sound(spec.facts, spec.grid, passed[state.name], state.name)
        except TqError as error:
            if class_of(error.code) is ErrorClass.RESOURCE:
                raise  # nothing is known of the stream
            spec.require_ours()
            # Whatever is wrong with it must not be found again by the next run.
            SegmentStore(state.directory).discard()
            passed.pop(state.name, None)
            failures[state.name] = error
    whole = [state for state in states if state.name in passed]
    if misfit := _misfit(spec, whole, passed):
        return Finish(failures=failures, misfit=misfit)
    for state in whole:
        try:
            complete = Complete(state.encoder, passed[state.name])
            SegmentStore(state.directory).mark_complete(complete)
        except OSError as error:
            raise from_output_error(error, f"{state.name}: recording the finished stream failed") from error
    return Finish(passed, failures)


def _misfit(
    spec: EncodeSpec, states: Sequence[RenditionState], checks: Mapping[str, RenditionCheck]
) -> TqError | None:
    video = [state for state in states if state.kind == "video"]
    try:
        for frames in {checks[state.name].frames for state in video}:
            check_end(spec.source, spec.facts, spec.grid, frames)
    except TqError as error:
        if error.code is ErrorCode.OUTPUT_INVALID:
            spec.require_ours()
            # The next attempt has to find the end anew.
            for state in video:
                SegmentStore(state.directory).remove(checks[state.name].segments[-1].name)
        return error
    return None
