"""Turns the WebVTT file of an ended run into a complete stream of the segment store."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.errors import ErrorCode, TqError

_LARGEST = 64 * 1024 * 1024
"""Bytes; a film has some hundred kB."""


def take_subtitles(spec: EncodeSpec, file: Path, store: SegmentStore) -> RenditionCheck:
    """Cut a file of `subtitle_command` into segments, store them, and mark the stream as complete.

    Raises:
        TqError: OUTPUT_EMPTY without text, OUTPUT_INVALID if the file is too large; of the file system.
        OwnershipLostError: another worker may have the job.
    """
    segments = file.with_suffix("")
    try:
        if file.stat().st_size > _LARGEST:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"it has more than {_LARGEST} bytes of text")
        cues = webvtt.parse(file.read_text(encoding="utf-8", errors="replace"))
        segments.mkdir()
        check = webvtt.write(cues, _shift_s(spec), spec.grid, segments)
        spec.require_ownership()
        spec.require_output()
        for segment in check.segments:
            store.put(segments / segment.name)
        store.mark_complete(Complete("webvtt", check))
    except OSError as error:
        raise from_output_error(error, "cannot store subtitles") from error
    return check


def _shift_s(spec: EncodeSpec) -> Fraction:
    """Seconds from the times of the file to those of the grid: without -copyts, the file starts at zero."""
    start = Fraction(round(spec.facts.start_time_s * 1_000_000), 1_000_000) if spec.facts.linear else 0
    return start - spec.grid.zero
