"""Makes paths in logs relative, so that logs can be shared without revealing the locations of folders.

Replaces the text of known folders, the roots, in all forms in which logs contain them: as they are, as the
project displays them, and as bash, Python, ffmpeg and log lines quote them.
"""

from __future__ import annotations

import functools
import os
import re
import sys

import tqstudio
from tqstudio import paths, shell_quoting

Folder = bytes | str | os.PathLike[str]

# Not in the middle of another path, but after an escaped line break or the two slashes of a URL. The slash
# comes first because that matches ten times as fast.
_BEGINS = r"/(?:(?<![\w./~+-]/)|(?<=\\n/)|(?<=:///))"
_BELOW = r"(/+(?=[^'\"`\n]))"
_EXACT = r"/*(?![\w/~+%=#@\udc80-\udcff-]|\.\w|\\+[xuU])"
# The folders of an absolute path, whose names may have spaces; not those of a URL.
_FOLDERS = re.compile(_BEGINS + r"(?=[^\s/])(?:(?:(?! /)[^/\n'\"`:])+/(?=[^\s'\"`]))*")
_CONTROLS_OF_FFMPEG = re.compile("[\x01-\x07\x0e-\x1f]")
"""Characters that ffmpeg prints as `?`."""


class Roots:
    """Folders to redact in logs, except `/`."""

    def __init__(self, *folders: Folder) -> None:
        self._forms = frozenset(form for folder in folders for form in _forms(os.fsencode(folder)))

    def __or__(self, other: Roots) -> Roots:
        if other._forms <= self._forms:
            return self
        both = Roots()
        both._forms = self._forms | other._forms
        return both

    def relative(self, text: str) -> str:
        """Make paths in a text relative to their longest root; a root itself becomes `.`."""
        if not self._forms or "/" not in text:
            return text
        return self._pattern.sub(lambda found: "" if found[1] else ".", text)

    def names(self, text: str) -> str:
        """Make paths relative, a root its name, and a path below no root the last of its names."""
        if "/" not in text:
            return text
        if self._forms:
            text = self._pattern.sub(lambda found: "" if found[1] else _last_name(found[0]), text)
        return _FOLDERS.sub("", text)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        listed = "|".join(re.escape(form[1:]) for form in sorted(self._forms, key=len, reverse=True))
        return re.compile(f"{_BEGINS}(?:{listed})(?:{_BELOW}|{_EXACT})")


def _last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def of_program() -> Roots:
    """The folders of the program itself, which appear in tracebacks."""
    here = os.path.dirname(os.path.dirname(tqstudio.__file__))
    imported = [folder for folder in sys.path if os.path.isabs(folder)]
    return Roots(here, os.path.dirname(sys.executable), *imported)


def _forms(folder: bytes) -> set[str]:
    folder = folder.rstrip(b"/")
    return forms(folder) if folder.startswith(b"/") else set()


def forms(name: bytes) -> set[str]:
    """All forms in which a log may contain a path or name; for most there is only one."""
    raw, escaped = os.fsdecode(name), name.decode("utf-8", "backslashreplace")
    of_python = repr(raw)[1:-1]
    found = {
        raw,
        escaped,
        _CONTROLS_OF_FFMPEG.sub("?", escaped),
        paths.display(name),
        shell_quoting.ansi_c(raw)[2:-1],
        # Within single quotes of the shell.
        raw.replace("'", "'\"'\"'"),
        of_python,
        # If the following name contains the other quote.
        of_python.replace("'", "\\'"),
        repr(name)[2:-1],
    }
    # As a value in a log line, which is escaped once more.
    found |= {form.replace("\n", "\\n") for form in found}
    return found | {form.replace("\\", "\\\\").replace('"', '\\"') for form in found}
