"""Entries of the stream become jobs, once each; what may not be added is refused with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.wings.redis import places

from .conftest import Desk
from .server import PASSWORD


def film(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(f"a film named {name}".encode())
    return path


def jobs_of(live: LiveSupervisor) -> list[Any]:
    return list(live.send(calls.jobs())["jobs"])


def added(desk: Desk) -> dict[str, Any]:
    """The jobs since the last call, by the names of their files."""
    found = {job["name"]: desk.live.send(calls.job(job["id"])) for job in jobs_of(desk.live)}
    for operation in ("cancel", "delete") if found else ():
        desk.live.send(calls.act(operation, [job["id"] for job in found.values()]))
    return found


def test_an_entry_becomes_a_job_with_its_options(desk: Desk) -> None:
    roots = desk.roots
    number = desk.server.add(path=film(roots, "plain.mp4"))
    desk.server.add(path=film(roots, "ä film.mp4"), profile="fast", output=roots / "site", priority="high")
    desk.server.add(path=film(roots / "folder", "low.mp4"), priority="low", output=desk.live.home.output)
    desk.server.until_done()
    found = added(desk)
    assert set(found) == {"plain.mp4", "ä film.mp4", "low.mp4"}
    assert found["plain.mp4"]["idempotency_key"] == f"redis:tqstudio:id:{number}"
    chosen = found["ä film.mp4"]
    assert (chosen["profile"], chosen["priority"], chosen["owner"]) == ("fast", 10, "redis")
    assert chosen["video_view"]["output_root"] == str(roots / "site")
    assert [found[name]["priority"] for name in ("plain.mp4", "low.mp4")] == [0, -10]


def test_a_key_makes_one_job(desk: Desk) -> None:
    desk.server.add(path=film(desk.roots, "first.mp4"), key="order-1")
    desk.server.add(path=film(desk.roots, "second.mp4"), key="order-1")
    desk.server.until_done()
    desk.server.add(path=film(desk.roots, "third.mp4"), key="order-1")
    desk.server.until_done()
    assert set(added(desk)) == {"first.mp4"}


def test_what_may_not_be_added_is_refused_with_its_reason(desk: Desk) -> None:
    roots = desk.roots
    inside, outside = film(roots, "film.mp4"), film(desk.outside / "private", "film.mp4")
    (roots / "link.mp4").symlink_to(outside)
    (roots / "inside.mp4").symlink_to(inside)
    (roots / "linked").symlink_to(outside.parent)
    wrong: dict[str, tuple[str, dict[str, object]]] = {
        "outside": ("BAD_REQUEST", {"path": outside}),
        "dots": ("BAD_REQUEST", {"path": f"{roots}/../private/film.mp4"}),
        "relative": ("BAD_REQUEST", {"path": "film.mp4"}),
        "root": ("BAD_REQUEST", {"path": f"{roots}2/film.mp4"}),
        "link": ("BAD_REQUEST", {"path": roots / "link.mp4"}),
        "link inside": ("BAD_REQUEST", {"path": roots / "inside.mp4"}),
        "linked folder": ("BAD_REQUEST", {"path": roots / "linked" / "film.mp4"}),
        "missing": ("SOURCE_MISSING", {"path": roots / "missing.mp4"}),
        "no file": ("UNSUPPORTED", {"path": roots}),
        "no text": ("BAD_REQUEST", {"path": bytes(roots) + b"/\xff.mp4"}),
        "profile": ("BAD_CONFIG", {"path": inside, "profile": "nonsense"}),
        "priority": ("BAD_REQUEST", {"path": inside, "priority": "11"}),
        "output": ("BAD_REQUEST", {"path": inside, "output": desk.outside / "elsewhere"}),
        "linked output": ("BAD_REQUEST", {"path": inside, "output": roots / "linked" / "new"}),
        "bucket": ("BAD_REQUEST", {"path": inside, "output": "S3://films"}),
        "neither": ("BAD_REQUEST", {"profile": "fast"}),
        "both": ("BAD_REQUEST", {"path": inside, "url": "s3://films/film.mp4"}),
        "no bucket": ("BAD_REQUEST", {"url": "/film.mp4"}),
        "unknown field": ("BAD_REQUEST", {"path": inside, "prio": "high"}),
        "long key": ("BAD_REQUEST", {"path": inside, "key": "x" * 101}),
    }
    numbers = {name: desk.server.add(**fields) for name, (_, fields) in wrong.items()}
    desk.server.until_done()
    refused = desk.server.refused()
    assert {name: refused[number]["code"] for name, number in numbers.items()} == {
        name: code for name, (code, _) in wrong.items()
    }
    assert all(row["error"] and row["hint"] for row in refused.values())
    assert refused[numbers["profile"]]["profile"] == "nonsense"
    assert added(desk) == {}


def test_the_key_of_a_refused_entry_may_be_used_again(desk: Desk) -> None:
    desk.server.add(path=desk.roots / "missing.mp4", key="again")
    desk.server.add(path=film(desk.roots, "there.mp4"), key="again")
    desk.server.until_done()
    assert set(added(desk)) == {"there.mp4"}


def test_no_process_but_the_supervisor_gets_the_password(desk: Desk) -> None:
    supervisor = desk.live.process.pid
    for process in desk.live.processes():
        environment = {} if process.pid == supervisor else process.environ()
        assert PASSWORD not in f"{process.cmdline()} {environment}"


def test_without_roots_no_path_is_taken() -> None:
    with pytest.raises(TqError, match="redis_roots"):
        places.root_of(b"/srv/film.mp4", places.roots_of(" , "))
