"""One client that claims jobs and fails them, as a program: `benchmarks.claims` starts several.

Takes the socket's path, a worker's token and a number of jobs; says `ready`, waits for a line, and prints
JSON: {"began", "ended" (seconds of the monotonic clock), "claims", "fails" (seconds each),
"jobs" (their numbers)}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.raw_client import RawClient
from tqstudio import paths

_FAILURE = {"code": "SOURCE_TRUNCATED", "text": "the benchmark's source ends early", "hint": ""}


def work(line: RawClient, instance: str, jobs: int) -> dict[str, Any]:
    """Claim and fail so many jobs; answers when, and the seconds of every call."""
    claims: list[float] = []
    fails: list[float] = []
    claimed: list[int] = []
    began = time.monotonic()
    while len(claims) < jobs:
        at = time.perf_counter()
        job = line.post("/v1/worker/claim", {"instance": instance, "wait_s": 0})["job"]
        claims.append(time.perf_counter() - at)
        if job is None:
            raise RuntimeError("the queue is empty")
        if not claimed:
            # A worker begins with its work folder: without it a disk that is not mounted looks the same.
            os.makedirs(paths.decode(job["work_dir"]["path_b64"]), exist_ok=True)
        claimed.append(job["job"])
        body = {"instance": instance, "epoch": job["epoch"], **_FAILURE}
        at = time.perf_counter()
        status = line.post(f"/v1/worker/jobs/{job['job']}/fail", body)["status"]
        fails.append(time.perf_counter() - at)
        if status != "failed":
            raise RuntimeError(f"job {job['job']} is {status} after a fatal failure")
    return {"began": began, "ended": time.monotonic(), "claims": claims, "fails": fails, "jobs": claimed}


def register(line: RawClient, instance: str) -> None:
    body = {"instance": instance, "pid": os.getpid(), "pid_started": time.time(), "encoder": "libx264"}
    line.post("/v1/worker/register", body)


def main() -> None:
    path, token, jobs = sys.argv[1:]
    instance = f"bench-{os.getpid():08d}"
    line = RawClient(Path(path), token)
    register(line, instance)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(work(line, instance, int(jobs))), flush=True)


if __name__ == "__main__":
    main()
