"""Which files count as sources: names that are videos, names that are still being written, walking folders.

What the program made itself is no source; how a ladder is told is in `ladder`.

Paths are bytes here, as the kernel gives them. `display` makes one readable for people, `data` gives it to
programs.
"""

from __future__ import annotations

import base64
import os
import re

from tqstudio.errors import ErrorCode, TqError

_HARMLESS = re.compile("[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000]+")
"""What Python takes for unprintable and names are full of: every kind of space, and the two joiners, without
which Persian is misspelt and an emoji falls apart."""


def absolute(path: str) -> str:
    """A path as a person typed it, made absolute without following links.

    Raises:
        TqError: BAD_REQUEST for an empty one, which is what an unset variable of a shell leaves behind, and
            for one that begins at a working directory that was removed.
    """
    if not path:
        raise TqError(
            ErrorCode.BAD_REQUEST, "an empty path was given", "name it; a dot is the folder you are in"
        )
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"the folder you are in is gone, so there is no {display(os.fsencode(path))}",
            "change to one that exists, or give the whole path",
        ) from None


def normal(path: bytes) -> bytes:
    """An absolute path without dots and doubled slashes, also at its beginning, where POSIX keeps two."""
    return b"/" + os.path.normpath(path).lstrip(b"/")


def display(path: bytes) -> str:
    """A path for people, on one line: `readable`, with bytes that are no UTF-8 as escapes too.

    It names no file: what is to be opened, copied or sent is `data`, or the bytes themselves.
    """
    return readable(path.decode("utf-8", "backslashreplace"))


def readable(text: str) -> str:
    """Text of which nothing harms a terminal, breaks a line, turns its direction or hides.

    Control characters, line separators, direction marks, invisible ones, and those whose look nobody knows
    (unassigned, private) are shown as escapes. Spaces and joiners stay.
    """
    if text.isprintable() or _HARMLESS.sub("", text).isprintable():
        return text
    return "".join(
        c if c.isprintable() or _HARMLESS.match(c) else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def data(path: bytes | str | os.PathLike[str]) -> str:
    """A path for programs, as JSON carries it: itself; one that is no UTF-8 as `display` has it.

    Its exact bytes travel beside it: `encode`.
    """
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return display(raw)


def encode(path: bytes | str | os.PathLike[str]) -> str:
    """A path as base64 of its bytes, for messages."""
    return base64.b64encode(os.fsencode(path)).decode("ascii")


def decode(path_b64: str) -> bytes:
    """The bytes of a path from its base64 form.

    Raises:
        ValueError: the text is no base64, or names a path with a NUL byte.
    """
    path = base64.b64decode(path_b64, validate=True)
    if b"\0" in path or not path:
        raise ValueError("not a path")
    return path
