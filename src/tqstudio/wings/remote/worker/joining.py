"""Joins a studio: gets a token for one worker by one of the role join, and keeps it in the work folder."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import structlog

from tqstudio.engine.worker.reporting import retry_delay
from tqstudio.engine.worker.reporting.calls import ASKED_AGAIN
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from tqstudio.protocol.remote import Remote, Untrusted, write_private

_log = structlog.get_logger()


def join(at: Remote, work: Path, name: str, kind: WorkerKind) -> Remote:
    """Returns the studio with the token of the worker `name`. Waits until the studio answers.

    A token in the work folder is used if it was got by this token for this worker, and the studio accepts it.

    Raises:
        TqError: the studio's: PERMISSION if the token of `at` has another role, UNAUTHORIZED if it is
            refused, REFUSED if the name belongs to another worker, BAD_REQUEST if the studio has not the name
            by which it is called. Untrusted if its certificate is refused.
        OSError: the token cannot be written.
    """
    path = work / "worker.token"
    # The part of a token by which it is looked up; not secret.
    joining = "_".join(at.token.split("_")[:2])
    kept = _read(path)
    if kept[:3] == [joining, name, kind.value] and not _is_refused(replace(at, token=kept[3]), name, kind):
        return replace(at, token=kept[3])
    token = _ask(at, name, kind)
    work.mkdir(mode=0o700, exist_ok=True)
    write_private(path, f"{joining} {name} {kind.value} {token}\n")
    _log.info("joined the studio", url=at.urls[0])
    return replace(at, token=token)


def _read(path: Path) -> list[str]:
    try:
        words = path.read_text(errors="replace").split()
    except FileNotFoundError:
        return []
    return words if len(words) == 4 else []


def _is_refused(at: Remote, name: str, kind: WorkerKind) -> bool:
    """Whether the studio refuses a worker's token; an accepted one has no permission to join."""
    try:
        _ask(at, name, kind)
    except TqError as error:
        if error.code in (ErrorCode.UNAUTHORIZED, ErrorCode.PERMISSION):
            return error.code is ErrorCode.UNAUTHORIZED
        raise
    return False


def _ask(at: Remote, name: str, kind: WorkerKind) -> str:
    retry_s = retry_delay.FIRST_S
    while True:
        try:
            return Client(at).send(calls.join_worker(name, kind.value))["token"]
        except TqError as error:
            if error.code not in ASKED_AGAIN or isinstance(error, Untrusted):
                raise
            _log.warning("joining failed", code=error.code.value, error=error.message, hint=error.hint)
        time.sleep(retry_s)
        retry_s = retry_delay.after(retry_s)
