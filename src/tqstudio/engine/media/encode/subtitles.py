"""Turns the WebVTT file of an ended run into a complete stream of the segment store."""

from __future__ import annotations

import re
from pathlib import Path

from tqstudio.engine.media.encode.values import EncodeSpec
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.track_commands import SUBTITLE_OFFSET_S
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.engine.media.source import source_file
from tqstudio.errors import ErrorCode, TqError

_LARGEST = 64 * 1024 * 1024
"""Bytes; a film has some hundred kB."""
# Shapes that ASS draws with the commands of a pen, which ffmpeg writes as text.
_DRAWING = re.compile(r"\s*m( +-?\d+(\.\d+)?| +[mnlbspc])+\s*")


def take_subtitles(spec: EncodeSpec, file: Path, store: SegmentStore, *, linear: bool) -> RenditionCheck:
    """Cut a file of `subtitle_command` into segments, store them, and mark the stream as complete.

    Args:
        linear: whether its run read the source on a clock of its own that starts at zero.

    Raises:
        TqError: OUTPUT_EMPTY without text, OUTPUT_INVALID if there is too much; of the file system.
        OwnershipLostError: another worker may have the job.
    """
    segments = file.with_suffix("")
    try:
        if file.stat().st_size > _LARGEST:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"it has more than {_LARGEST} bytes of text")
        cues = webvtt.parse(file.read_text(encoding="utf-8", errors="replace"))
        cues = [cue for cue in cues if not _DRAWING.fullmatch(cue.text)]
        segments.mkdir()
        check = webvtt.write(cues, _shift_ms(spec, linear), spec.grid, segments)
        spec.require_ownership()
        spec.require_output()
        source_file.require_same(spec.source, spec.identity)
        store.put_all(segments)
        store.mark_complete(Complete("webvtt", check))
    except OSError as error:
        raise from_output_error(error, "cannot store subtitles") from error
    return check


def _shift_ms(spec: EncodeSpec, linear: bool) -> int:
    """From the times of the file to those of the grid."""
    start_s = spec.facts.start_time_s if linear else 0.0
    return round((start_s - float(spec.grid.zero) - SUBTITLE_OFFSET_S) * 1000)
