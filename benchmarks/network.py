"""What the TCP listener costs: at rest, and for each call beside one on the socket."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.options import Options
from benchmarks.processes import memory_mb
from benchmarks.report import Section, at_most, percentile
from benchmarks.studio import Studio, studio
from tqstudio.engine.access.api_tokens import ApiTokens
from tqstudio.engine.access.worker_tokens import WorkerTokens
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home
from tqstudio.protocol.roles import Role

_SETTLE_S = 2.0
_CALLS = 300
_CHECKS = 10_000
_LISTEN = ("--listen", "127.0.0.1:0")


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "The TCP listener", f"without TLS; {options.rounds} rounds of {_CALLS} calls of /v1/workers"
    )
    without: list[float] = []
    extra: list[float] = []
    socket: list[float] = []
    tcp: list[float] = []
    for number in range(options.rounds):
        with studio(root / f"closed-{number}") as running:
            without.append(_resting_mb(running))
        with studio(root / f"open-{number}", _LISTEN) as running:
            extra.append(_resting_mb(running) - without[-1])
            line = running.line()
            with contextlib.closing(line):
                socket.append(_p50_ms(lambda line=line: line.get("/v1/workers")))
            tcp.append(_p50_ms(_caller(running)))
    section.add("supervisor at rest without it, memory", without, "MB")
    section.add("supervisor at rest, memory more with it", extra, "MB", at_most(5))
    section.add("a call on the socket, p50", socket, "ms")
    section.add("a call on TCP with a token, p50", tcp, "ms")
    known, unknown = _checks(options, root)
    section.add("check of a token that was checked before", known, "ms", at_most(0.2))
    section.add("first check of a token (scrypt)", unknown, "ms")
    return section


def _resting_mb(running: Studio) -> float:
    running.worker_pid()
    time.sleep(_SETTLE_S)
    return memory_mb(running.pid)


def _caller(running: Studio) -> Callable[[], bytes]:
    """A call over one TCP connection that is kept open."""
    token = running.run("token", "create", "bench", "--role", "view").strip()
    port = int(running.status()["supervisor"]["listen"].rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call() -> bytes:
        connection.request("GET", "/v1/workers", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(body)
        return body

    return call


def _p50_ms(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return percentile(seconds, 50) * 1000


def _checks(options: Options, root: Path) -> tuple[list[float], list[float]]:
    """Milliseconds of checking a known token, and of the first check."""
    home = Home(root / "tokens")
    home.create()
    database = Database(home.database)
    database.open()
    known, first = [], []

    async def run() -> None:
        for number in range(options.rounds):
            tokens = ApiTokens(database, WorkerTokens())
            token = await tokens.create(f"t{number}", Role.VIEW, kind="cpu", expires_at=None, actor="user")
            began = time.perf_counter()
            await tokens.check(token)
            first.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            for _ in range(_CHECKS):
                tokens.known(token)
            known.append((time.perf_counter() - began) / _CHECKS * 1000)

    try:
        asyncio.run(run())
    finally:
        database.close()
    return known, first
