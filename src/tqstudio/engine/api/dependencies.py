"""Dependencies of endpoints: the services, the caller and its role, a check for unknown query parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from tqstudio.engine.access.principal import Principal
from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.monitoring.monitor import Monitor
from tqstudio.engine.parts.part import Part
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.roles import ROLE_OF, Role, allows

T = TypeVar("T", bound=Part)

PREFIX = "/v1"
"""Prefix of all paths but those for monitoring; routers leave it out."""


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


TheServices = Annotated[Services, Depends(_services)]


async def _monitor(request: Request) -> Monitor:
    monitor: Monitor = request.app.state.monitor
    return monitor


TheMonitor = Annotated[Monitor, Depends(_monitor)]


def the(kind: type[T]) -> Any:
    """Depend on the wing's part of a class."""

    async def find(services: TheServices) -> T:
        return await services.wings.part(kind)

    return Depends(find)


async def _caller(request: Request) -> Principal:
    caller: Principal = request.scope["principal"]
    return caller


async def _actor(request: Request) -> str:
    return (await _caller(request)).actor


async def _worker(request: Request) -> WorkerToken:
    worker = (await _caller(request)).worker
    assert worker is not None, "require_role has refused all others"
    return worker


TheActor = Annotated[str, Depends(_actor)]
"""The name of the caller in events."""
TheWorker = Annotated[WorkerToken, Depends(_worker)]


def call_of(request: Request) -> str:
    """The call that a request makes, as `ROLE_OF` names it."""
    prefix = PREFIX if request.url.path.startswith(f"{PREFIX}/") else ""
    return f"{request.method} {prefix}{request.scope['route'].path_format}"


async def require_role(request: Request) -> None:
    """Refuse callers whose role does not include the endpoint.

    Raises:
        TqError: UNAUTHORIZED without a worker's token where one is needed; PERMISSION.
    """
    caller = await _caller(request)
    needed = ROLE_OF[call_of(request)]
    if allows(caller.role, needed):
        return
    if needed is Role.WORKER:
        raise TqError(ErrorCode.UNAUTHORIZED, "this needs a worker's token, and the one given is not valid")
    if needed is Role.OWNER:
        raise TqError(
            ErrorCode.PERMISSION,
            "this names files of the studio's machine, and works only there",
            "run the command on that machine, as the user who runs the supervisor",
        )
    raise TqError(
        ErrorCode.PERMISSION,
        f"this needs the role {needed}, and the token has the role {caller.role}",
        "ask an administrator of the studio for a token with that role",
    )


async def refuse_unknown_query(request: Request) -> None:
    """Refuse query parameters that the endpoint does not know, instead of ignoring them.

    Raises:
        TqError: BAD_REQUEST with the parameters that it knows.
    """
    route = request.scope["route"]
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = list(_query_names(route.dependant))
    unknown = [key for key in request.query_params if key not in known]
    if unknown:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{request.url.path} has no parameter {unknown[0]!r}",
            f"it takes {', '.join(known)}" if known else "it takes no parameters: leave it out",
        )


def _query_names(dependant: Dependant) -> Iterator[str]:
    """The query parameters of an endpoint and of what it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_names(inner)
