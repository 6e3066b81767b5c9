"""What the socket takes from a client: so many bytes, for so long."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor
from tqstudio.engine.http import server as serving
from tqstudio.engine.http.server import MAX_BODY_BYTES, MAX_HEAD_BYTES, SocketServer
from tqstudio.engine.worker.reporting.calls import ASKED_AGAIN
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.protocol.client import decode

HEAD = b"POST /v1/videos HTTP/1.1\r\nHost: x\r\n"
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


def converse(live: LiveSupervisor, *pieces: bytes) -> tuple[int, Any]:
    """Send pieces to a supervisor, all of them whatever it answers; status and body of the answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(live.home.socket))
        for piece in pieces:
            line.sendall(piece)
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            more = line.recv(65536)
            assert more, received
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.fault(
    "A client sends without end", "Refused at 64 kB of head or 32 MB of body", area="supervisor"
)
@pytest.mark.parametrize(
    ("pieces", "status", "says"),
    [
        ([HEAD, b"Content-Length: 300000000\r\n\r\n", *[b"x" * 1_000_000] * 300], 413, "body"),
        ([HEAD, b"Transfer-Encoding: chunked\r\n\r\n", *[CHUNK] * 600], 413, "body"),
        ([HEAD.replace(b"videos", b"worker/claim"), b"Content-Length: 32000001\r\n\r\n"], 413, "body"),
        ([HEAD, *[b"X-Y: " + b"z" * 1000 + b"\r\n"] * 2_000], 431, "head"),
        ([HEAD, b"X-Y: ", *[b"z" * 100_000] * 10], 431, "head"),
        ([b"GET /", *[b"z" * 100_000] * 10], 431, "head"),
        ([b"\r\n" * 100_000], 431, "head"),
        ([b"no HTTP at all\r\n\r\n"], 400, "Invalid HTTP"),
        ([HEAD, b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n"], 400, "Invalid HTTP"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_kept(
    standing: LiveSupervisor, pieces: list[bytes], status: int, says: str
) -> None:
    answered, answer = converse(standing, *pieces)
    assert answered == status
    assert answer["error"]["code"] == "BAD_REQUEST"
    assert says in answer["error"]["message"]
    assert standing.send(calls.status())["jobs"] is not None


def test_a_large_body_is_read_in_one_pass(standing: LiveSupervisor) -> None:
    """As large as that of any call may be."""
    worker = standing.worker("large")
    body = b"[" + b" " * (MAX_BODY_BYTES - 2) + b"]"
    headers = {"Authorization": f"Bearer {worker.token}"}
    for path, expected in (("/v1/worker/jobs/1/complete", 400), ("/v1/worker/claim", 413)):
        status, answer = standing.raw("POST", path, body, headers=headers)
        assert (status, answer["error"]["code"]) == (expected, "BAD_REQUEST")
        assert ("more than" in answer["error"]["message"]) is (expected == 413)


def test_a_head_may_be_large(standing: LiveSupervisor) -> None:
    headers = {f"X-{number}": "y" * 1000 for number in range(MAX_HEAD_BYTES // 1100)}
    assert standing.raw("GET", "/v1/status", headers=headers)[0] == 200


Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[Callable[[bytes], Awaitable[Line]]]:
    """A server whose answers take longer than a request may; opens connections that begin with some bytes."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(3 * serving.REQUEST_S)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    server = SocketServer(app)
    task = asyncio.create_task(server.serve(sockets=[listener]))

    async def connect(first: bytes) -> Line:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(first)
        return reader, writer

    try:
        yield connect
    finally:
        server.end()
        await task


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 0.2)
    monkeypatch.setattr(serving, "_LINGER_S", 0.1)


@pytest.mark.fault("A client stops within a request", "Disconnected after 30 s", area="supervisor")
@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"\r\n", b"HTTP/1.1 408 "),
        (b"GET /", b"HTTP/1.1 408 "),
        (HEAD + b"Content-Length: 9\r\n\r\nabc", b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
    ],
)
def test_who_sends_no_whole_request_is_cut_off(tmp_path: Path, sent: bytes, answer: bytes) -> None:
    """The time for an answer is not the client's."""

    async def talk() -> bytes:
        async with served(tmp_path / "socket") as connect:
            reader, writer = await connect(sent)
            received = await (reader.readexactly(len(answer)) if answer.endswith(b"200 ") else reader.read())
            writer.close()
            return received

    received = asyncio.run(talk())
    assert received[: len(answer)] == answer
    assert bool(received) == bool(answer)


@pytest.mark.usefixtures("hasty")
def test_a_connection_that_was_of_use_is_cut_off_too(tmp_path: Path) -> None:
    """When the next request stays unfinished, and when none comes."""

    async def talk(then: bytes) -> bytes:
        async with served(tmp_path / (f"socket-{len(then)}")) as connect:
            reader, writer = await connect(b"GET / HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"ok")
            writer.write(then)
            received = await reader.read()
            writer.close()
            return received

    assert asyncio.run(talk(b"GET /")).startswith(b"HTTP/1.1 408 ")
    assert asyncio.run(talk(b"\r\n")).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("rest", [b"", b"cdefghi"])
def test_a_request_that_a_shutdown_cancels_is_answered_that_it_may_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    """Whether its body was still on the way, or its answer."""
    monkeypatch.setattr(serving, "_CLOSE_STREAMS_S", 0)

    async def talk() -> bytes:
        async with served(tmp_path / "socket") as connect:
            reader, writer = await connect(HEAD + b"Content-Length: 9\r\n\r\nab" + rest)
            asked, asking = await connect(b"GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")
            await asked.readuntil(b"\r\n\r\n")  # it is served, and so is the one before
            asking.close()
        received = await reader.read()
        writer.close()
        return received

    head, _, body = asyncio.run(talk()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    with pytest.raises(TqError) as again:
        decode(503, "Service Unavailable", body)
    assert again.value.code in ASKED_AGAIN


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520, 599])
def test_an_answer_of_a_proxy_is_one_to_ask_again_for(status: int) -> None:
    for body in (b"Internal Server Error", b"<html>", b"{}", b"[]", b'{"error": "down"}'):
        with pytest.raises(TqError) as again:
            decode(status, "Down", body)
        assert again.value.code in ASKED_AGAIN
    ours = b'{"error": {"code": "INTERNAL", "message": "a fault", "hint": "report it"}}'
    with pytest.raises(TqError) as fault:
        decode(status, "Down", ours)
    assert fault.value.code is ErrorCode.INTERNAL


def test_an_unfinished_request_costs_no_other_its_answer(standing: LiveSupervisor) -> None:
    lines = []
    for _ in range(50):
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(standing.home.socket))
        line.sendall(HEAD + b"Content-Length: 9\r\n\r\nabc")
        lines.append(line)
    assert standing.send(calls.status())["jobs"] is not None
    for line in lines:
        line.close()
