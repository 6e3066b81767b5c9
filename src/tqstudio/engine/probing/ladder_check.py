"""Compares a ladder that other machines made with its source, and decodes a sample of it."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import av.error

from tqstudio import paths
from tqstudio.engine.media.check.rendition import (
    check_audio,
    check_end,
    published_grid,
    verify_rendition,
    verify_same_length,
)
from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.checked import CheckedSegment, RenditionCheck
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.media.source.probe import probe
from tqstudio.engine.probing.ladder_views import LadderRequest, StreamPlace, StreamView, listing_digest
from tqstudio.errors import ErrorCode, TqError

_CHOICE = random.SystemRandom()
_DECODER = {"err_detect": "explode", "threads": "1"}
"""Damage is an error instead of a guess at the picture."""


def examine(
    request: LadderRequest, choose: Callable[[int], int] = _CHOICE.randrange
) -> dict[str, StreamView]:
    """Check every stream of a ladder; returns what was found, by name.

    The packets of the source are read for the grid that each stream has to fill. Of each stream, one random
    segment is decoded.

    Args:
        choose: picks the segment, out of so many.

    Raises:
        TqError: OUTPUT_INVALID, with the stream; as `probe`, of the source.
    """
    work_dir = Path(os.fsdecode(paths.decode(request["work_dir_b64"])))
    profile = Profile.from_json(request["profile"])
    source, facts, grid = None, None, None
    if request["source_b64"] is not None:
        source = paths.decode(request["source_b64"])
        facts = probe(source)
        facts = replace(facts, unseekable=facts.unseekable or request["unseekable"])
        videos = (work_dir / each["folder"] for each in request["streams"] if each["kind"] == "video")
        grid = published_grid(facts, profile, next(videos, None))
    found = {
        each["name"]: _verify(work_dir / each["folder"], each, source, facts, grid)
        for each in request["streams"]
        # The segments of subtitles have no length of their own.
        if grid is not None or each["kind"] != "subtitles"
    }
    video = {each["name"]: found[each["name"]] for each in request["streams"] if each["kind"] == "video"}
    verify_same_length(video)
    for each in request["streams"]:
        if each["kind"] != "subtitles":
            segments = found[each["name"]].segments
            _decode(work_dir / each["folder"], each, segments[choose(len(segments))])
    return {name: _view(check) for name, check in found.items()}


def _verify(
    directory: Path,
    stream: StreamPlace,
    source: bytes | None,
    facts: SourceFacts | None,
    grid: Grid | None,
) -> RenditionCheck:
    name = stream["name"]
    if stream["kind"] == "subtitles" and grid is not None:
        names, lengths = SegmentStore(directory).listing(), webvtt.durations(grid)
        if len(names) != len(lengths):
            raise _invalid(name, f"has {len(names)} segments instead of {len(lengths)}")
        return webvtt.inspect(directory, names, lengths)
    is_video = stream["kind"] == "video"
    found = verify_rendition(directory, grid if is_video else None, video=is_video, name=name)
    if grid is not None and facts is not None and source is not None:
        if is_video:
            check_end(source, facts, grid, found.frames)
        else:
            check_audio(facts, grid, found, name)
    return found


def _decode(directory: Path, stream: StreamPlace, segment: CheckedSegment) -> None:
    """Decode a segment by itself; each of its pictures must come out, and each of its audio frames."""
    content = (directory / INIT_NAME).read_bytes() + (directory / segment.name).read_bytes()
    count = 0
    try:
        # Without the edit list, which would leave out what precedes the first segment.
        with av.open(io.BytesIO(content), mode="r", format="mp4", options={"ignore_editlist": "1"}) as made:
            track = made.streams[0]
            track.codec_context.options = _DECODER
            for frame in made.decode(track):
                count += not getattr(frame, "is_corrupt", False)
    except (av.error.FFmpegError, ValueError) as error:
        raise _invalid(stream["name"], f"cannot be decoded in {segment.name}: {error}") from error
    if count != segment.frames:
        raise _invalid(stream["name"], f"has {count} of {segment.frames} frames in {segment.name}")


def _view(check: RenditionCheck) -> StreamView:
    return {
        "listing": listing_digest((each.name, each.size, each.duration_s) for each in check.segments),
        "width": check.width,
        "height": check.height,
        "codecs": check.codecs,
    }


def _invalid(name: str, what: str) -> TqError:
    return TqError(ErrorCode.OUTPUT_INVALID, f"{name} {what}")
