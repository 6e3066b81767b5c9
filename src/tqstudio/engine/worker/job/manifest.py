"""Builds the manifest of an encode, from which the supervisor publishes (`requests.Manifest`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from tqstudio.engine.media import languages
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.check.rendition import verify_same_length
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import RenditionState
from tqstudio.engine.media.plan.audio import AudioRendition
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import SubtitleRendition
from tqstudio.engine.media.plan.video_codecs import CODECS
from tqstudio.engine.media.segments.checked import CheckedSegment, RenditionCheck
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.chapters import within
from tqstudio.engine.media.source.colour import range_of
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.worker.job.failure import printable
from tqstudio.engine.worker.job.rendition_choice import RenditionChoice
from tqstudio.errors import MAX_ERROR_TEXT, ErrorCode, JobWarning, TqError

if TYPE_CHECKING:
    from tqstudio.protocol.answers import WarningView


def build(
    work_dir: Path,
    choice: RenditionChoice,
    encode: LadderEncode,
    poster: Path | None,
    check: Callable[[], None],
    first: str | None = None,
) -> dict[str, Any]:
    """Build the manifest of a finished encode, or of its first quality with all sound and subtitles.

    Args:
        work_dir: its folder names are relative to this folder.
        encode: its failed optional renditions are left out.
        first: the quality to publish before the others; None for all.
        check: called before each file is hashed; its exceptions abort.

    Raises:
        TqError: OUTPUT_INVALID if the qualities differ in length, or one was not verified.
        OSError: from the file system.
    """
    spec, grid, facts = encode.spec, encode.spec.grid, encode.spec.facts
    completed = [
        (state, _checked(state))
        for state in encode.renditions
        if state.status == "completed" and (state.kind != "video" or first in (None, state.name))
    ]
    # Again, because stored renditions may be from different attempts.
    verify_same_length({state.name: found for state, found in completed if state.kind == "video"})
    tracks: dict[str, AudioRendition | SubtitleRendition] = {each.name: each for each in choice.audio}
    tracks |= {each.name: each for each in choice.subtitles}
    rungs = {rung.name: rung for rung in choice.make}
    board = encode.side.storyboard
    keys = {state.name: state.settings_hash for state, _ in completed} | dict(choice.keep)
    return {
        "renditions": [
            _rendition(work_dir, state, found, tracks.get(state.name), check)
            | (_video(found, grid, facts, rungs[state.name]) if state.kind == "video" else {})
            for state, found in completed
        ],
        "keep": sorted(choice.keep),
        "poster": None if poster is None else str(poster.relative_to(work_dir)),
        "storyboard": str(board.folder.relative_to(work_dir)) if board and board.is_stored else None,
        # Without a quality of which it would be made, the video is the same.
        "keep_storyboard": choice.storyboard and all(rung.hdr for rung in choice.make),
        "dash": spec.profile.dash,
        "files": [] if first else [*spec.profile.files],
        "chapters": [asdict(each) for each in within(facts.chapters or (), grid.zero, grid.length)],
        "settings_hash": combined(keys),
        "warnings": warning_views(encode.warnings),
        # The supervisor compares it with the source once more before it publishes.
        "source": spec.identity._asdict(),
    }


def warning_views(warnings: Sequence[JobWarning]) -> list[WarningView]:
    """Convert warnings for the API."""
    return [{"code": each.code.value, "text": printable(each.text)[:MAX_ERROR_TEXT]} for each in warnings]


def combined(keys: Mapping[str, str]) -> str:
    """Compute the settings hash of a whole ladder: 32 hex digits."""
    text = "".join(f"{name}={key}\n" for name, key in sorted(keys.items()))
    return blake3(text.encode()).hexdigest()[:32]


def _rendition(
    work_dir: Path,
    state: RenditionState,
    found: RenditionCheck,
    track: AudioRendition | SubtitleRendition | None,
    check: Callable[[], None],
) -> dict[str, Any]:
    return {
        "name": state.name,
        "kind": state.kind,
        "folder": str(state.directory.relative_to(work_dir)),
        "segments": [_segment(state.directory, segment, check) for segment in found.listed],
        "init_size": SegmentStore(state.directory).init_path.stat().st_size if found.has_init else 0,
        "codecs": found.codecs,
        "duration_s": found.duration_s,
        "average_bps": found.avg_bps,
        "peak_bps": found.peak_bps,
        "settings_hash": state.settings_hash,
        "stream_key": state.stream_key,
        "linked_from": state.duplicate,
        **({} if track is None else _of_track(track)),
    }


def _segment(folder: Path, segment: CheckedSegment, check: Callable[[], None]) -> dict[str, Any]:
    check()
    return {
        "name": segment.name,
        "size": segment.size,
        "duration_s": segment.duration_s,
        "blake3": digests.of_file(folder / segment.name),
        "iframes": segment.iframes,
    }


def _video(check: RenditionCheck, grid: Grid, facts: SourceFacts, rung: Rung) -> dict[str, Any]:
    keeps_captions = facts.captions and not facts.video.loses_messages
    return {
        "width": check.width,
        "height": check.height,
        "frame_rate": float(grid.fps),
        "video_range": range_of(facts.video) if rung.hdr else "SDR",
        "role": "captions" if keeps_captions and CODECS[rung.codec].captions else "",
    }


def _of_track(rendition: AudioRendition | SubtitleRendition) -> dict[str, Any]:
    track, known = rendition.track, rendition.track.language != languages.UNKNOWN
    about: dict[str, Any] = {
        "language": track.language,
        "title": printable(track.title) or (languages.name(track.language) if known else None),
        "role": track.role,
    }
    if isinstance(rendition, AudioRendition):
        about |= {
            "channels": rendition.channels,
            "default": rendition.default,
            "surround_of": rendition.surround_of,
        }
    return about


def _checked(state: RenditionState) -> RenditionCheck:
    if state.check is None:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{state.name} was never verified")
    return state.check
