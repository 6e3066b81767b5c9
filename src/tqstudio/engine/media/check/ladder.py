"""Checks a published ladder on disk: master playlist, renditions and all their segments.

It reads only the files of the ladder, so any ladder can be checked on any machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import m3u8

from tqstudio.engine.media.check import apple, digests, whole_file
from tqstudio.engine.media.check.apple.package import is_audio_only
from tqstudio.engine.media.check.rendition import verify_rendition, verify_same_length
from tqstudio.engine.media.plan.file_names import INIT_NAME
from tqstudio.engine.media.segments import chapters, dash, storyboard, webvtt
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.playlists import CHAPTERS_ID, iframe_playlist, iframe_rates
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.engine.media.source.measure import tolerance_s
from tqstudio.errors import ErrorCode, TqError
from tqstudio.ladder_files import BUCKET_NAME, FIRST_NAME, is_whole_file
from tqstudio.paths import display

_DURATION_TOLERANCE_S = 0.002
_START_TOLERANCE_S = 0.5
_HINT = "transcode it again: tqstudio add --force SOURCE, or tqstudio job retranscode ID"


@dataclass(frozen=True, slots=True)
class Finding:
    """The check result of one rendition of a master playlist."""

    name: str
    kind: str
    """video, audio or subtitles."""
    check: RenditionCheck | None
    """None if it is invalid."""
    error: TqError | None
    compared: bool = False
    """Whether all bytes were compared with the digests from when it was published."""


@dataclass(frozen=True, slots=True)
class LadderReport:
    """The check result of a ladder."""

    master: Path
    findings: tuple[Finding, ...]
    error: TqError | None
    """An error in the master playlist, a mismatch between renditions, or a violated MUST of Apple's rules."""
    rules: tuple[apple.Result, ...] = ()
    """The outcomes of Apple's rules; empty if there is another error."""
    bucket: str = ""
    """Where its segments are, if they are not here; then nothing else was checked."""
    first_only: bool = False
    """It has one quality, published before the others."""

    @property
    def ok(self) -> bool:
        """Whether no error was found."""
        return self.error is None and all(finding.error is None for finding in self.findings)


def verify_ladder(master: Path, *, every_byte: bool = False) -> LadderReport:
    """Check all renditions of a master playlist. Reads the boxes and packets of all segments; decodes none.

    Args:
        every_byte: also compare all files with their digests from when they were published, if there are any.

    Raises:
        TqError: SOURCE_MISSING or PERMISSION if the master playlist cannot be read.
    """
    shown = display(os.fsencode(master))
    try:
        playlist = _load(master)
        if not playlist.playlists:
            raise _invalid("it lists no quality: it is not a master playlist")
    except FileNotFoundError:
        raise TqError(ErrorCode.SOURCE_MISSING, f"there is no {shown}", "check the path") from None
    except OSError as error:
        raise TqError(ErrorCode.PERMISSION, f"{shown} cannot be read: {error.strerror}") from None
    except TqError as error:
        return LadderReport(master, (), error)
    if bucket := _bucket(master, playlist):
        return LadderReport(master, (), None, bucket=bucket)
    findings = tuple(_findings(master, playlist, every_byte))
    count = len({entry.uri for entry in playlist.playlists})
    qualities = {f.name: f.check for f in findings[:count] if f.check is not None}
    tracks = {f.name: f.check for f in findings[count:] if f.check is not None}
    first_only = _is_first_only(master, playlist)
    rules: tuple[apple.Result, ...] = ()
    try:
        _require_even(qualities, tracks)
        _require_chapters(master, playlist)
        if all(finding.error is None for finding in findings):
            generation = _resolve(master, playlist.playlists[0].uri).parent.parent
            _require_whole_files(generation, qualities, tracks)
            _require_storyboard(generation, next(iter(qualities.values())).duration_s, every_byte)
            with _readable("the MPD"):
                _refuse(dash.damage(master.parent, generation, qualities | tracks))
            _require_own_iframes(playlist)
            with _readable("a file"):
                rules = apple.check(master)
            _refuse(apple.violation(rules))
    except TqError as error:
        wrong = TqError(error.code, error.message, _HINT)
        return LadderReport(master, findings, wrong, rules, first_only=first_only)
    return LadderReport(master, findings, None, rules, first_only=first_only)


def _bucket(master: Path, playlist: Any) -> str:
    """Where the segments of a ladder are, if they are only in a bucket; else empty."""
    with contextlib.suppress(OSError, ValueError, TqError):
        return (_resolve(master, playlist.playlists[0].uri).parent.parent / BUCKET_NAME).read_text()
    return ""


def _is_first_only(master: Path, playlist: Any) -> bool:
    with contextlib.suppress(OSError, TqError):
        return (_resolve(master, playlist.playlists[0].uri).parent.parent / FIRST_NAME).exists()
    return False


