"""Commands as text that bash runs as they were run, whatever bytes their file names hold.

A message is JSON, which cannot carry every name. A word that is no UTF-8 travels as bash itself writes it,
`$'caf\\xe9.mp4'`: people can read it, bash can run it, and no byte is lost.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence

from tqstudio.paths import readable

_ANSI_C = re.compile(r"\$'(?:[^'\\]|\\.)*'")


def script(commands: Iterable[Sequence[str]]) -> list[str]:
    """Commands of ffmpeg as lines that run in any folder: the first makes the folders that they write to.

    Args:
        commands: words as `transportable` made them.
    """
    commands = list(commands)
    folders = {posixpath.dirname(word) for argv in commands for word in argv if word.endswith(".m3u8")}
    made = sorted(folder for folder in folders if folder and not folder.startswith("/"))
    return [line(argv) for argv in [*([["mkdir", "-p", *made]] if made else []), *commands]]


def line(argv: Iterable[str]) -> str:
    """A command on one readable line, ready for bash.

    Args:
        argv: words as `transportable` made them.
    """
    return " ".join(_quoted(word) for word in argv)


def transportable(word: str) -> str:
    """A word as messages carry it: itself, or `$'…'` where it is no UTF-8 or could be taken for such a form.

    Args:
        word: as Python has it (`os.fsdecode`).
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
    """A word as `$'…'`, in ASCII.

    Args:
        word: as Python has it (`os.fsdecode`).
    """
    escaped = "".join(
        f"\\x{byte:02x}" if byte < 0x20 or byte > 0x7E else chr(byte)
        for byte in word.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    )
    return f"$'{escaped}'"
