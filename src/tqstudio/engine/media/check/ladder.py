"""Checks a published ladder as it lies on disk: from its master playlist to the last frame of every quality.

It knows nothing but the files: a ladder can be checked on any machine, whoever made it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import m3u8

from tqstudio.engine.media.check import digests
from tqstudio.engine.media.check.rendition import verify_rendition, verify_same_length
from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, Grid
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.inspect import Torn, inspect_init, inspect_segment
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.measure import tolerance_s
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

_DURATION_TOLERANCE_S = 0.002
_START_TOLERANCE_S = 0.5
_HINT = "make it again: tqstudio add --force SOURCE, or tqstudio job retranscode ID"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rendition that a master playlist names, and what it turned out to be."""

    name: str
    kind: str
    """video or audio."""
    check: RenditionCheck | None
    """None where it is broken."""
    error: TqError | None
    compared: bool = False
    """Every byte was read and is what was published."""


@dataclass(frozen=True, slots=True)
class LadderReport:
    """What a ladder turned out to be."""

    master: Path
    findings: tuple[Finding, ...]
    error: TqError | None
    """What is wrong with the master playlist, or between its renditions."""

    @property
    def ok(self) -> bool:
        return self.error is None and all(finding.error is None for finding in self.findings)


def verify_ladder(master: Path, *, every_byte: bool = False) -> LadderReport:
    """Check everything that a master playlist names. Looks at the parts of every segment, decodes none.

    Args:
        every_byte: read all of every file too and compare it with its digest from when it was published,
            where there is one.

    Raises:
        TqError: the playlist itself is not there or may not be read.
    """
    try:
        playlist = _load(master)
        if not playlist.playlists:
            raise _invalid("it names no video: it is no master playlist")
    except FileNotFoundError:
        shown = display(os.fsencode(master))
        raise TqError(ErrorCode.SOURCE_MISSING, f"there is no {shown}", "check the path") from None
    except OSError as error:
        shown = display(os.fsencode(master))
        raise TqError(ErrorCode.PERMISSION, f"{shown} cannot be read: {error.strerror}") from None
    except TqError as error:
        return LadderReport(master, (), error)
    findings = tuple(_findings(master, playlist, every_byte))
    videos = {f.name: f.check for f in findings if f.kind == "video" and f.check is not None}
    sounds = {f.name: f.check for f in findings if f.kind == "audio" and f.check is not None}
    return LadderReport(master, findings, _difference(videos) or _uneven(videos, sounds))


def _findings(master: Path, playlist: Any, every_byte: bool) -> Iterator[Finding]:
    for entry in playlist.playlists:
        yield _look_at(master, entry.uri, "video", entry.stream_info, every_byte)
    seen: set[str] = set()
    for medium in playlist.media:
        if medium.uri and medium.uri not in seen:
            seen.add(medium.uri)
            yield _look_at(master, medium.uri, "audio", None, every_byte)


def _look_at(master: Path, uri: str, kind: str, info: Any, every_byte: bool) -> Finding:
    name = Path(unquote(uri)).parent.name or uri
    try:
        index = _beside(master, uri)
        check = _rendition(index, name, video=kind == "video")
        if info is not None:
            _require_as_announced(name, info, check)
        compared = every_byte and _compare(index.parent)
    except TqError as error:
        return Finding(name, kind, None, TqError(error.code, error.message, _HINT))
    except OSError as error:
        at = Path(os.fsdecode(error.filename)).name if error.filename else "a file"
        return Finding(name, kind, None, _invalid(f"{name}: {at} cannot be read: {error.strerror}"))
    return Finding(name, kind, check, None, compared)


def _compare(folder: Path) -> bool:
    """Read every file of a rendition; False where its digests were never written.

    Raises:
        TqError: OUTPUT_INVALID when one is not what was published.
    """
    try:
        sums = digests.read(folder.parent / digests.SUMS_NAME)
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise _invalid(f"{folder.name}: {error}") from None
    there = sorted(path for path in folder.iterdir() if path.is_file())
    for path in there:
        name = f"{folder.name}/{path.name}"
        if name not in sums:
            raise _invalid(f"{name} was not published: {digests.SUMS_NAME} does not name it")
        if digests.of_file(path) != sums[name]:
            raise _invalid(f"{name} is not what was published: its bytes have changed")
    return True


def _beside(master: Path, uri: str) -> Path:
    """The file that an address in a playlist names; it must lie with the ladder."""
    path = Path(os.path.normpath(master.parent / unquote(uri)))
    if "://" in uri or not path.is_relative_to(master.parent):
        raise _invalid(f"the master playlist names {uri}, which does not lie beside it")
    return path