def _findings(master: Path, playlist: Any, every_byte: bool) -> Iterator[Finding]:
    iframes = {PurePath(entry.uri).parent: entry for entry in playlist.iframe_playlists}
    # Each is listed once for every group of audio.
    for uri, entry in {entry.uri: entry for entry in playlist.playlists}.items():
        listed = iframes.get(PurePath(uri).parent)
        kind = "audio" if is_audio_only(entry) else "video"
        yield _check(master, uri, kind, entry.stream_info, listed, every_byte)
    qualities = [entry.uri for entry in playlist.playlists]
    tracks = {each.uri: each for each in playlist.media if each.uri and each.uri not in qualities}
    for uri, medium in tracks.items():
        yield _check(master, uri, medium.type.lower(), None, None, every_byte)


def _check(master: Path, uri: str, kind: str, info: Any, iframes: Any, every_byte: bool) -> Finding:
    """Check one rendition.

    Args:
        info: of its entry in the master playlist; None unless it is a quality.
        iframes: the entry of its I-frames; None if it has none.
    """
    name = Path(unquote(uri)).parent.name or uri
    try:
        with _readable(prefix=f"{name}: "):
            index = _resolve(master, uri)
            check = _rendition(index, name, kind)
            if info is not None:
                _require_as_announced(name, info, check, check.peak_bps)
            if iframes is not None:
                _require_iframes(name, _resolve(master, iframes.uri), iframes.iframe_stream_info, check)
            compared = every_byte and _compare(index.parent, index.parent.parent)
    except TqError as error:
        return Finding(name, kind, None, TqError(error.code, error.message, _HINT))
    return Finding(name, kind, check, None, compared)


def _compare(folder: Path, generation: Path) -> bool:
    """Compare all files of a folder with their digests; False if its generation has no digests.

    Raises OUTPUT_INVALID if a file differs or is not listed, OSError if a listed one cannot be read.
    """
    try:
        sums = digests.read(generation / digests.SUMS_NAME)
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise _invalid(f"{folder.name}: {error}") from None
    listed = {path for name in sums if (path := generation / name).parent == folder}
    there = {path for path in folder.iterdir() if path.is_file() and path.name != digests.SUMS_NAME}
    for path in sorted(listed | there):
        name = str(path.relative_to(generation))
        if name not in sums:
            raise _invalid(f"{name} was not published: it is not listed in {digests.SUMS_NAME}")
        if digests.of_file(path) != sums[name]:
            raise _invalid(f"{name} is not what was published: its content has changed")
    return True


def _resolve(master: Path, uri: str) -> Path:
    """The path of a URI in the master playlist, which must be in the folder of the ladder."""
    path = Path(os.path.normpath(master.parent / unquote(uri)))
    if "://" in uri or not path.is_relative_to(master.parent):
        raise _invalid(f"the master playlist refers to {uri}, which is outside its folder")
    return path


def _rendition(index: Path, name: str, kind: str) -> RenditionCheck:
    folder = index.parent
    try:
        playlist = _load(index)
    except FileNotFoundError:
        raise _invalid(f"{name} has no {index.name}") from None
    if not playlist.is_endlist:
        raise _invalid(f"{name}: its playlist does not end (no EXT-X-ENDLIST)")
    expected = [] if kind == "subtitles" else [INIT_NAME]
    if [part.uri for part in playlist.segment_map] != expected:
        raise _invalid(f"{name}: the EXT-X-MAP of its playlist is not {', '.join(expected) or 'empty'}")
    listed = [segment.uri for segment in playlist.segments]
    there = set(SegmentStore(folder).listing())
    if missing := [uri for uri in listed if uri not in there]:
        raise _invalid(f"{name}: {missing[0]} is missing")
    if unlisted := sorted(there - set(listed)):
        raise _invalid(f"{name}: its playlist does not list {unlisted[0]}")
    if kind == "subtitles":
        check = webvtt.inspect(folder, listed, [segment.duration for segment in playlist.segments])
    else:
        check = verify_rendition(folder, video=kind == "video", name=name)
    for segment, found in zip(playlist.segments, check.segments, strict=True):
        if abs(segment.duration - found.duration_s) > _DURATION_TOLERANCE_S:
            durations = f"{segment.duration:.3f} s, it has {found.duration_s:.3f} s"
            raise _invalid(f"{name}: its playlist gives {found.name} {durations}")
        if int(found.duration_s + 0.5) > (playlist.target_duration or 0):
            raise _invalid(f"{name}: {found.name} is longer than its playlist allows (EXT-X-TARGETDURATION)")
    return check


def _require_as_announced(name: str, info: Any, check: RenditionCheck, peak_bps: int) -> None:
    if info.resolution and tuple(info.resolution) != (check.width, check.height):
        announced = "×".join(str(side) for side in info.resolution)
        raise _invalid(f"{name} is announced as {announced} and is {check.width}×{check.height}")
    if info.codecs and check.codecs not in info.codecs.split(","):
        raise _invalid(f"{name} is announced as {info.codecs} and is {check.codecs}")
    if info.bandwidth < peak_bps:
        raise _invalid(f"{name} is announced with {info.bandwidth} bit/s and needs {peak_bps}")


