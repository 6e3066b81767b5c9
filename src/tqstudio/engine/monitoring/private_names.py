"""Replaces what a report must not reveal: names of films and folders, the host, the user, addresses."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqstudio.engine.host import log_redaction
from tqstudio.engine.store.library.names import VideoNames
from tqstudio.ladder_files import INIT_NAME
from tqstudio.source_files import AUDIO_EXTENSIONS, VIDEO_EXTENSIONS

_EXTENSIONS = "|".join(sorted(os.fsdecode(each[1:]) for each in VIDEO_EXTENSIONS | AUDIO_EXTENSIONS))
_FILE = re.compile(rf"\.(?:{_EXTENSIONS})(?![\w.])", re.IGNORECASE)
_BEFORE_A_NAME = "\n\"'=:/<>("
"""A file's name is taken to begin after the last of these: too early rather than too late."""
_OWN_FILES = (INIT_NAME, "key-frames.mp4")
_LOGGED_PATH = re.compile(r'\b((?:path|source|title|url)=)(?:"(?:[^"\\]|\\.)*"|[^\s"]+)')
_METADATA = re.compile(
    r"^((?:\[[\w.-]+\] )? {4,})(?!(?:encoder|duration|major_brand|minor_version|compatible_brands"
    r"|handler_name|cpb properties) *: )[^\n:]*: [^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
"""Tags of the source in the output of ffmpeg."""
_PATH = re.compile(
    r"""(?:(?<=["'])|(?<![\w.~+/>"'-]))/(?!(?:usr|proc|sys|dev|etc|run|bin|lib\w*)/)"""
    r"""(?:(?<=["']/)[^"'\n]*|[^\s"'<>:]+)"""
)
_URL = re.compile(r"\b(?!file:)([a-z][a-z0-9+]+://)[^\s\"']+")
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
    # Eight groups, or fewer with two colons: a time has three.
    r"|(?!::1\b)(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|[0-9a-f:]*::[0-9a-f:]+)(?![\w:]))",
    re.IGNORECASE,
)


class PrivateNames:
    """The names of films and folders that a report must not contain.

    Args:
        films: those that the report may mention.
        folders: drop folders and outputs.
    """

    def __init__(self, home: Path, films: Iterable[VideoNames], folders: Iterable[bytes]) -> None:
        roots = sorted(folders)
        named = {
            name: f"<film {film.id}>{_extension(name)}" for film in films for name in _names(film, roots)
        }
        named |= {folder: f"<folder {number}>" for number, folder in enumerate(roots, 1)}
        self._shown = _by_form(named | {os.fsencode(home): "<home>"})

    def replaced(self, text: str) -> str:
        """Replace the names, tags of sources, other paths, and what looks like the name of a source."""
        text = log_redaction.of_program().relative(text)
        text = _replaced(text, self._shown)
        text = _METADATA.sub(r"\1<tag>", text)
        text = _LOGGED_PATH.sub(lambda found: found[0] if "<film" in found[0] else f"{found[1]}<file>", text)
        return _without_files(_PATH.sub("<path>", text))


def without_hosts(text: str) -> str:
    """Replace the names of this computer and its user, addresses of networks, and where URLs lead."""
    text = _ADDRESS.sub("<address>", _URL.sub(r"\1<address>", text))
    names = {os.fsencode(socket.gethostname()): "<host>", os.fsencode(os.path.expanduser("~")): "~"}
    # In a container the user may have no name.
    with contextlib.suppress(KeyError, OSError):
        if (user := getpass.getuser()) != "root":
            names[os.fsencode(user)] = "<user>"
    return _replaced(text, _by_form(names))


def _extension(name: bytes) -> str:
    found = _FILE.search(os.fsdecode(os.path.splitext(name)[1]))
    return found[0] if found else ""


def _names(film: VideoNames, roots: list[bytes]) -> Iterator[bytes]:
    """Everything that a film is called, with the folders between it and its drop folder."""
    name = os.path.basename(film.source)
    yield from (film.source, name, os.path.splitext(name)[0])
    yield from (os.fsencode(text) for text in (film.name, film.title, film.slug) if text)
    for root in roots:
        if film.source.startswith(root + b"/"):
            below = film.source[len(root) + 1 :]
            yield from (below, *filter(None, os.path.dirname(below).split(b"/")))


def _by_form(names: dict[bytes, str]) -> dict[str, str]:
    return {form: shown for name, shown in names.items() for form in log_redaction.forms(name) if form}


def _replaced(text: str, shown: dict[str, str]) -> str:
    """Replace names, the longest first, except as a part of a longer word."""
    found = sorted((form for form in shown if form in text), key=len, reverse=True)
    if not found:
        return text
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, found))})(?!\w)", lambda each: shown[each[0]], text)


def _without_files(text: str) -> str:
    """Replace names of files that no film explains: their source is gone, or was never queued."""
    parts, done = [], 0
    for found in _FILE.finditer(text):
        begins = 1 + max(text.rfind(mark, done, found.start()) for mark in _BEFORE_A_NAME)
        begins = max(begins, done)
        begins += len(text[begins : found.start()]) - len(text[begins : found.start()].lstrip())
        name = text[begins : found.end()]
        if name not in _OWN_FILES and name != found[0]:
            parts += [text[done:begins], "<file>", found[0]]
            done = found.end()
    return "".join([*parts, text[done:]])
