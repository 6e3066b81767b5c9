"""The standard streams of a command: always three, whatever the one who started it left closed."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

from tqstudio.errors import ErrorCode, TqError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_sound() -> None:
    """Give closed streams a place to go, and failing ones a sentence.

    Descriptors 0 to 2 are opened on /dev/null where they are closed: the next file or socket would get the
    number otherwise, and be written to by whoever writes to a standard stream. Supervisors and workers
    inherit them.
    """
    for number in range(3):
        _open(number)
    # Python has no stream where it found the descriptor closed.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _sound(sys.stdout, 1, _Answer)
    sys.stderr = _sound(sys.stderr, 2, _Remarks)


def silence(stream: TextIO) -> None:
    """Send what is still to be written to /dev/null: Python flushes at exit once more, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        # The lowest free number is the one that is missing, for those below it are open.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


class _Answer(io.TextIOWrapper):
    """stdout: an answer that cannot be written ends the command, which says so."""

    def write(self, text: str, /) -> int:
        if text == "":
            # So typer finds out what a stream takes, and swallows what goes wrong then.
            return 0
        try:
            return super().write(text)
        except OSError as error:
            raise self._lost(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return error
        silence(self)
        code = ErrorCode.DISK_LOW if error.errno in _FULL else ErrorCode.PERMISSION
        message = f"the answer cannot be written: {error.strerror or error}"
        return TqError(code, message, "look at where the output goes, then run it again")


class _Remarks(io.TextIOWrapper):
    """stderr: remarks that cannot be written are no reason to end; nobody could be told why either."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError:
            pass


def _sound(stream: TextIO | None, number: int, kind: type[io.TextIOWrapper]) -> TextIO:
    """The same stream as `kind`; one that somebody else put in its place, such as a test, stays theirs."""
    if stream is None:
        return kind(os.fdopen(number, "wb", closefd=False), errors="backslashreplace")
    if type(stream) is not io.TextIOWrapper:
        return stream
    # Not detached: the old one stays usable as sys.__stdout__, which answers how wide the terminal is.
    return kind(
        stream.buffer,
        encoding=stream.encoding,
        # A name that the terminal's encoding lacks is printed as escapes instead of ending the command.
        errors="backslashreplace",
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
