"""A temporary directory of the worker's own, which its ffmpegs inherit."""

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
    """Let TMPDIR be this directory: empty when it begins, gone when it ends.

    A worker that is killed leaves it to the next one of its name, which begins by emptying it. Where it
    cannot be made, the system's stays: no job needs much of it.
    """
    before = os.environ.get("TMPDIR")
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("no temporary directory of its own", path=str(path), error=error.strerror)
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
