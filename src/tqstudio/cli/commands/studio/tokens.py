"""`token create|list|revoke`: the tokens by which callers from the network are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, get_args

import typer

from tqstudio.cli.session.supervisor_session import client, session
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.words import format as fmt

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]
HEADS = ("TOKEN", "ROLE", "JOINED BY", "PREFIX", "CREATED", "EXPIRES")
Columns = Annotated[str | None, options.columns(HEADS)]
_Role = Literal["view", "operate", "admin", "worker", "join"]
_ROLES = "|".join(get_args(_Role))


def create(
    name: Name,
    role: Annotated[_Role, typer.Option("--role", metavar=_ROLES, help="What it allows.")],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DAYS|DATE", help="When it expires, such as 90 or 2027-01-31."),
    ] = None,
    kind: Annotated[
        Literal["cpu", "gpu"],
        typer.Option("--kind", metavar="cpu|gpu", help="Of the worker, with --role worker."),
    ] = "cpu",
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="How many may join by it; 16 by default."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Create a token and print it, once: only its hash is stored.

    A token with the role worker acts for one worker, which has the token's name. One with the role join gets
    such tokens for workers that join.
    """
    at = session().client
    answer = at.send(calls.create_token(name, role, expires_at=_expiry(expires), kind=kind, workers=workers))
    return printing.answer(answer, answer["token"], as_json)


def _expiry(text: str | None) -> str | None:
    """The time at which a token expires, from a number of days or a date; raise BAD_REQUEST for others."""
    if text is None or not text.isdecimal():
        return text
    try:
        return (datetime.now(UTC) + timedelta(days=int(text))).isoformat(timespec="seconds")
    except OverflowError:
        raise TqError(ErrorCode.BAD_REQUEST, f"{text} days are too many", "leave --expires out") from None


def list_tokens(
    columns: Annotated[str | None, options.columns(HEADS)] = None, as_json: JsonFlag = False
) -> int:
    """List the tokens, without their secrets."""
    tokens = client().send(calls.tokens())["tokens"]
    if as_json:
        printing.out_json({"tokens": tokens})
        return 0
    printing.table(
        HEADS,
        [
            (
                token["name"],
                token["role"],
                token["joined_by"] or "",
                f"tq_{token['prefix']}",
                token["created_at"][:10],
                "expired" if token["expired"] else (token["expires_at"] or "never")[:10],
            )
            for token in tokens
        ],
        columns=columns,
    )
    return 0


def revoke(
    name: Name,
    with_joined: Annotated[
        bool, typer.Option("--with-joined", help="Revoke those of the workers that joined by it too.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Revoke a token at once; its open connections end."""
    answer = session().client.send(calls.revoke_token(name, with_joined=with_joined))
    ended = f", with {fmt.counted(len(answer['joined']), 'worker')} that joined by it" if with_joined else ""
    return printing.answer(answer, f"the token {name} is revoked{ended}", as_json)
