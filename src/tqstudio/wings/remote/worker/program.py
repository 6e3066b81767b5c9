"""Runs workers of a studio on another machine, until a signal ends them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from tqstudio.engine.host import home_lock
from tqstudio.engine.host.parent_death import PARENT, die_with_parent
from tqstudio.engine.media.ffmpeg import binary, hardware
from tqstudio.engine.worker.reporting import logging_setup
from tqstudio.engine.worker.session import WorkerIdentity, WorkerSession
from tqstudio.engine.worker.tmpdir import own_tmpdir
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.protocol.remote import Remote
from tqstudio.wings.remote.worker import joining, slots
from tqstudio.wings.remote.worker.jobs import RemoteJobs


def run(at: Remote, work: Path, *, name: str, gpu: int, bytes_per_s: float, shared: Sequence[Path]) -> int:
    """Work until a signal arrives, or the studio revokes the token; returns the exit status.

    Args:
        at: the studio, with a token of the role join or worker.
        name: to join by; empty for that of the host.
        gpu: which of the GPUs that encode; 0 for the CPU. Above their number it begins again with the first.
        shared: sources that are in these folders are read there instead of copied.

    Raises:
        TqError: BAD_CONFIG: ffmpeg is missing, the folder cannot be used or is in use, or there is no GPU;
            the studio's when it does not let this worker join.
    """
    if PARENT in os.environ and not die_with_parent(os.environ):
        return 1
    ffmpeg = binary.locate(os.environ.get("TQSTUDIO_FFMPEG"))
    _lock(work)
    devices = [each for each in hardware.discover(ffmpeg) if each.encoders] if gpu else []
    for folder in shared:
        if not folder.is_dir():
            raise _unusable(f"{folder} is no folder", "mount it, or leave out --shared")
    if gpu and not devices:
        raise _unusable("no GPU of this machine encodes", "leave out --gpu, and use a token of --kind cpu")
    logging_setup.configure(name or at.name)
    at = _join(at, work, name, gpu=bool(gpu), is_needed=bool(name))
    device = devices[(gpu - 1) % len(devices)] if devices else None
    identity = WorkerIdentity(
        name=name or at.name,
        kind=WorkerKind.GPU if gpu else WorkerKind.CPU,
        at=at,
        token=at.token,
        ffmpeg=ffmpeg.path,
        encoder=device.encoders if device else None,
        device=device.node if device else None,
        decodes=device.decodes if device else "",
    )
    instance = uuid.uuid4().hex
    jobs = RemoteJobs(at, instance, work, bytes_per_s, tuple(shared))
    with own_tmpdir(work / "tmp"):
        refused = WorkerSession(
            identity,
            instance=instance,
            run_job=jobs.run,
            between_jobs=jobs.between_jobs,
        ).run()
    return slots.REFUSED if refused else 0


def run_slots(
    at: Remote, work: Path, count: int, *, name: str, gpu: bool, bandwidth: float, shared: Sequence[Path]
) -> int:
    """Run several workers, each in a process and a folder of its own, until a signal; returns the status.

    Args:
        at: the studio, with a token of the role join.
        gpu: whether they encode on GPUs, each on the next one.
        bandwidth: of all together.

    Raises:
        TqError: as `run`, for the first worker.
    """
    name = name or socket.gethostname()
    _lock(work)
    logging_setup.configure(at.name)
    # Here, because an error is most likely one of all.
    _join(at, work / "1", name, gpu=gpu, is_needed=True)
    common = [f"--bandwidth={bandwidth / count}", *(f"--shared={folder}" for folder in shared)]
    return slots.run(commands(work, count, name, common, gpu=gpu))


def commands(work: Path, count: int, name: str, options: Sequence[str], *, gpu: bool) -> dict[str, list[str]]:
    """The command of each worker, by its name."""
    # Host names have no underscore: `media-2` may be another machine.
    names = {number: name if number == 1 else f"{name}_{number}" for number in range(1, count + 1)}
    return {
        each: [
            *("worker", "run", f"--name={each}", f"--work={work / str(number)}", *options),
            *(["--gpu", f"--gpu-number={number}"] if gpu else []),
        ]
        for number, each in names.items()
    }


def _lock(work: Path) -> None:
    """Create the folder, and keep other workers out of it until this process ends."""
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(f"the work folder {work} cannot be used: {error.strerror}") from None
    if not home_lock.try_lock(lock):
        raise _unusable(f"another worker uses the work folder {work}")


def _join(at: Remote, work: Path, name: str, *, gpu: bool, is_needed: bool) -> Remote:
    """The studio with the token of a worker: the one given, or one that it got by joining."""
    # A container's first process ignores it otherwise, while the studio does not answer.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        return joining.join(at, work, name or socket.gethostname(), WorkerKind.GPU if gpu else WorkerKind.CPU)
    except OSError as error:
        raise _unusable(f"the work folder {work} cannot be used: {error.strerror}") from None
    except TqError as error:
        if error.code is not ErrorCode.PERMISSION:
            raise
        if is_needed:
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"--slots and --name need a token to join: {error.message}",
                "create one with: tqstudio token create NAME --role join",
            ) from None
        return at


def _unusable(message: str, hint: str = "choose another folder with --work") -> TqError:
    return TqError(ErrorCode.BAD_CONFIG, message, hint)
