"""Converts exceptions to the error code and message of a failed job."""

from __future__ import annotations

import os

from tqstudio import paths
from tqstudio.engine.media.ffmpeg.errors import from_os_error
from tqstudio.engine.media.source import source_file
from tqstudio.engine.worker.reporting.outcome import Failed
from tqstudio.errors import MAX_ERROR_TEXT, ErrorClass, ErrorCode, TqError, class_of

_MAX_NAME = 100


def describe(error: Exception, path: bytes) -> Failed:
    """Describe the failure of a job on the source at `path`."""
    if isinstance(error, TqError):
        known = error
    elif isinstance(error, MemoryError):
        known = TqError(ErrorCode.OUT_OF_MEMORY, "the worker ran out of memory")
    elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        known = TqError(ErrorCode.SYSTEM_LIMIT, "the worker could not start a thread")
    elif isinstance(error, OSError) and _concerns(error, path):
        known = source_file.unreadable(path, error)
    elif isinstance(error, OSError):
        at = f" at {paths.display(os.fsencode(error.filename))}" if error.filename else ""
        known = from_os_error(error, f"the worker cannot continue{at}")
    else:
        known = TqError(ErrorCode.INTERNAL, f"internal error of the worker ({type(error).__name__}: {error})")
    code = known.code
    if class_of(code) is ErrorClass.REQUEST:
        # These codes are for API clients; a job must not fail with one.
        known, code = TqError(ErrorCode.INTERNAL, known.message), ErrorCode.INTERNAL
    return Failed(code, _naming(path, known.message), printable(known.hint)[:MAX_ERROR_TEXT])


def short_name(path: bytes) -> str:
    """The file name for messages: escaped, and shortened in the middle if it is long."""
    name = paths.display(os.path.basename(path))
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME // 2]}…{name[-_MAX_NAME // 2 :]}"


def printable(text: str) -> str:
    """Make text encodable as UTF-8 and harmless to show: other bytes and characters become escapes."""
    decoded = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return paths.readable_lines(decoded)


def _naming(path: bytes, message: str) -> str:
    """Prefix the message with the file name, unless it contains it."""
    named = printable(message)
    whole = paths.display(path)
    if whole in named:
        # A long folder path would push the reason out of the message.
        named = named if len(named) <= MAX_ERROR_TEXT else named.replace(whole, short_name(path))
    elif short_name(path) not in named:
        named = f"{short_name(path)}: {named}"
    return named[:MAX_ERROR_TEXT]


def _concerns(error: OSError, path: bytes) -> bool:
    return error.filename is not None and os.fsencode(error.filename) == path
