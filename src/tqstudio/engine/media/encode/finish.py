"""Verifies renditions once all their segments are stored, and records the complete ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tqstudio.engine.media.check.copied import verify_copy
from tqstudio.engine.media.check.rendition import check_audio, check_end, verify_rendition
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.plan.copying import COPY
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of


@dataclass(frozen=True, slots=True)
class Finish:
    """The result of verifying renditions."""

    passed: Mapping[str, RenditionCheck] = field(default_factory=dict)
    failures: Mapping[str, TqError] = field(default_factory=dict)
    """Errors of the renditions that failed; they are removed from the store."""
    end_mismatch: TqError | None = None
    """Set if none passed because the video does not end where the source does."""


def finish(spec: EncodeSpec, states: Sequence[RenditionState]) -> Finish:
    """Join short ends of stored streams, verify them completely, and mark those that pass as complete.

    Raises errors of resources such as DISK_LOW, and OwnershipLostError.
    """
    failures: dict[str, TqError] = {}
    passed: dict[str, RenditionCheck] = {}
    for state in states:
        try:
            passed[state.name] = _verify(spec, state)
        except TqError as error:
            if class_of(error.code) is ErrorClass.RESOURCE:
                raise  # the stream itself may be valid
            spec.require_ownership()
            # The next run must not continue an invalid stream.
            SegmentStore(state.directory).discard()
            failures[state.name] = error
    whole = [state for state in states if state.name in passed]
    if mismatch := _end_mismatch(spec, whole, passed):
        return Finish(failures=failures, end_mismatch=mismatch)
    for state in whole:
        try:
            complete = Complete(state.encoder, passed[state.name], state.warning, state.duplicate)
            SegmentStore(state.directory).mark_complete(complete)
        except OSError as error:
            raise from_output_error(error, f"{state.name}: cannot record the finished stream") from error
    return Finish(passed, failures)


def _verify(spec: EncodeSpec, state: RenditionState) -> RenditionCheck:
    if state.kind == "subtitles":
        names = SegmentStore(state.directory).listing()
        return webvtt.inspect(state.directory, names, webvtt.durations(spec.grid))
    spec.require_ownership()
    try:
        SegmentStore(state.directory).join_short_end()
    except OSError as error:
        raise from_output_error(error, f"{state.name}: cannot join its last segments") from error
    check = verify_rendition(state.directory, spec.grid if state.kind == "video" else None, name=state.name)
    if state.encoder == COPY:
        verify_copy(state.directory, spec.source, spec.facts, spec.grid, state.name)
    if state.kind == "audio":
        check_audio(spec.facts, spec.grid, check, state.name)
    return check


def _end_mismatch(
    spec: EncodeSpec, states: Sequence[RenditionState], checks: Mapping[str, RenditionCheck]
) -> TqError | None:
    video = [state for state in states if state.kind == "video"]
    try:
        for frames in {checks[state.name].frames for state in video}:
            check_end(spec.source, spec.facts, spec.grid, frames)
    except TqError as error:
        if error.code is ErrorCode.OUTPUT_INVALID:
            spec.require_ownership()
            # So that the next attempt encodes the end again.
            for state in video:
                SegmentStore(state.directory).remove(checks[state.name].segments[-1].name)
        return error
    return None
