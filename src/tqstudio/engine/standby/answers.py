"""Answers commands on the socket of a supervisor that stands by: it can be asked to shut down."""

from __future__ import annotations

import os
from collections.abc import Callable

from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from tqstudio.engine.api.errors import refusal
from tqstudio.engine.http.callers import refuse
from tqstudio.errors import TqError
from tqstudio.protocol.answers import JoinAnswer, LeaveAnswer


class Answers:
    """The ASGI application of a supervisor that stands by.

    Args:
        refusal: returns why other commands are refused.
        stop: asks this one to shut down.
    """

    def __init__(self, refusal: Callable[[], TqError], stop: Callable[[], None]) -> None:
        self._refusal, self._stop = refusal, stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        join: JoinAnswer = {"pid": os.getpid(), "draining": False}
        leave: LeaveAnswer = {"needed_by": "stay"}
        match scope.get("method"), scope.get("path"):
            case "POST", "/v1/commands":
                await _answer(send, join)
            case "POST", "/v1/commands/leave":
                await _answer(send, leave)
            case "POST", "/v1/shutdown":
                await _answer(send, {"stopping": True, "drain": False})
                self._stop()
            case _:
                await refuse(send, refusal(self._refusal()))


async def _answer(send: Send, answer: object) -> None:
    body = to_json(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