def _require_iframes(name: str, path: Path, info: Any, check: RenditionCheck) -> None:
    """Compare a playlist of I-frames, and its entry in the master playlist, with the segments."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _invalid(f"{name} has no {path.name}") from None
    # Earlier versions listed a short last one too.
    for segments in (check.listed, check.segments):
        iframes = [(segment.name, iframe) for segment in segments for iframe in segment.iframes]
        # Parsing would take longer than all other playlists.
        if content == iframe_playlist(iframes).encode():
            _require_as_announced(f"{name} (I-frames)", info, check, iframe_rates(iframes)[0])
            return
    raise _invalid(f"{name}: {path.name} does not list the key frames of its segments")


def _require_even(videos: dict[str, RenditionCheck], sounds: dict[str, RenditionCheck]) -> None:
    """Check that all qualities have the same frames, and that audio and subtitles cover them.

    The tolerance is that of sources whose times jump.
    """
    verify_same_length(videos)
    cuts = {_cuts(check) for check in videos.values()}
    if len(cuts) > 1:
        raise _invalid("the qualities are not cut at the same places")
    for video in videos.values():
        for name, sound in sounds.items():
            late_s = sound.start_s - video.start_s
            short_s = video.duration_s - sound.duration_s - late_s
            if abs(late_s) > _START_TOLERANCE_S:
                side = "after" if late_s > 0 else "before"
                raise _invalid(f"{name} begins {abs(late_s):.1f} s {side} the video")
            if abs(short_s) > tolerance_s(video.duration_s, unseekable=True):
                side = "before" if short_s > 0 else "after"
                raise _invalid(f"{name} ends {abs(short_s):.1f} s {side} the video")


def _cuts(check: RenditionCheck) -> tuple[int, ...]:
    """The frames of each segment. A short last one counts with the one before, which it joins today."""
    frames = [segment.frames for segment in check.segments]
    return (*frames[:-2], sum(frames[-2:])) if check.ends_short else tuple(frames)


def _require_chapters(master: Path, playlist: Any) -> None:
    """Check the chapters that a master playlist names."""
    for data in playlist.session_data:
        if data.data_id == CHAPTERS_ID:
            path = _resolve(master, data.uri or "")
            with _readable("the chapters"):
                if not chapters.is_valid(path.read_bytes()):
                    raise _invalid(f"{path.name} is not a list of chapters")


def _require_storyboard(generation: Path, length_s: float, every_byte: bool) -> None:
    """Check what is beside the renditions of a video: its storyboard, and the digests of all files there."""
    with _readable():
        if every_byte:
            _compare(generation, generation)
        if (generation / storyboard.WEBVTT_NAME).exists():
            _refuse(storyboard.damage(generation, length_s))


def _require_whole_files(
    generation: Path, qualities: dict[str, RenditionCheck], tracks: dict[str, RenditionCheck]
) -> None:
    """Check the files of the whole video that were published; those of early versions are not listed."""
    try:
        names = [*filter(is_whole_file, digests.read(generation / digests.SUMS_NAME))]
    except FileNotFoundError:
        return
    except ValueError as error:
        raise _invalid(str(error)) from None
    media = [check for check in (*qualities.values(), *tracks.values()) if check.has_init]
    pictures = {check.frames for check in media if check.width}
    sounds = {check.frames for check in media if not check.width}
    for name in names:
        with _readable(name):
            _refuse(whole_file.damage(generation / name, pictures, sounds))


def _require_own_iframes(playlist: Any) -> None:
    """Check that all I-frames belong to a quality, with which they are compared."""
    qualities = {PurePath(entry.uri).parent for entry in playlist.playlists}
    for entry in playlist.iframe_playlists:
        if PurePath(entry.uri).parent not in qualities:
            raise _invalid(f"the master playlist lists {entry.uri}, which belongs to no quality")


def _load(path: Path) -> Any:
    text = path.read_bytes().decode("utf-8", "replace")
    if not text.startswith("#EXTM3U"):
        raise _invalid(f"{path.name} is not a playlist")
    try:
        return m3u8.loads(text)
    except (m3u8.ParseError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise _invalid(f"{path.name} cannot be parsed: {error}") from None


@contextlib.contextmanager
def _readable(what: str = "", *, prefix: str = "") -> Iterator[None]:
    """Convert errors of the file system to OUTPUT_INVALID; without `what`, they name the file themselves."""
    try:
        yield
    except OSError as error:
        at = what or (Path(os.fsdecode(error.filename)).name if error.filename else "a file")
        raise _invalid(f"{prefix}{at} cannot be read: {error.strerror}") from None


def _refuse(wrong: str | None) -> None:
    if wrong:
        raise _invalid(wrong)


def _invalid(what: str) -> TqError:
    return TqError(ErrorCode.OUTPUT_INVALID, what, _HINT)
