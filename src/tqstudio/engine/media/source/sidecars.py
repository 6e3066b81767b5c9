"""Finds and reads the subtitle files beside a source: `film.srt`, `film.de.forced.ass`, `film.pt-BR.vtt`."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from blake3 import blake3

from tqstudio.engine.media import languages
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import SourceFacts, SubtitleTrack, title_of
from tqstudio.errors import ErrorCode, JobWarning, TqError, WarningCode
from tqstudio.paths import display, encode
from tqstudio.source_files import is_video_name

LARGEST = 8 * 1024 * 1024
"""Bytes; a film has some hundred kB."""
MAX_SIDECARS = 64
"""Files of one source that are read at most."""
_CODECS = {b".srt": "subrip", b".ass": "ass", b".ssa": "ass", b".vtt": "webvtt"}
_UNSUPPORTED = {b".idx", b".sub", b".sup", b".smi", b".ttml"}
_MAX_NAMED = 4
_FORCED, _DEFAULT = "forced", "default"
_HINDI = "hi"
"""After a language it means that the text is for the hearing impaired."""
_ROLES = {_FORCED, "sdh", "cc", _HINDI}
# Codes of rare languages too, which these words hardly mean in the name of a file.
_NO_LANGUAGE = re.compile(
    "aac|ads|alt|ass|avi|bad|big|com|cut|dir|dts|dub|end|low|max|mid|min|mix|mkv|mov|net|new|old|one|org|pro|raw"
    "|srt|ssa|sub|tag|the|top|two|txt|www",
    re.IGNORECASE,
)
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """The subtitle files of a source."""

    tracks: tuple[SubtitleTrack, ...]
    """In the order of their names."""
    warnings: tuple[JobWarning, ...]
    """About files that are left out."""


def find(source: bytes) -> Found:
    """Find the subtitle files of a source, and read them to identify their content.

    Raises OSError if its folder cannot be listed.
    """
    tracks, warnings = [], []
    stem = _stem(os.path.basename(source))
    with source_file.folder_of(source) as folder:
        # Compared as text, because there may be thousands; the dot makes that the same as to compare bytes.
        begins = os.fsdecode(stem + b".")
        beside = [os.fsencode(name) for name in os.listdir(folder) if name.startswith(begins)]
        own = sorted(_own(stem, beside))
        texts = [name for name in own if _extension(name) in _CODECS][:MAX_SIDECARS]
        for name in texts:
            try:
                content = _read(folder, name)
            except OSError as error:
                text = f"{display(name)} cannot be read and is left out: {error.strerror}"
                warnings.append(JobWarning(WarningCode.SUBTITLES_LEFT_OUT, text))
            else:
                tracks.append(_track(os.path.basename(source), name, content))
    if rest := [display(name) for name in own if name not in texts]:
        named = ", ".join(rest[:_MAX_NAMED])
        more = f" and {len(rest) - _MAX_NAMED} more" if len(rest) > _MAX_NAMED else ""
        text = f"left out: {named}{more}; at most {MAX_SIDECARS} files in SRT, ASS or WebVTT are published"
        warnings.append(JobWarning(WarningCode.SUBTITLES_LEFT_OUT, text))
    return Found(tuple(tracks), tuple(warnings))


def with_tracks(facts: SourceFacts, tracks: tuple[SubtitleTrack, ...]) -> SourceFacts:
    """Return facts with these subtitle files instead of those known before."""
    streams = [track for track in facts.subtitles if not track.sidecar]
    return replace(facts, subtitles=(*streams, *tracks))


def renewed(facts: SourceFacts, source: bytes) -> SourceFacts:
    """Return facts with the present subtitle files; unchanged if the folder cannot be listed."""
    try:
        return with_tracks(facts, find(source).tracks)
    except OSError:
        return facts


def read(source: bytes, track: SubtitleTrack) -> bytes:
    """Read a subtitle file that `find` found.

    Raises:
        TqError: SOURCE_CHANGED; as `source_file.unreadable`.
    """
    try:
        with source_file.folder_of(source) as folder:
            content = _read(folder, track.file)
    except OSError as error:
        raise source_file.unreadable(os.path.join(os.path.dirname(source), track.file), error) from error
    if blake3(content).hexdigest() != track.digest:
        raise TqError(
            ErrorCode.SOURCE_CHANGED,
            f"{display(track.file)} changed while it was being transcoded: add the video again",
        )
    return content


def _own(stem: bytes, beside: Collection[bytes]) -> list[bytes]:
    """The names of subtitle files, without those of other videos whose names begin with the same words."""
    others = tuple({_stem(name) + b"." for name in beside if is_video_name(name)} - {stem + b"."})
    return [
        name
        for name in beside
        if _extension(name) in _CODECS.keys() | _UNSUPPORTED and not name.startswith(others)
    ]


def _stem(name: bytes) -> bytes:
    return os.path.splitext(name)[0]


def _extension(name: bytes) -> bytes:
    return os.path.splitext(name)[1].lower()


def _track(source: bytes, name: bytes, content: bytes) -> SubtitleTrack:
    stem, extension = _stem(source), os.fsdecode(_extension(source))
    between = _stem(name)[len(stem) :].decode("utf-8", "replace")
    words = [word for word in between.split(".") if word]
    if words and f".{words[0]}".lower() == extension:
        del words[0]  # film.mp4.de.srt
    if words and words[-1].lower() == _DEFAULT:
        words.pop()
    roles = set()
    while words and words[-1].lower() in _ROLES and (words[-1].lower() != _HINDI or _is_language(words[:-1])):
        roles.add(words.pop().lower())
    language = languages.UNKNOWN
    if _is_language(words):
        language = languages.standard(words.pop())
    role: Literal["", "forced", "captions"] = (
        "" if not roles else "forced" if _FORCED in roles else "captions"
    )
    return SubtitleTrack(
        index=-1,
        codec=_CODECS[_extension(name)],
        language=language,
        title=title_of(" ".join(words)),
        default=False,
        text=True,
        role=role,
        sidecar=encode(name),
        digest=blake3(content).hexdigest(),
    )


def _is_language(words: list[str]) -> bool:
    """Whether the last word is a language."""
    if not words or _NO_LANGUAGE.fullmatch(words[-1]):
        return False
    return languages.standard(words[-1]) != languages.UNKNOWN


def _read(folder: int, name: bytes) -> bytes:
    try:
        # With `os.fdopen` the descriptor of a folder, which it refuses, would stay open.
        with open(name, "rb", opener=lambda each, _: os.open(each, _FLAGS, dir_fd=folder)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            content = file.read(LARGEST + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "it is a symbolic link"
        raise
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST} bytes")
    return content
