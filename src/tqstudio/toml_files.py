"""Reads the TOML files of a home: settings, profiles, themes; and words errors about wrong values."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tqstudio.paths import readable

MAX_BYTES = 64_000
MAX_LINE = 1_000
"""Characters. `tomllib` takes minutes for a key of many thousand parts and fails at numbers of as many
digits."""


class UnusableToml(ValueError):
    """Why a text or file cannot be used as TOML, worded to follow its name and a colon."""


def parse(text: str) -> dict[str, Any]:
    """Parses a TOML text.

    Raises:
        UnusableToml: it is not TOML, or too long or nested for `tomllib`.
    """
    if any(len(line) > MAX_LINE for line in text.splitlines()):
        raise UnusableToml(f"a line in it has more than {MAX_LINE} characters")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnusableToml(f"it is not valid TOML: {error}") from None
    except RecursionError:
        raise UnusableToml("it is nested too deeply") from None


def read(path: Path) -> dict[str, Any]:
    """Reads and parses a TOML file of at most `MAX_BYTES`; never blocks on a special file.

    Raises:
        UnusableToml: it is no regular file, too large, not UTF-8, or not TOML.
        OSError: from the file system.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnusableToml("it is not a regular file")
        if found.st_size > MAX_BYTES:
            raise UnusableToml(f"it has {found.st_size} bytes, more than {MAX_BYTES}")
        content = os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        # Editors of Windows begin a file with a byte order mark.
        return parse(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnusableToml("it is not UTF-8 text") from None


def written(value: object, most: int = 100) -> str:
    """Write a value as in the file or request, such as `true` or `"x"`, with at most so many characters."""
    text = readable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= most else f"{text[:most]}…"


def near(wrong: str, known: Iterable[str]) -> str:
    """The beginning of a hint, `did you mean retry? `, if a known name is close to a wrong one."""
    from difflib import get_close_matches

    found = get_close_matches(wrong, list(known), 1)
    return f"did you mean {found[0]}? " if found else ""


def one_of(wrong: str, known: Sequence[str]) -> str:
    """The hint for a value that is none of those known."""
    return f"{near(wrong, known)}use one of {', '.join(known)}"
