"""Makes the standard streams of a command usable, even if the parent process closed some."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import TextIO

from tqstudio.errors import ErrorCode, TqError
from tqstudio.words.symbols import replace_glyphs

_LACKING = "tqstudio.words"
codecs.register_error(_LACKING, replace_glyphs)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def repair_streams() -> None:
    """Open closed streams on /dev/null, and report write errors of the others.

    Otherwise the next file or socket would get a descriptor from 0 to 2, and be written to as a standard
    stream. Supervisors and workers inherit the descriptors.
    """
    for number in range(3):
        _open(number)
    # Python has no stream object for a descriptor that was closed.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _rebuild(sys.stdout, 1, _Answer)
    sys.stderr = _rebuild(sys.stderr, 2, _Remarks)


def silence(stream: TextIO) -> None:
    """Redirect buffered output to /dev/null, as Python flushes again at exit and would report an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        # The lowest free number is the missing one, as those below it are open.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


class _Answer(io.TextIOWrapper):
    """stdout: a write error ends the command with a `TqError`."""

    def write(self, text: str, /) -> int:
        if text == "":
            # typer writes an empty string to test the stream, and ignores errors of that.
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
        message = f"the output cannot be written: {error.strerror or error}"
        return TqError(code, message, "check where the output goes, then run it again")


class _Remarks(io.TextIOWrapper):
    """stderr: write errors are ignored, as they could not be reported anyway."""

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


def _rebuild(stream: TextIO | None, number: int, kind: type[io.TextIOWrapper]) -> TextIO:
    """Rebuild a stream as `kind`; a stream that was replaced, as by a test, is kept."""
    if stream is None:
        return kind(os.fdopen(number, "wb", closefd=False), errors=_LACKING)
    if type(stream) is not io.TextIOWrapper:
        return stream
    # Not detached: the old stream stays usable as sys.__stdout__, which is asked for the terminal's width.
    return kind(
        stream.buffer,
        encoding=stream.encoding,
        errors=_LACKING,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
