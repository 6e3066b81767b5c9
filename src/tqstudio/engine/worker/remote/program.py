"""Runs a worker of a studio on another machine, until a signal ends it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from tqstudio.engine.host import home_lock
from tqstudio.engine.media.ffmpeg import binary, hardware
from tqstudio.engine.worker import logging_setup
from tqstudio.engine.worker.remote.jobs import RemoteJobs
from tqstudio.engine.worker.session import WorkerIdentity, WorkerSession
from tqstudio.engine.worker.tmpdir import own_tmpdir
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.protocol.remote import Remote


def run(at: Remote, work: Path, *, gpu: bool, bytes_per_s: float, shared: Sequence[Path] = ()) -> int:
    """Work until a signal arrives, or the studio revokes the token; returns the exit status.

    Sources that are in a folder of `shared` are read there instead of copied.

    Raises:
        TqError: BAD_CONFIG: ffmpeg is missing, the folder cannot be used or is in use, or there is no GPU.
    """
    ffmpeg = binary.locate(os.environ.get("TQSTUDIO_FFMPEG"))
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(f"the work folder {work} cannot be used: {error.strerror}") from None
    if not home_lock.taken(lock):
        raise _unusable(f"another worker uses the work folder {work}")
    devices = [each for each in hardware.discover(ffmpeg) if each.encoders] if gpu else []
    for folder in shared:
        if not folder.is_dir():
            raise _unusable(f"{folder} is no folder", "mount it, or leave out --shared")
    if gpu and not devices:
        raise _unusable("no GPU of this machine encodes", "leave out --gpu, and use a token of --kind cpu")
    logging_setup.configure(at.name)
    identity = WorkerIdentity(
        name=at.name,
        kind=WorkerKind.GPU if gpu else WorkerKind.CPU,
        at=at,
        token=at.token,
        ffmpeg=ffmpeg.path,
        encoder=devices[0].encoders if devices else None,
        device=devices[0].node if devices else None,
        decodes=devices[0].decodes if devices else "",
    )
    instance = uuid.uuid4().hex
    with own_tmpdir(work / "tmp"):
        return WorkerSession(
            identity,
            instance=instance,
            run_job=RemoteJobs(at, instance, work, bytes_per_s, tuple(shared)).run,
        ).run()


def _unusable(message: str, hint: str = "choose another folder with --work") -> TqError:
    return TqError(ErrorCode.BAD_CONFIG, message, hint)
