"""Turns the WebVTT file of an ended run into a complete stream of the segment store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqstudio.engine.media.encode import text_encoding
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.track_commands import SUBTITLE_OFFSET_S
from tqstudio.engine.media.plan.subtitles import IN_PICTURES
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.engine.media.source import sidecars, source_file
from tqstudio.engine.media.source.facts import SubtitleTrack
from tqstudio.errors import ErrorCode, TqError

_LARGEST = 64 * 1024 * 1024
"""Bytes; a film has some hundred kB."""
# Shapes that ASS draws with the commands of a pen, which ffmpeg writes as text.
_DRAWING = re.compile(r"\s*m( +-?\d+(\.\d+)?| +[mnlbspc])+\s*")
_COMMENT = re.compile(r"(?<!\\)\{[^}\\]*\}")


def sidecar_content(spec: EncodeSpec, name: str) -> bytes | None:
    """Read the file beside the source from which a rendition is made; None for a stream."""
    track = _track(spec, name)
    return sidecars.read(spec.source, track) if track.sidecar else None


def changed_sidecars(spec: EncodeSpec, states: Sequence[RenditionState]) -> dict[str, TqError]:
    """Find complete renditions whose file beside the source has changed or is gone: name → error."""
    changed = {}
    for state in states:
        try:
            if state.kind == "subtitles" and state.status == "completed":
                sidecar_content(spec, state.name)
        except TqError as error:
            changed[state.name] = error
    return changed


def take_subtitles(spec: EncodeSpec, file: Path, store: SegmentStore, *, unseekable: bool) -> Complete:
    """Cut a WebVTT file of a run into segments, store them, and mark the stream as complete.

    Args:
        unseekable: whether its run read the source on a clock of its own that starts at zero.

    Raises:
        TqError: OUTPUT_EMPTY without text, OUTPUT_INVALID if there is too much; of the file system.
        OwnershipLostError: another worker may have the job.
    """
    segments = file.with_suffix("")
    try:
        if file.stat().st_size > _LARGEST:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"it has more than {_LARGEST} bytes of text")
        track = _track(spec, file.stem)
        cues = webvtt.parse(text_encoding.decode(file.read_bytes(), track.language))
        if track.codec in ("ass", "ssa"):
            # ffmpeg writes its hard spaces and comments as they are.
            texts = [_COMMENT.sub("", cue.text).replace(r"\h", "\N{NO-BREAK SPACE}") for cue in cues]
            cues = [replace(cue, text=text) for cue, text in zip(cues, texts, strict=True) if text.strip()]
        cues = [cue for cue in cues if not _DRAWING.fullmatch(cue.text)]
        segments.mkdir()
        # Players count the times of a file from the start of the source, wherever its clock is then. Captions
        # in the pictures are read with the times of the source, however other runs read it.
        from_zero = bool(track.sidecar) or (unseekable and track.codec != IN_PICTURES)
        check = webvtt.write(cues, _shift_ms(spec, from_zero), spec.grid, segments)
        lost = len(cues) - check.frames
        warning = f"{lost} of {len(cues)} texts have no time within the video" if lost else ""
        complete = Complete("webvtt", check, warning)
        spec.require_ownership()
        spec.require_output()
        source_file.require_same(spec.source, spec.identity)
        store.put_all(segments)
        store.mark_complete(complete)
    except OSError as error:
        raise from_output_error(error, "cannot store subtitles") from error
    return complete


def _track(spec: EncodeSpec, name: str) -> SubtitleTrack:
    return next(each.track for each in spec.subtitles if each.name == name)


def _shift_ms(spec: EncodeSpec, from_zero: bool) -> int:
    """From the times of the file to those of the grid."""
    start_s = spec.facts.start_time_s if from_zero else 0.0
    return round((start_s - float(spec.grid.zero) - SUBTITLE_OFFSET_S) * 1000)
