"""Finds, starts and ends the process that serves the page of a home, and issues the codes that lead to it.

    HOME/page/lock          locked while it runs; its pid and port
    HOME/page/<hash>.html   a page that leads a browser to the address with a code
    HOME/page/<hash>.url    a code whose address was printed

Files name codes by their hash, so that no name gives one away. Reading a code removes its file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import running

HOST = "127.0.0.1"
LIFETIMES_S: Mapping[str, float] = MappingProxyType({".html": 60.0, ".url": 600.0})
"""How long a code leads to the page: a browser starts at once, a person first opens a tunnel."""
_START_S = 30.0
_POLL_S = 0.03


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is served."""

    pid: int
    port: int

    def address(self, code: str, video: int | None) -> str:
        """Return the address that a code opens once, at a video or at the library."""
        return f"http://{HOST}:{self.port}/open/{code}" + (f"/{video}" if video is not None else "")


def folder_of(home: Home) -> Path:
    """Return the folder of lock and codes, which is created for its owner alone."""
    folder = home.root / "page"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def log_of(home: Home) -> Path:
    return home.logs / "page.log"


def find(home: Home) -> Page | None:
    """Return the page that is served for a home; None without one."""
    lock, deadline = home.root / "page" / "lock", time.monotonic() + _START_S
    while running.is_locked(lock) and time.monotonic() < deadline:
        # Written once its process was started.
        with contextlib.suppress(OSError, ValueError):
            pid, port = map(int, lock.read_text().split())
            return Page(pid, port)
        time.sleep(_POLL_S)
    return None


def start(home: Home, port: int = 0) -> Page:
    """Serve the page by a process of its own, or return the one that does.

    Raises:
        TqError: BAD_REQUEST, the port is taken; ALREADY_RUNNING, the page has another one; INTERNAL, it does
            not start.
    """
    lock = os.open(folder_of(home) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        if (page := find(home)) is None:
            return start(home, port)
        if port not in (0, page.port):
            text = f"the page is already served on port {page.port}"
            raise TqError(ErrorCode.ALREADY_RUNNING, text, "close it with: tqstudio open --close") from None
        return page
    try:
        os.ftruncate(lock, 0)
        with _listener(port) as listener, log_of(home).open("wb") as log:
            # -P: a file named json.py in the home must not be imported.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tqstudio.wings.page.server", str(listener.fileno())],
                cwd=home.root,
                env=os.environ | {"TQSTUDIO_HOME": str(home.root)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It keeps the lock as long as it lives.
                pass_fds=(listener.fileno(), lock),
                start_new_session=True,
            )
            page = Page(process.pid, listener.getsockname()[1])
        os.write(lock, f"{page.pid} {page.port}\n".encode())
    finally:
        os.close(lock)
    _wait_until_up(home, process, page)
    return page


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"port {port} cannot be used: {error}",
            "choose another one",
        ) from None


def _wait_until_up(home: Home, process: subprocess.Popen[bytes], page: Page) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, page.port), 1) as probe:
            probe.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            if probe.recv(1):
                return
        time.sleep(_POLL_S)
    raise TqError(ErrorCode.INTERNAL, "the page does not start", f"see {log_of(home)}")


def close(home: Home) -> bool:
    """End the process of the page, wait for its end, and void all codes; returns whether there was one."""
    for name in (home.root / "page").glob("*.*"):
        _is_valid(name, use=True)
    page = find(home)
    if page is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(page.pid, signal.SIGTERM)
    deadline = time.monotonic() + _START_S
    while running.is_locked(home.root / "page" / "lock"):
        if time.monotonic() > deadline:
            raise TqError(ErrorCode.TIMEOUT, f"the page (pid {page.pid}) does not end", f"see {log_of(home)}")
        time.sleep(_POLL_S)
    return True


def new_code(home: Home, suffix: str) -> str:
    """Issue a code that leads to the page once, for the time of its suffix in LIFETIMES_S."""
    for name in folder_of(home).iterdir():
        _is_valid(name)
    code = secrets.token_urlsafe(16)
    os.close(os.open(_path(home, code, suffix), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return code


def leading_page(home: Home, page: Page, video: int | None) -> Path:
    """Write a file that leads a browser to the page, so that no command line names the code."""
    code = new_code(home, ".html")
    path = _path(home, code, ".html")
    path.write_text(f'<meta http-equiv="refresh" content="0;url={page.address(code, video)}">\n')
    return path


def redeem(home: Home, code: str) -> bool:
    """Use a code up; returns whether it was valid."""
    return any(_is_valid(_path(home, code, suffix), use=True) for suffix in LIFETIMES_S)


def _path(home: Home, code: str, suffix: str) -> Path:
    return folder_of(home) / f"{sha256(code.encode()).hexdigest()[:32]}{suffix}"


def _is_valid(path: Path, *, use: bool = False) -> bool:
    """Whether a file of a code exists and is not too old; one that is used or too old is removed."""
    if path.suffix not in LIFETIMES_S:
        return False
    try:
        valid = 0 <= time.time() - path.stat().st_mtime + 1 < LIFETIMES_S[path.suffix]
        if use or not valid:
            path.unlink()
    except FileNotFoundError:
        return False
    return valid
