"""Answers commands on the socket of a supervisor that stands by: it can be asked to shut down."""

from __future__ import annotations

import os
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from tqstudio.engine.api.errors import refusal
from tqstudio.engine.http.callers import answer, refuse
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
                await answer(send, 200, join)
            case "POST", "/v1/commands/leave":
                await answer(send, 200, leave)
            case "POST", "/v1/shutdown":
                await answer(send, 200, {"stopping": True, "drain": False})
                self._stop()
            case _:
                await refuse(send, refusal(self._refusal()))
