"""Makes the standard streams of a command usable, even if the parent process closed some."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from tqstudio.errors import ErrorCode, TqError
from tqstudio.words.symbols import replace_glyphs

_LACKING = "tqstudio.words"
codecs.register_error(_LACKING, replace_glyphs)


def repair_streams() -> None:
    """Open closed streams on /dev/null, and handle write errors of the others.

    Otherwise the next file or socket would get a descriptor from 0 to 2, and be written to as a standard
    stream. Supervisors and workers inherit the descriptors.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the missing one, as those below it are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has no stream object for a descriptor that was closed.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _guarded(sys.stdout, 1)
    sys.stderr = _guarded(sys.stderr, 2)


def silence(stream: TextIO) -> None:
    """Redirect buffered output to /dev/null, as Python flushes again at exit and would report an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Guarded(io.TextIOWrapper):
    """A write error of stdout ends the command with a `TqError`; one of stderr is ignored."""

    def write(self, text: str, /) -> int:
        if text != "":  # typer tests a stream with an empty string, and ignores the error
            with self._errors():
                super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._errors():
            super().flush()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.fileno() == 2:
                return
            silence(self)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            raise TqError(
                ErrorCode.DISK_LOW if full else ErrorCode.PERMISSION,
                f"the output cannot be written: {error.strerror or error}",
                "check where the output goes, then run it again",
            ) from None


def _guarded(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        return _Guarded(os.fdopen(number, "wb", closefd=False), errors=_LACKING)
    if type(stream) is not io.TextIOWrapper:
        return stream  # replaced, as by a test
    # Not detached: the old stream stays usable as sys.__stdout__, which is asked for the terminal's width.
    return _Guarded(
        stream.buffer,
        encoding=stream.encoding,
        errors=_LACKING,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
