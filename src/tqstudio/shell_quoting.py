"""Quotes commands for bash, whatever bytes their file names contain.

JSON messages cannot contain every file name. A word that is not UTF-8 is sent in bash's own notation,
`$'caf\\xe9.mp4'`, which loses no byte.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence

from tqstudio.paths import readable

_ANSI_C = re.compile(r"\$'(?:[^'\\]|\\.)*'")


def script(commands: Iterable[Sequence[str]]) -> list[str]:
    """Format ffmpeg commands as lines that run in any folder; the first creates their output folders.

    Args:
        commands: words as returned by `transportable`.
    """
    commands = list(commands)
    folders = {posixpath.dirname(word) for argv in commands for word in argv if word.endswith(".m3u8")}
    relative = sorted(folder for folder in folders if folder and not folder.startswith("/"))
    return [line(argv) for argv in [*([["mkdir", "-p", *relative]] if relative else []), *commands]]


def line(argv: Iterable[str]) -> str:
    """Format a command as one printable line for bash.

    Args:
        argv: words as returned by `transportable`.
    """
    return " ".join(_quoted(word) for word in argv)


def transportable(word: str) -> str:
    """Convert a word for JSON: unchanged, or as `$'…'` if it is not UTF-8 or begins with `$'`.

    Args:
        word: as from `os.fsdecode`.
    """
    try:
        word.encode()
    except UnicodeEncodeError:
        return ansi_c(word)
    return ansi_c(word) if word.startswith("$'") else word


def _quoted(word: str) -> str:
    if _ANSI_C.fullmatch(word) and word.isprintable():
        return word
    return shlex.quote(word) if readable(word) == word else ansi_c(word)


def ansi_c(word: str) -> str:
    """Quote a word as `$'…'`, in ASCII.

    Args:
        word: as from `os.fsdecode`.
    """
    escaped = "".join(
        f"\\x{byte:02x}" if byte < 0x20 or byte > 0x7E else chr(byte)
        for byte in word.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    )
    return f"$'{escaped}'"