def _rendition(index: Path, name: str, *, video: bool) -> RenditionCheck:
    folder = index.parent
    try:
        playlist = _load(index)
    except FileNotFoundError:
        raise _invalid(f"{name} has no {index.name}") from None
    if not playlist.is_endlist:
        raise _invalid(f"{name}: its playlist does not end (no EXT-X-ENDLIST)")
    if [part.uri for part in playlist.segment_map] != [INIT_NAME]:
        raise _invalid(f"{name}: its playlist does not begin with {INIT_NAME}")
    listed = [segment.uri for segment in playlist.segments]
    there = set(SegmentStore(folder).listing())
    if missing := [uri for uri in listed if uri not in there]:
        raise _invalid(f"{name}: {missing[0]} is missing")
    if unlisted := sorted(there - set(listed)):
        raise _invalid(f"{name}: its playlist does not name {unlisted[0]}")
    check = verify_rendition(folder, _grid(folder, listed) if video else None, name=name)
    for segment, found in zip(playlist.segments, check.segments, strict=True):
        if abs(segment.duration - found.duration_s) > _DURATION_TOLERANCE_S:
            said = f"{segment.duration:.3f} s, it has {found.duration_s:.3f} s"
            raise _invalid(f"{name}: its playlist gives {found.name} {said}")
        if int(found.duration_s + 0.5) > (playlist.target_duration or 0):
            raise _invalid(f"{name}: {found.name} is longer than its playlist allows (EXT-X-TARGETDURATION)")
    return check


def _grid(folder: Path, listed: list[str]) -> Grid | None:
    """The grid that the segments themselves tell of; None where they tell of none and will be refused."""
    init = inspect_init(folder / INIT_NAME) if (folder / INIT_NAME).exists() else Torn("")
    found = [inspect_segment(folder / uri) for uri in listed]
    whole = [segment for segment in found if not isinstance(segment, Torn)]
    if isinstance(init, Torn) or not whole or len(whole) < len(found):
        return None
    frames, length = sum(s.frames for s in whole), sum(s.duration for s in whole)
    if not frames or not length or not whole[0].frames:
        return None
    return Grid(
        fps=Fraction(frames * init.timescale, length),
        gop=whole[0].frames,
        seg_frames=whole[0].frames,
        g0=0,
        total_frames=frames,
        start_time=TIMELINE_START_S - Fraction(whole[0].tfdt, init.timescale),
    )


def _require_as_announced(name: str, info: Any, check: RenditionCheck) -> None:
    if info.resolution and tuple(info.resolution) != (check.width, check.height):
        announced = "×".join(str(side) for side in info.resolution)
        raise _invalid(f"{name} is announced as {announced} and is {check.width}×{check.height}")
    if info.codecs and check.codecs not in info.codecs.split(","):
        raise _invalid(f"{name} is announced as {info.codecs} and is {check.codecs}")
    if info.bandwidth < check.peak_bps:
        raise _invalid(f"{name} is announced with {info.bandwidth} bit/s and needs {check.peak_bps}")


def _difference(videos: dict[str, RenditionCheck]) -> TqError | None:
    try:
        verify_same_length(videos)
    except TqError as error:
        return TqError(error.code, error.message, _HINT)
    cuts = {tuple(segment.frames for segment in check.segments) for check in videos.values()}
    return _invalid("the qualities are not cut at the same places") if len(cuts) > 1 else None


def _uneven(videos: dict[str, RenditionCheck], sounds: dict[str, RenditionCheck]) -> TqError | None:
    """Find sound that does not cover the picture. Where a source's clock jumps, it may be 5 % off."""
    for video in videos.values():
        for name, sound in sounds.items():
            late_s = sound.start_s - video.start_s
            short_s = video.duration_s - sound.duration_s - late_s
            if abs(late_s) > _START_TOLERANCE_S:
                side = "after" if late_s > 0 else "before"
                return _invalid(f"{name} begins {abs(late_s):.1f} s {side} the picture")
            if abs(short_s) > tolerance_s(video.duration_s, linear=True):
                side = "before" if short_s > 0 else "after"
                return _invalid(f"{name} ends {abs(short_s):.1f} s {side} the picture")
    return None


def _load(path: Path) -> Any:
    text = path.read_bytes().decode("utf-8", "replace")
    if not text.startswith("#EXTM3U"):
        raise _invalid(f"{path.name} is no playlist")
    try:
        return m3u8.loads(text)
    except (m3u8.ParseError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise _invalid(f"{path.name} cannot be understood: {error}") from None


def _invalid(what: str) -> TqError:
    return TqError(ErrorCode.OUTPUT_INVALID, what, _HINT)
