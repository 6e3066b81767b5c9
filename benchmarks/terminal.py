"""A program on a terminal of its own, such as a user has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

# Control sequences, and the strings that set titles and colours: what is left is what a user sees.
_CONTROL = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x1f\x7f]", re.DOTALL
)
_END_TIMEOUT_S = 5.0


class Terminal:
    """Starts a program on a new terminal; ended by `close`, by its process id."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = 100, rows: int = 30
    ) -> None:
        self.columns, self.rows = columns, rows
        size = struct.pack("HHHH", rows, columns, 0, 0)
        with_colours = {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.started = time.perf_counter()
        self.pid, self._master = os.forkpty()
        if self.pid == 0:
            # Nothing but what must be between fork and exec.
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
                os.execve(command[0], list(command), with_colours)
            finally:
                os._exit(127)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
        self._written = b""

    def first_paint_s(self, timeout_s: float = 20) -> float:
        """Seconds from exec until the whole screen has been written once.

        Raises:
            RuntimeError: it was not within `timeout_s`.
        """
        enough = self.columns * self.rows * 9 // 10
        while True:
            left = self.started + timeout_s - time.perf_counter()
            if left <= 0 or not self._read(left):
                raise RuntimeError(f"no picture: {_seen(self._written)[-400:]!r}")
            seen = _seen(self._written)
            if len(seen) >= enough and seen.strip():
                return time.perf_counter() - self.started

    def shows_s(self, text: str, key: bytes = b"", timeout_s: float = 20) -> float:
        """Seconds from a key, or from exec without one, until a text has been written since."""
        began, before = (time.perf_counter(), len(self._written)) if key else (self.started, 0)
        os.write(self._master, key)
        while text not in _seen(self._written[before:]):
            if time.perf_counter() > began + timeout_s or not self._read(timeout_s):
                raise RuntimeError(f"{text!r} is not shown: {_seen(self._written)[-400:]!r}")
        return time.perf_counter() - began

    def answer_s(self, key: bytes, timeout_s: float = 5) -> float:
        """Seconds from a key to the last of what it writes at once, after the screen has been still."""
        self.rest(0.1)
        began = time.perf_counter()
        os.write(self._master, key)
        if not self._read(timeout_s):
            raise RuntimeError(f"the key {key!r} changes nothing")
        last = time.perf_counter()
        while self._read(0.004):
            last = time.perf_counter()
        return last - began

    def press(self, key: bytes, still_s: float = 0.02) -> str:
        """Press a key and answer what is written until nothing has been for `still_s`."""
        before = len(self._written)
        os.write(self._master, key)
        self.rest(still_s)
        return _seen(self._written[before:])

    def rest(self, still_s: float, at_most_s: float = 3) -> None:
        """Read until nothing has been written for `still_s`."""
        deadline = time.perf_counter() + at_most_s
        while self._read(still_s) and time.perf_counter() < deadline:
            pass

    def drain(self, seconds: float) -> int:
        """Read what is written for so long, as one must; answers how much that is."""
        deadline, before = time.perf_counter() + seconds, len(self._written)
        while (left := deadline - time.perf_counter()) > 0:
            self._read(left)
        return len(self._written) - before

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            chunk = os.read(self._master, 1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            raise RuntimeError(f"the program ended: {_seen(self._written)[-400:]!r}")
        self._written += chunk
        return True

    def close(self) -> None:
        """End the program. May be called when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = time.perf_counter() + _END_TIMEOUT_S
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                if time.perf_counter() > deadline:
                    os.kill(self.pid, signal.SIGKILL)
                with contextlib.suppress(RuntimeError):
                    self._read(0.02)
        os.close(self._master)


def _seen(written: bytes) -> str:
    return _CONTROL.sub(b"", written).decode(errors="replace")
