"""Gives the worker and its ffmpeg processes a temporary directory of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import structlog

_log = structlog.get_logger()


@contextlib.contextmanager
def own_tmpdir(path: Path) -> Iterator[None]:
    """Set TMPDIR to this directory, emptied at the start and removed at the end.

    If a worker is killed, the next one of its name empties it. If the directory cannot be created, the
    system's is used: jobs need little of it.
    """
    before = os.environ.get("TMPDIR")
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("temporary directory cannot be created", path=str(path), error=error.strerror)
        yield
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(path)
    try:
        yield
    finally:
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        shutil.rmtree(path, ignore_errors=True)
