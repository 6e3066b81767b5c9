"""Redis is killed, hangs, or a disk is away: it costs latency only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor
from tqstudio import paths
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeLive
from .server import PASSWORD, Server
from .test_jobs import film, jobs_of


def reasons(live: LiveSupervisor) -> list[str]:
    """What /health names; the supervisor is healthy all the time."""
    status, answer = live.raw("GET", "/health")
    assert (status, answer["healthy"]) == (200, True)
    return [reason["kind"] for reason in answer["reasons"]]


def line_of_doctor(live: LiveSupervisor) -> Any:
    checks = live.send(calls.doctor())["checks"]
    return next(check for check in checks if check["name"] == "redis")


def logged(live: LiveSupervisor, *words: str) -> list[str]:
    lines = live.home.supervisor_log.read_text().splitlines()
    return [word for line in lines for word in words if word in line]


def names(live: LiveSupervisor) -> set[str]:
    return {job["name"] for job in jobs_of(live)}


@pytest.mark.slow
@pytest.mark.fault(
    "Redis is killed, and started again",
    "`/health` names it; jobs continue, and entries come in afterwards",
    area="supervisor",
)
def test_a_kill_of_redis_costs_latency_only(server: Server, make_live: MakeLive, roots: Path) -> None:
    live = make_live()
    server.add(path=film(roots, "before.mp4"))
    server.until_done()
    assert (reasons(live), line_of_doctor(live)["level"]) == ([], "ok")
    server.kill()
    until(lambda: reasons(live) == ["redis"], "/health names it")
    live.send(calls.add([paths.encode(film(roots, "meanwhile.mp4"))]))
    line = line_of_doctor(live)
    assert (line["level"], line["ok"]) == ("warn", True)
    server.start()
    server.add(path=film(roots, "after.mp4"))
    server.until_done()
    assert names(live) == {"before.mp4", "meanwhile.mp4", "after.mp4"}
    assert (reasons(live), line_of_doctor(live)["level"]) == ([], "ok")
    live.stop()
    assert logged(live, "redis is lost", "redis is back") == ["redis is lost", "redis is back"]
    assert PASSWORD not in f"{live.home.supervisor_log.read_text()} {live.output.read_text()} {line}"


@pytest.mark.slow
@pytest.mark.fault(
    "Redis hangs (SIGSTOP)",
    "The API answers all the time; entries come in when Redis does again",
    area="supervisor",
)
def test_a_redis_that_hangs_holds_nothing_up(server: Server, make_live: MakeLive, roots: Path) -> None:
    live = make_live()
    server.add(path=film(roots, "before.mp4"))
    server.until_done()
    server.pause()
    try:
        for name in ("meanwhile.mp4", "later.mp4"):
            [result] = live.send(calls.add([paths.encode(film(roots, name))]))["results"]
            assert result["decision"] == "queued"
            until(lambda: reasons(live) == ["redis"], "/health names it")
    finally:
        server.resume()
    server.add(path=film(roots, "after.mp4"))
    server.until_done()
    assert names(live) == {"before.mp4", "meanwhile.mp4", "later.mp4", "after.mp4"}
    until(lambda: reasons(live) == [], "it is used again")


@pytest.mark.slow
def test_an_entry_whose_disk_is_away_waits(server: Server, make_live: MakeLive, roots: Path) -> None:
    path, away = film(roots, "film.mp4"), roots.with_name("away")
    roots.rename(away)
    live = make_live()
    server.add(path=path)
    until(lambda: "entries that wait: 1;" in line_of_doctor(live)["detail"], "doctor says that it waits")
    assert server.left() == (1, 1)
    away.rename(roots)
    # After each loss of the connection all are tried again, and every half a minute.
    client: Any = server.client
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.until_done()
    assert names(live) == {"film.mp4"}
    assert server.refused() == {}
