"""A real terminal: a pty with the real program on it, and an emulator that holds what a user would see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import pyte

from waiting import WAIT_S, until

# What the emulator takes for text, as it knows no `<` and no `=` in a sequence: keyboard protocols.
_UNKNOWN = re.compile(rb"\x1b\[[<=][0-9;]*u")
_WHOLE = re.compile(rb"\[[0-?]*[ -/]*[@-~]|[^\[]")
_MODES = re.compile(rb"(\x1b\[\?([0-9;]+)([hl]))")
ALTERNATE = 1049
"""The mode in which the screen is another one, blank at first; the emulator does not know it."""


def _parts(written: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """What is written, cut behind each switch of modes: with it, its numbers, and `h` or `l`."""
    pieces = _MODES.split(written)
    for at in range(0, len(pieces) - 1, 4):
        text, sequence, numbers, switch = pieces[at : at + 4]
        yield text + sequence, numbers, switch
    yield pieces[-1], b"", b""


class Terminal:
    """Runs a command as the leader of a session of its own, on a terminal of this size."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        columns: int = 80,
        lines: int = 24,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.at_first = self.attributes()
        self.written = bytearray()
        """All that the program ever wrote."""
        self.modes: set[int] = set()
        """The private modes that are switched on: 1049 is the alternate screen, 1000 and 1003 the mouse."""
        self.taken = 0
        """How often the program switched to the alternate screen."""
        self._first = pyte.Screen(columns, lines)
        self._show(self._first)
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._going.set()
        self._closed = False
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        # Stays open: without anybody on the other side the terminal could not be asked how it was left.
        self._slave = slave
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print(f"the terminal when the test failed:\n{self.text()}")
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)
        self.hang_up()

    def _read(self) -> None:
        held = b""
        while not self._closed:
            self._going.wait()
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            try:
                chunk = os.read(self._master, 65536)
            except OSError:
                # No process has the other side open: the program, or all that a shell has started, is gone.
                return
            # A sequence that is not whole yet waits for its end.
            whole, escape, rest = (held + chunk).rpartition(b"\x1b")
            cut = bool(escape) and not _WHOLE.match(rest)
            held = escape + rest if cut else b""
            self._take(whole if cut else whole + escape + rest)

    def _take(self, written: bytes) -> None:
        with self._lock:
            self.written += written
            for text, numbers, switch in _parts(written):
                self._stream.feed(_UNKNOWN.sub(b"", text))
                for number in map(int, filter(None, numbers.split(b";"))):
                    (self.modes.add if switch == b"h" else self.modes.discard)(number)
                    if number == ALTERNATE:
                        self.taken += switch == b"h"
                        self._show(self._other() if switch == b"h" else self._first)

    def _other(self) -> pyte.Screen:
        return pyte.Screen(self._first.columns, self._first.lines)

    def _show(self, screen: pyte.Screen) -> None:
        self._screen = screen
        self._stream = pyte.ByteStream(screen)

    def press(self, keys: str) -> None:
        """Send keys as one burst: all of them are there before the first is looked at."""
        os.write(self._master, keys.encode())

    @property
    def cursor_shown(self) -> bool:
        return not self._screen.cursor.hidden

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Take no output meanwhile, as a connection that is lost."""
        self._going.clear()
        try:
            yield
        finally:
            self._going.set()

    def text(self) -> str:
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def shows(self, *texts: str) -> str:
        """Wait until all the texts are on the screen; answers the screen."""

        def found() -> str:
            text = self.text()
            return text if all(each in text for each in texts) else ""

        with self._explained():
            return until(found, f"the screen shows {texts}")

    def settled(self) -> str:
        """Wait until the program has nothing to draw; answers the screen."""
        seen: list[str] = []

        def still() -> bool:
            seen.append(self.text())
            return len(seen) > 10 and len(set(seen[-10:])) == 1

        until(still, "the screen stands still")
        return seen[-1]

    def lacks(self, text: str) -> None:
        """Wait until a text is gone from the screen."""
        with self._explained():
            until(lambda: text not in self.text(), f"the screen does not show {text!r} any longer")

    def attributes(self) -> list[Any]:
        """What `stty -a` prints: the modes of the line, its speeds and control characters."""
        return termios.tcgetattr(self._master)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the program to end; answers its exit code."""
        with self._explained():
            code: int = until(
                lambda: self.process.poll() is not None and [self.process.returncode], "it ends"
            )[0]
        return code

    def hang_up(self) -> None:
        """Close the terminal, as a window is closed or a connection is lost."""
        # A thread that still reads would read from what gets the number of the descriptor next.
        self._closed = True
        self._reader.join()
        for descriptor in (self._slave, self._master):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
