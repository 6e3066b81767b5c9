"""Makes paths in logs relative, so that a log can be handed on without telling where its folders lie.

What is replaced is the text of known folders, the roots, in whatever way a log writes them: as they are, as
the project shows them, as bash, Python, ffmpeg and a log line quote them.
"""

from __future__ import annotations

import functools
import os
import re
import sys

from tqstudio import paths, shell_quoting

Folder = bytes | str | os.PathLike[str]

# Not in the middle of another path. A line break that was escaped, and the two slashes of an address, end
# what stands before. The slash comes first because it is found ten times as fast.
_BEGINS = r"/(?:(?<![\w./~+-]/)|(?<=\\n/)|(?<=:///))"
_BELOW = r"(/+(?=[^'\"`\n]))"
_EXACT = r"/*(?![\w/~+%=#@\udc80-\udcff-]|\.\w|\\+[xuU])"
_CONTROLS_OF_FFMPEG = re.compile("[\x01-\x07\x0e-\x1f]")
"""What ffmpeg says as `?`."""


class Roots:
    """Folders that logs do not name. `/` is none: a path below it says nothing that could be left out."""

    def __init__(self, *folders: Folder) -> None:
        self._forms = frozenset(form for folder in folders for form in _forms(os.fsencode(folder)))

    def __or__(self, other: Roots) -> Roots:
        """The roots of both."""
        if other._forms <= self._forms:
            return self
        both = Roots()
        both._forms = self._forms | other._forms
        return both

    def relative(self, text: str) -> str:
        """The text with paths relative to their roots, the longest first, and `.` for a root itself."""
        if not self._forms or "/" not in text:
            return text
        return self._pattern.sub(lambda found: "" if found[1] else ".", text)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        listed = "|".join(re.escape(form[1:]) for form in sorted(self._forms, key=len, reverse=True))
        return re.compile(f"{_BEGINS}(?:{listed})(?:{_BELOW}|{_EXACT})")


def of_program() -> Roots:
    """Where the program itself lies: tracebacks and failed starts name its files."""
    here = os.path.dirname(os.path.dirname(__file__))
    imported = [folder for folder in sys.path if os.path.isabs(folder)]
    return Roots(here, os.path.dirname(sys.executable), *imported)


def _forms(folder: bytes) -> set[str]:
    """Every way in which a log may write a folder; for most that is one."""
    folder = folder.rstrip(b"/")
    if not folder.startswith(b"/"):
        return set()
    raw, said = os.fsdecode(folder), folder.decode("utf-8", "backslashreplace")
    of_python = repr(raw)[1:-1]
    forms = {
        raw,
        said,
        _CONTROLS_OF_FFMPEG.sub("?", said),
        paths.display(folder),
        shell_quoting.ansi_c(raw)[2:-1],
        # Within single quotes, as the shell has it.
        raw.replace("'", "'\"'\"'"),
        of_python,
        # Where the name behind it holds the other quote.
        of_python.replace("'", "\\'"),
        repr(folder)[2:-1],
    }
    # As a value of a log line, which escapes once more.
    forms |= {form.replace("\n", "\\n") for form in forms}
    return forms | {form.replace("\\", "\\\\").replace('"', '\\"') for form in forms}
