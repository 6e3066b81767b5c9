"""The worst bodies of each call: refused without much work on the event loop, which all others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from harness import LiveSupervisor
from tqstudio.engine.api.bodies import LARGE_BYTES, SMALL_BYTES
from tqstudio.engine.http.server import MAX_BODY_BYTES
from tqstudio.protocol import calls
from tqstudio.protocol.roles import ROLE_OF, Role

MAX_LOOP_S = 1.5
"""CPU of the loop for one request: 0.5 s to receive 32 MB and free what was parsed, 5 s to parse it there."""


def loop_s(live: LiveSupervisor) -> float:
    """CPU seconds of the main thread, which runs the event loop."""
    [main] = [each for each in psutil.Process(live.process.pid).threads() if each.id == live.process.pid]
    return float(main.user_time + main.system_time)


KEYS = b"".join(b'"%d":0,' % number for number in range(10_000_000, 10_000_000 + MAX_BODY_BYTES // 13))
"""Distinct keys, 13 bytes each, in a body of the largest size."""


def worst(size: int, fields: list[str]) -> Iterator[bytes]:
    """Bodies of that size that are as much work as possible; none is valid."""
    room = size - 100
    yield b"{" + KEYS[: room // 13 * 13 - 1] + b"}"
    yield b"[" * size
    yield b'"' + b"a" * (size - 2) + b'"'
    for field in fields:
        head = b'{"%s":' % field.encode()
        yield head + b"[" + b"[]," * (room // 3) + b"[]]}"
        yield head + b"{" + KEYS[: room // 13 * 13 - 1] + b"}}"
        yield head + b"1" * room + b"}"


def bodies_of(schema: Any, call: str) -> list[str] | None:
    """The fields of the body of a call; None if it has no JSON."""
    method, _, path = call.partition(" ")
    described = schema["paths"].get(path, {}).get(method.lower(), {})
    content = described.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    name = content["schema"]["$ref"].rpartition("/")[2]
    return list(schema["components"]["schemas"][name]["properties"])


def path_of(call: str) -> str:
    return call.partition(" ")[2].replace("{verb}", "enable").format_map(dict.fromkeys(NAMES, "1"))


NAMES = ("job", "video", "folder", "batch", "upload", "name")


@pytest.mark.fault(
    "A client sends millions of unknown keys, or lists and numbers as long as a request may be",
    "Refused: 64 kB for most calls, at the first unknown key; others are served meanwhile",
    area="supervisor",
)
@pytest.mark.parametrize("each_field", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_body_holds_the_loop_up(standing: LiveSupervisor, each_field: bool) -> None:
    _, schema = standing.raw("GET", "/openapi.json")
    tokens = {
        role: standing.send(calls.create_token(f"worst-{role}-{each_field}", role))["token"]
        for role in (Role.WORKER, Role.JOIN)
    }
    seen, slow = set(), {}
    for call, role in ROLE_OF.items():
        if (fields := bodies_of(schema, call)) is None:
            continue
        seen.add(call)
        headers = {"Authorization": f"Bearer {tokens[role]}"} if role in tokens else {}
        bodies = worst(LARGE_BYTES.get(call, SMALL_BYTES), fields if each_field else [])
        for number, body in enumerate(bodies):
            before = loop_s(standing)
            status, answer = standing.raw(call.partition(" ")[0], path_of(call), body, headers=headers)
            assert 400 <= status < 500, (call, number, answer)
            if (took := loop_s(standing) - before) > MAX_LOOP_S:
                slow[call, number] = took
    assert not slow
    assert {*LARGE_BYTES} < seen
    assert max(LARGE_BYTES.values()) == MAX_BODY_BYTES
