"""Reads `.tqignore` files: which files and folders beside and below them are no sources.

The patterns are those of gitignore, as `pathspec` implements them. A file that cannot be read or understood
excludes its whole folder: publishing what was excluded is worse than a delay.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from tqstudio.errors import ErrorCode, Problem
from tqstudio.paths import display

IGNORE_NAME = b".tqignore"
MAX_BYTES = 65_536
MAX_STARS, MAX_SPANS = 3, 2
"""Most `*` before other characters of a name, and most `**`, in one pattern.

The time that a hostile pattern takes grows with this power of a path's length, and other threads wait for it.
"""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_AS_COMMENT = re.compile(rb"^(?:\xef\xbb\xbf)?(#[^\s#][^\n]{0,200}/)[ \r]*$", re.MULTILINE)
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class _IgnorePattern(GitIgnoreSpecPattern):
    """A pattern whose `[!a]` matches no `/`, as in git."""

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> Any:
        regex, include = super().pattern_to_regex(pattern)
        return regex and re.sub(r"(?<!\\)\[\^(?!/)", "[^/", regex), include


class UnusableIgnoreFile(Exception):
    """An ignore file cannot be read or understood."""

    def __init__(self, path: bytes, code: ErrorCode, why: str, hint: str) -> None:
        super().__init__(why)
        folder = display(os.path.dirname(path))
        message = f"{display(path)} {why}; nothing new in {folder} is queued until then"
        self.problem = Problem(code.value, message, hint)


@dataclass(frozen=True, slots=True)
class Ignored:
    """The ignore files that apply in a folder: those above it, and its own."""

    levels: tuple[tuple[int, GitIgnoreSpec], ...] = ()
    """Length of the path before the names that the patterns match, and the patterns; outermost first."""
    comment: Problem | None = None
    """Problem with a line of the innermost file that looks like a pattern but is a comment; else None."""

    def below(self, folder: bytes) -> Ignored:
        """Add the ignore file of a folder, if it has one.

        Raises:
            UnusableIgnoreFile: it cannot be read or understood.
        """
        path = os.path.join(folder, IGNORE_NAME)
        try:
            content = _read(path)
        except OSError as error:
            if error.errno in _ABSENT or not os.access(folder, os.X_OK):
                # Of a folder that may not be entered no file is read, which is reported as such.
                return self
            code = ErrorCode.PERMISSION if error.errno == errno.EACCES else ErrorCode.SOURCE_UNREADABLE
            why = f"cannot be read ({(error.strerror or str(error)).lower()})"
            raise UnusableIgnoreFile(path, code, why, "make it a readable text file, or remove it") from None
        try:
            level = (len(os.path.join(folder, b"")), _parsed(content))
        except ValueError as error:
            raise UnusableIgnoreFile(
                path, ErrorCode.BAD_CONFIG, str(error), "correct it, or remove it"
            ) from None
        return Ignored((*self.levels, level), _comment(content))

    def excludes(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether the innermost ignore file with a matching pattern excludes a path in this folder."""
        for prefix, patterns in reversed(self.levels):
            # `.` matches no newline, which a name may contain; no pattern can.
            name = os.fsdecode(path[prefix:]).replace("\n", "\0")
            verdict = patterns.check_file(f"{name}/" if is_folder else name).include
            if verdict is not None:
                return verdict
        return False


def _read(path: bytes) -> bytes:
    # With `os.fdopen` the descriptor of a folder, which it refuses, would stay open.
    with open(path, "rb", buffering=0, opener=lambda name, _: os.open(name, _FLAGS)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_BYTES} bytes")
    return content


def _comment(content: bytes) -> Problem | None:
    found = _FOLDER_AS_COMMENT.search(content)
    if found is None:
        return None
    line = display(found[1])
    return Problem(
        ErrorCode.BAD_CONFIG.value,
        f"its line {line} is a comment and leaves out nothing",
        f"write \\{line} for the folder, or a space after the # of a comment",
    )


@lru_cache(maxsize=1024)
def _parsed(content: bytes) -> GitIgnoreSpec:
    """Parse the content of an ignore file, in whatever encoding the names on the disk have.

    Raises:
        ValueError: a line is no pattern.
    """
    lines = [
        os.fsdecode(line.removesuffix(b"\r")) for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ]
    for number, line in enumerate(lines, 1):
        parts = [] if line.startswith("#") else line.rstrip("/").split("/")
        stars = sum(1 if part == "**" else part.rstrip("*").count("*") for part in parts)
        if stars > MAX_STARS or parts.count("**") > MAX_SPANS:
            raise ValueError(f"has too many wildcards in line {number}")
        try:
            if line.strip() and not line.strip("!/ "):
                raise ValueError(line)
            _patterns([line])
        except (ValueError, re.error):
            raise ValueError(f"has no valid pattern in line {number}") from None
    return _patterns(lines)


def _patterns(lines: list[str]) -> GitIgnoreSpec:
    # Other backends are used if they happen to be installed, and cannot match names that are not UTF-8.
    return GitIgnoreSpec.from_lines(_IgnorePattern, lines, backend="simple")
