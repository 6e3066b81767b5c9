"""Injects faults into a running studio. Each fault returns a description for the log."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tqstudio.drill.sandbox import Sandbox, until
from tqstudio.errors import TqError
from tqstudio.protocol import calls

T = TypeVar("T")

ORPHAN_S = 15.0
"""How long processes of a killed supervisor may live. On an idle machine they end in a fraction of a second
(`python -m benchmarks --only recovery` counts after 2 s); leaked ones live for ever."""

FAIL_POINTS = (
    "publish.intended",
    "publish.building",
    "publish.built",
    "publish.renamed",
    "publish.master_written",
    "publish.pointed",
    "publish.set_aside",
    "publish.recording",
    "publish.recorded",
)


class _NoTarget(Exception):
    """Nothing runs that the fault could hit."""


def _one_of(targets: Sequence[T], rng: random.Random) -> T:
    if not targets:
        raise _NoTarget
    return rng.choice(targets)


def _supervisor(box: Sandbox) -> int:
    if (pid := box.pid) is None:
        raise _NoTarget
    return pid


def kill_ffmpeg(box: Sandbox, rng: random.Random) -> str:
    victim = _one_of(box.encoders(), rng)
    with contextlib.suppress(Exception):
        victim.kill()
    return "ffmpeg killed"


def kill_worker(box: Sandbox, rng: random.Random) -> str:
    os.kill(_one_of(box.worker_pids(), rng), signal.SIGKILL)
    return "worker killed"


def kill_supervisor(box: Sandbox, _: random.Random) -> str:
    os.kill(_supervisor(box), signal.SIGKILL)
    _start_again(box)
    return "supervisor killed"


def _start_again(box: Sandbox, fail_point: str | None = None) -> None:
    """Start the next supervisor once the previous one has exited, and count what outlived it."""
    box.wait_ended()
    deadline = time.monotonic() + ORPHAN_S
    while left := list(box.processes()):
        if time.monotonic() > deadline:
            box.orphans += len(left)
            for process in left:
                with contextlib.suppress(Exception):
                    process.kill()
            break
        time.sleep(0.02)
    box.start(fail_point)


def restart_supervisor(box: Sandbox, rng: random.Random) -> str:
    """Shut the supervisor down, by signal or API, and start it again."""
    pid = _supervisor(box)
    if rng.random() < 0.5:
        os.kill(pid, signal.SIGTERM)
        how = "supervisor ended by SIGTERM"
    else:
        box.send(calls.shutdown())
        how = "supervisor ended by down"
    _start_again(box)
    return how


def freeze_worker(box: Sandbox, rng: random.Random) -> str:
    """Stop a worker until its lease has expired, and continue it."""
    pid = _one_of(box.worker_pids(), rng)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(rng.choice((0.3, 4.5)))
    os.kill(pid, signal.SIGCONT)
    return "worker stopped and continued"


def freeze_supervisor(box: Sandbox, rng: random.Random) -> str:
    """Stop and continue the supervisor, like a suspended laptop; no lease may expire."""
    pid = _supervisor(box)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(rng.choice((0.3, 4.0)))
    os.kill(pid, signal.SIGCONT)
    return "supervisor stopped and continued"


def die_while_publishing(box: Sandbox, rng: random.Random) -> str:
    """Restart the supervisor with a fail point in its next publish."""
    _supervisor(box)
    box.send(calls.shutdown())
    name = rng.choice(FAIL_POINTS)
    _start_again(box, name)
    return f"supervisor dies at {name}"


def pause_and_resume(box: Sandbox, rng: random.Random) -> str:
    job = _one_of([worker["job"] for worker in box.status()["workers"] if worker["job"]], rng)
    box.send(calls.act("pause", [job]))
    until(lambda: box.job(job)["status"] != "in_progress", f"job {job} is paused")
    box.send(calls.act("resume", [job]))
    return "job paused and resumed"


Fault = Callable[[Sandbox, random.Random], str]

FAULTS: tuple[tuple[Fault, int], ...] = (
    (kill_worker, 5),
    (kill_supervisor, 5),
    (kill_ffmpeg, 3),
    (freeze_worker, 2),
    (freeze_supervisor, 1),
    (restart_supervisor, 2),
    (die_while_publishing, 3),
    (pause_and_resume, 2),
)
"""Faults with their relative frequencies."""


def inject(box: Sandbox, rng: random.Random) -> str | None:
    """Inject a random fault; None when there was no target for it."""
    fault = rng.choices([kind for kind, _ in FAULTS], [weight for _, weight in FAULTS])[0]
    try:
        return fault(box, rng)
    except (_NoTarget, ProcessLookupError, TqError):
        return None  # with a TqError the supervisor is dying from the previous fault
