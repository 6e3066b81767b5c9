"""The workers' calls: register, claim, report, end.

They are served in front of the framework, whose routing and injection cost a claim more time than the
database does (1.0 of 1.6 ms for a claim and its end). What a call takes and answers stands in one table,
from which the schema at `/openapi.json` is made too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.api.errors import Refusal, no_such_path, refusal, wrong_method
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.queue.tokens import WorkerToken
from tqstudio.engine.services import Services
from tqstudio.engine.store.machine import quarantine, workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.answers import (
    ClaimAnswer,
    HeartbeatAnswer,
    OutcomeAnswer,
    ProgressAnswer,
    RegisterAnswer,
    TestedAnswer,
)
from tqstudio.protocol.requests import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    ProgressRequest,
    RegisterRequest,
    ReleaseRequest,
    TestedRequest,
    WorkerMessage,
)

PREFIX = "/v1/worker/"
_JOBS = "jobs/"
_ID = re.compile("[0-9]{1,19}")

Gone = Callable[[], bool]
"""Whether the client has hung up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker's call: who asks, of which job (0 where the call names none), and with what."""

    studio: Services
    who: WorkerToken
    job: int
    body: Any
    gone: Gone


async def register(asked: Asked) -> RegisterAnswer:
    studio, who, body = asked.studio, asked.who, asked.body
    for name, value in (("capabilities", body.capabilities), ("metadata", body.metadata)):
        require_small(name, value)
    await studio.db.write(
        workers.register,
        who.worker,
        instance=body.instance,
        pid=body.pid,
        pid_started=body.pid_started,
        encoder=body.encoder,
        capabilities=body.capabilities,
        metadata=body.metadata,
        now=now_us(),
    )
    settings = studio.settings
    return {
        "worker": who.worker,
        "name": who.name,
        "heartbeat_s": settings.heartbeat_s,
        # A lease counts from when it was asked for: half of it must be left when the answer comes.
        "long_poll_s": min(settings.long_poll_s, settings.lease_s / 2),
        "ffmpeg_nice": settings.ffmpeg_nice,
        "stall_s": settings.stall_s,
        "time_limit_factor": settings.time_limit_factor,
        "time_limit_min_s": settings.time_limit_min_s,
        "time_limit_max_s": settings.time_limit_max_s,
        "disk_reserve_bytes": settings.disk_reserve_bytes,
        "disk_factor": settings.disk_factor,
    }


async def claim(asked: Asked) -> ClaimAnswer:
    return await asked.studio.dispatch.claim(asked.who, asked.body, asked.gone)


async def tested(asked: Asked) -> TestedAnswer:
    heard = await asked.studio.db.write(
        quarantine.tested,
        asked.who.worker,
        instance=asked.body.instance,
        problem=asked.body.problem,
        now=now_us(),
    )
    return {"heard": heard}


async def heartbeat(asked: Asked) -> HeartbeatAnswer:
    return await asked.studio.dispatch.heartbeat(asked.who, asked.body)


async def progress(asked: Asked) -> ProgressAnswer:
    control = await asked.studio.dispatch.progress(asked.who, asked.job, asked.body)
    return {"control": control.value}


def _outcome(asked: Asked, status: JobStatus) -> OutcomeAnswer:
    return {"job": asked.job, "status": status.value}


async def complete(asked: Asked) -> OutcomeAnswer:
    return _outcome(asked, await asked.studio.results.complete(asked.who, asked.job, asked.body))


async def fail(asked: Asked) -> OutcomeAnswer:
    return _outcome(asked, await asked.studio.results.fail(asked.who, asked.job, asked.body))


async def release(asked: Asked) -> OutcomeAnswer:
    return _outcome(asked, await asked.studio.results.release(asked.who, asked.job, asked.body))


@dataclass(frozen=True, slots=True)
class _Call:
    takes: type[WorkerMessage]
    answers: Any
    serve: Callable[[Asked], Awaitable[Any]]


