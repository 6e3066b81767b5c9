"""Endpoints of the tokens by which callers from the network are known."""

from __future__ import annotations

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices
from tqstudio.engine.api.views import fill, parse_time
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.machine import tokens
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import NewTokenView, RevokedTokens, TokenView
from tqstudio.protocol.requests import TokenRequest
from tqstudio.protocol.roles import Role

router = APIRouter(prefix="/tokens", route_class=BoundedRoute)


@router.get("")
async def listing(services: TheServices) -> dict[str, list[TokenView]]:
    rows = await services.db.read(tokens.listing)
    now = now_us()
    return {
        "tokens": [
            fill(
                TokenView,
                row,
                role=row.role.value,
                worker=row.worker_name,
                expired=row.expires_at is not None and row.expires_at <= now,
            )
            for row in rows
        ]
    }


@router.post("")
async def create(services: TheServices, actor: TheActor, request: TokenRequest) -> NewTokenView:
    """Create a token. It is answered once: the database has only its hash."""
    if request.role is Role.WORKER and services.pool.has(request.name):
        raise TqError(
            ErrorCode.REFUSED, f"{request.name} is the name of a local worker", "choose another name"
        )
    expires_at = None
    if request.expires_at is not None:
        try:
            expires_at = parse_time(request.expires_at)
        except (ValueError, OverflowError):
            raise TqError(
                ErrorCode.BAD_REQUEST, f"{request.expires_at!r} is not a time", "write it as 2027-01-31"
            ) from None
        if expires_at <= now_us():
            raise TqError(ErrorCode.BAD_REQUEST, "the token would be expired", "give a later time")
    token = await services.tokens.create(
        request.name,
        request.role,
        kind=request.kind.value,
        expires_at=expires_at,
        actor=actor,
        max_workers=request.max_workers if request.role is Role.JOIN else None,
    )
    return {"name": request.name, "role": request.role.value, "token": token}


@router.delete("/{name}")
async def revoke(
    services: TheServices, actor: TheActor, name: str, with_joined: bool = False
) -> RevokedTokens:
    """Revoke a token at once, with those of the workers that joined by it if asked; event streams end."""
    joined = await services.tokens.revoke(name, actor=actor, with_joined=with_joined)
    return {"revoked": name, "joined": joined}
