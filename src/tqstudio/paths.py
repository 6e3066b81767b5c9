"""Converts paths: to absolute ones, to printable text, to JSON and back.

Paths are bytes, as the kernel uses them. `display` is for people, `data` and `encode` are for programs.
"""

from __future__ import annotations

import base64
import os
import re

from tqstudio.errors import ErrorCode, TqError

_HARMLESS = re.compile("[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000]+")
"""Characters that Python calls unprintable, but that are common in names: spaces, and the two joiners, which
Persian and emojis need."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ONE_SLASH = re.compile(r"(s3|gs|az|file):/(?=[^/])", re.IGNORECASE)


def is_bucket(path: str) -> bool:
    """Whether this is meant as an address such as `s3://films/vod`; `S3://films` is a wrong one, no path."""
    return _ADDRESS.match(path) is not None


def absolute(path: str) -> str:
    """Make a path that a person typed absolute, without following links; addresses of buckets stay.

    Raises:
        TqError: BAD_REQUEST for an empty path, as from an unset shell variable, for `s3:/films`, and for a
            relative one if the working directory was removed.
    """
    if not path:
        raise TqError(
            ErrorCode.BAD_REQUEST, "an empty path was given", "give a path; a dot is the current folder"
        )
    if is_bucket(path):
        return path
    if _ONE_SLASH.match(path):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{readable(path)} looks like a mistyped address of a bucket",
            readable(f"write {path.replace(':/', '://', 1)} for a bucket, or ./{path} for a folder"),
        )
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"the current folder was removed, so there is no {display(os.fsencode(path))}",
            "change to an existing folder, or give an absolute path",
        ) from None


def normal(path: bytes) -> bytes:
    """Normalise an absolute path: no dots and doubled slashes, not even at its start, as POSIX allows."""
    return b"/" + os.path.normpath(path).lstrip(b"/")


def display(path: bytes) -> str:
    """Convert a path to printable text on one line, with escapes as in `readable` and for non-UTF-8 bytes.

    Only for display: use `data` or the bytes to open or send a path.
    """
    return readable(path.decode("utf-8", "backslashreplace"))


def readable(text: str) -> str:
    """Escape characters that could harm a terminal, break a line, change its direction or hide text.

    These are control characters, line separators, direction marks, invisible, unassigned and private
    characters. Spaces and joiners stay.
    """
    if text.isprintable() or _HARMLESS.sub("", text).isprintable():
        return text
    return "".join(
        c if c.isprintable() or _HARMLESS.match(c) else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def readable_lines(text: str) -> str:
    """Escape each line of a text as `readable` does; tabs become spaces."""
    return "\n".join(readable(line.expandtabs()) for line in text.split("\n"))


def data(path: bytes | str | os.PathLike[str]) -> str:
    """Convert a path to text for JSON: unchanged if it is UTF-8, otherwise as `display` does.

    The exact bytes are sent in addition, see `encode`.
    """
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return display(raw)


def encode(path: bytes | str | os.PathLike[str]) -> str:
    """Encode the bytes of a path as base64."""
    return base64.b64encode(os.fsencode(path)).decode("ascii")


def decode(path_b64: str) -> bytes:
    """Decode the bytes of a path from base64.

    Raises:
        ValueError: the text is not base64, or the path is empty or has a NUL byte.
    """
    path = base64.b64decode(path_b64, validate=True)
    if b"\0" in path or not path:
        raise ValueError("not a path")
    return path