CALLS: dict[str, _Call] = {
    "register": _Call(RegisterRequest, RegisterAnswer, register),
    "claim": _Call(ClaimRequest, ClaimAnswer, claim),
    "tested": _Call(TestedRequest, TestedAnswer, tested),
    "heartbeat": _Call(HeartbeatRequest, HeartbeatAnswer, heartbeat),
}
CALLS_OF_A_JOB: dict[str, _Call] = {
    "progress": _Call(ProgressRequest, ProgressAnswer, progress),
    "complete": _Call(CompleteRequest, OutcomeAnswer, complete),
    "fail": _Call(FailRequest, OutcomeAnswer, fail),
    "release": _Call(ReleaseRequest, OutcomeAnswer, release),
}


class WorkerDoor:
    """Serves what lies below `PREFIX`; everything else is for the application behind it."""

    def __init__(self, behind: ASGIApp, studio: Services) -> None:
        self._behind, self._studio = behind, studio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._behind(scope, receive, send)
            return
        try:
            status, answer = 200, await self._answer(scope, receive)
        except _Refused as refused:
            status, answer = refused.refusal.status, refused.refusal.body()
        except Exception as error:
            refused_as = refusal(error)
            status, answer = refused_as.status, refused_as.body()
            if status == 500:
                await _send(send, status, answer)
                raise  # the server logs it
        await _send(send, status, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        call, job = _find(scope)
        who = self._identity(scope)
        body = call.takes.model_validate_json(await _read(receive))
        # A lease is known by the instance of its worker. With the name of the token's worker in front, no
        # worker can name the lease of another one.
        body = body.model_copy(update={"instance": f"{who.name}/{body.instance}"})
        return await call.serve(Asked(self._studio, who, job, body, lambda: _has_hung_up(receive)))

    def _identity(self, scope: Scope) -> WorkerToken:
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = shown.decode("latin-1").partition(" ")
        found = self._studio.identities.of(token) if scheme.lower() == "bearer" else None
        if found is None:
            raise TqError(
                ErrorCode.UNAUTHORIZED, "this needs a worker's token, and the one given is not valid"
            )
        return found


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _find(scope: Scope) -> tuple[_Call, int]:
    """The call of a path, and the job it names."""
    path: str = scope["path"]
    job, verb = 0, path[len(PREFIX) :]
    calls = CALLS
    if verb.startswith(_JOBS):
        digits, _, verb = verb[len(_JOBS) :].partition("/")
        if _ID.fullmatch(digits):
            job, calls = int(digits), CALLS_OF_A_JOB
    call = calls.get(verb)
    if call is None:
        raise _Refused(no_such_path(path))
    if scope["method"] != "POST":
        raise _Refused(wrong_method(path, scope["method"]))
    return call, job


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise TqError(ErrorCode.BAD_REQUEST, "the connection ended in the middle of the request")
        chunk: bytes = message.get("body", b"")
        body += chunk
        if not message.get("more_body"):
            return bytes(body)


def _has_hung_up(receive: Receive) -> bool:
    """Look without waiting: a step of `receive` that would wait is taken back."""
    looking = receive()
    try:
        looking.send(None)  # type: ignore[attr-defined]
    except StopIteration as ended:
        return bool(ended.value["type"] == "http.disconnect")
    looking.close()  # type: ignore[attr-defined]
    return False


async def _send(send: Send, status: int, answer: Any) -> None:
    body = to_json(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def described() -> APIRouter:
    """The calls as the schema shows them; the door answers before any of these is reached."""
    router = APIRouter()
    for verb, call in CALLS.items():
        _describe(router, f"/{verb}", call, {"body": call.takes})
    for verb, call in CALLS_OF_A_JOB.items():
        _describe(router, f"/{_JOBS}{{job}}/{verb}", call, {"job": int, "body": call.takes})
    return router


def _describe(router: APIRouter, path: str, call: _Call, takes: dict[str, Any]) -> None:
    async def described_only(**_: Any) -> None:
        raise AssertionError("the workers' door stands in front")

    described_only.__annotations__ = takes
    described_only.__doc__ = call.serve.__doc__
    described_only.__signature__ = _signature(takes)  # type: ignore[attr-defined]
    router.add_api_route(
        path,
        described_only,
        methods=["POST"],
        name=path.rsplit("/", 1)[-1],
        responses={200: {"model": call.answers}},
        response_model=None,
    )


def _signature(takes: dict[str, Any]) -> Any:
    from inspect import Parameter, Signature

    return Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in takes.items()]
    )
