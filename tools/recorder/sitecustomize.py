"""Records which functions of tqstudio run in this process, while `tools/trips.py` says so.

Python imports a module of this name at its start: the tool puts this folder on PYTHONPATH.
"""

from __future__ import annotations

import inspect
import mmap
import os
import runpy
import sys
import threading
from types import FrameType
from typing import Any

SOURCE = os.path.realpath(f"{__file__}/../../../src/tqstudio") + "/"
FOLDER = "TRIPS_FOLDER"
"""The variable with the folder that holds `switch`, one byte, and a file of records for each process."""
ALONE = ["-I", "-S"]
"""The options of programs that see no PYTHONPATH: what confines ffmpeg."""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_SEEN = ["-P", "-S", __file__]


def install(folder: str) -> None:
    """Record from now on, in all threads: a line with file and function the first time that it runs."""
    with open(f"{folder}/switch", "rb") as file:
        # Memory that all processes share: it is switched in all at once.
        switch = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)
    # Opened before the probe forbids itself to open a file for writing.
    records = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    known: set[tuple[str, str]] = set()

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        # A coroutine or generator that is resumed is a call too.
        if event != "call" or not switch[0]:
            return
        code = frame.f_code
        key = (code.co_filename, code.co_qualname)
        if key in known or not code.co_filename.startswith(SOURCE) or _is_of_module(frame):
            return
        known.add(key)
        # At once: the process may be killed.
        os.write(records, f"{code.co_filename.removeprefix(SOURCE)}\t{code.co_qualname}\n".encode())

    threading.setprofile(record)
    sys.setprofile(record)


def _is_of_module(frame: FrameType) -> bool:
    """Whether it is the body of a module or class, a comprehension in one, or called by an import."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_NEWLOCALS or code.co_qualname in _COMPREHENSIONS:
        return True
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        above = above.f_back
    return False


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    """Let a program that would not see PYTHONPATH be started by this file."""
    if event == "subprocess.Popen" and arguments[1][1:3] == ALONE:
        arguments[1][1:3] = _SEEN


if folder := os.environ.get(FOLDER):
    install(folder)
    sys.addaudithook(_see)
    if __name__ == "__main__":
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
