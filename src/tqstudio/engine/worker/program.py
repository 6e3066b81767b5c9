"""Configures and runs a worker from its environment variables."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

import structlog

from tqstudio.engine.host.parent_death import die_with_parent
from tqstudio.engine.worker.reporting import logging_setup
from tqstudio.engine.worker.session import WorkerIdentity, WorkerSession
from tqstudio.engine.worker.tmpdir import own_tmpdir
from tqstudio.home import current_home
from tqstudio.lifecycle import WorkerKind

_USAGE = 2


def main() -> int:
    """Run a worker until it is stopped.

    Returns the exit status: 0 after a regular stop, 1 if the supervisor refused the worker or is gone, 2 if
    it was not started by a supervisor.
    """
    logging_setup.configure(os.environ.get("TQSTUDIO_WORKER_NAME", "?"))
    log = structlog.get_logger()
    if not die_with_parent(os.environ):
        log.warning("the supervisor is gone")
        return 1
    try:
        identity = take_identity(os.environ)
    except (KeyError, ValueError) as error:
        log.error("workers are started by the supervisor", missing=str(error))
        return _USAGE
    with own_tmpdir(current_home().tmpdir(identity.name)):
        return WorkerSession(identity).run()


def take_identity(environment: MutableMapping[str, str]) -> WorkerIdentity:
    """Read the identity of this worker. Removes the token, so that ffmpeg does not inherit it.

    KeyError or ValueError means that the environment is not that of a worker.
    """
    token = environment.pop("TQSTUDIO_WORKER_TOKEN")
    return WorkerIdentity(
        name=environment["TQSTUDIO_WORKER_NAME"],
        kind=WorkerKind(environment.get("TQSTUDIO_WORKER_KIND", WorkerKind.CPU.value)),
        at=Path(environment.get("TQSTUDIO_WORKER_SOCKET") or current_home().socket),
        token=token,
        ffmpeg=environment["TQSTUDIO_WORKER_FFMPEG"],
        encoder=environment.get("TQSTUDIO_WORKER_ENCODER") or None,
        device=environment.get("TQSTUDIO_WORKER_DEVICE") or None,
        decodes=environment.get("TQSTUDIO_WORKER_DECODES", ""),
    )
