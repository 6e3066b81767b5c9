"""Turns the text of an ended run into a complete stream of the segment store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqstudio.engine.media.encode import text_encoding
from tqstudio.engine.media.encode.values import EncodeSpec, RenditionState
from tqstudio.engine.media.ffmpeg.errors import from_output_error
from tqstudio.engine.media.ffmpeg.text_commands import ASS, SUBTITLE_OFFSET_S, script_name, text_name
from tqstudio.engine.media.plan.subtitles import IN_PICTURES
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.store import Complete, SegmentStore
from tqstudio.engine.media.source import sidecars
from tqstudio.engine.media.source.facts import SubtitleTrack
from tqstudio.errors import ErrorCode, TqError

_LARGEST = 64 * 1024 * 1024
"""Bytes; a film has some hundred kB."""
# Shapes that ASS draws with the commands of a pen, which ffmpeg writes as text.
_DRAWING = re.compile(r"\s*m( +-?\d+(\.\d+)?| +[mnlbspc])+\s*")
# What places a text in ASS, but no drawing, which the text of the same line follows.
_ELSEWHERE = re.compile(r"^Dialogue:(?!.*\\p[1-9]).*?\\(?:pos|move)\(", re.MULTILINE)
_SIDE = re.compile(r"\{\\an([1-9])\}")
_FONT = re.compile(r"</?font\b[^>]*>")
_ROWS = "", " line:50%", " line:0"
_COLUMNS = " position:5% align:left", "", " position:95% align:right"
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


def take_subtitles(
    spec: EncodeSpec, folder: Path, name: str, store: SegmentStore, *, unseekable: bool
) -> Complete:
    """Cut the text of a rendition from a run into segments, store them, and mark the stream as complete.

    Args:
        folder: that of the run.
        unseekable: whether its run read the source on a clock of its own that starts at zero.

    Raises:
        TqError: OUTPUT_EMPTY without text, OUTPUT_INVALID if there is too much; of the file system.
        OwnershipLostError: another worker may have the job.
    """
    segments, track = folder / name, _track(spec, name)
    try:
        file = text_name(track, name)
        cues = webvtt.parse(_text(folder / file, track))
        if file.endswith(".srt"):
            cues = [_placed(cue) for cue in cues]
        lost = []
        if track.codec in ASS:
            # ffmpeg writes its hard spaces and comments as they are.
            texts = [_COMMENT.sub("", cue.text).replace(r"\h", "\N{NO-BREAK SPACE}") for cue in cues]
            cues = [replace(cue, text=text) for cue, text in zip(cues, texts, strict=True) if text.strip()]
            if moved := len(_ELSEWHERE.findall(_text(folder / script_name(name), track))):
                lost.append(
                    f"{moved} of {len(cues)} texts are at an edge of the pictures, not at their place"
                )
        drawn, cues = len(cues), [cue for cue in cues if not _DRAWING.fullmatch(cue.text)]
        if drawn > len(cues):
            lost.append(f"{drawn - len(cues)} of {drawn} texts are drawings, and are left out")
        segments.mkdir()
        # Players count the times of a file from the start of the source, wherever its clock is then. Captions
        # in the pictures are read with the times of the source, however other runs read it.
        from_zero = bool(track.sidecar) or (unseekable and track.codec != IN_PICTURES)
        check = webvtt.write(cues, _shift_ms(spec, from_zero), spec.grid, segments)
        if late := len(cues) - check.frames:
            lost.append(f"{late} of {len(cues)} texts have no time within the video, and are left out")
        complete = Complete("webvtt", check, "; ".join(lost))
        spec.require_ownership()
        spec.require_output()
        spec.original.require_same()
        store.put_all(segments)
        store.mark_complete(complete)
    except OSError as error:
        raise from_output_error(error, "cannot store subtitles") from error
    return complete


def _text(file: Path, track: SubtitleTrack) -> str:
    if file.stat().st_size > _LARGEST:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"it has more than {_LARGEST} bytes of text")
    return text_encoding.decode(file.read_bytes(), track.language)


def _placed(cue: webvtt.Cue) -> webvtt.Cue:
    """A cue of SRT as WebVTT: on the side that it names by the place of a key in a number pad."""
    side = _SIDE.search(cue.text)
    text = _FONT.sub("", _SIDE.sub("", cue.text))
    row, column = divmod(int(side[1]) - 1, 3) if side else (0, 1)
    return replace(cue, text=text, settings=cue.settings + _ROWS[row] + _COLUMNS[column])


def _track(spec: EncodeSpec, name: str) -> SubtitleTrack:
    return next(each.track for each in spec.subtitles if each.name == name)


def _shift_ms(spec: EncodeSpec, from_zero: bool) -> int:
    """From the times of the file to those of the grid."""
    start_s = spec.facts.start_time_s if from_zero else 0.0
    return round((start_s - float(spec.grid.zero) - SUBTITLE_OFFSET_S) * 1000)
