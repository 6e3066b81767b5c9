"""Many real processes over the real API: every job is claimed exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.jobs import NewJob
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import NewVideo
from tqstudio.engine.store.machine import workers
from tqstudio.protocol import calls

JOBS = 2_000
CLIENTS = 8

_CLIENT = """
import http.client, json, os, socket, sys

class Line(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

token, instance = sys.stdin.readline().split()
line = Line("x", timeout=60)
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}

def post(path, **body):
    line.request("POST", "/v1/worker/" + path, json.dumps({"instance": instance, **body}), headers)
    answer = line.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {content}")
    return json.loads(content)

post("register", pid=os.getpid(), pid_started=1.0)
print("ready", flush=True)
sys.stdin.readline()
claimed = []
while (job := post("claim")["job"]) is not None:
    claimed.append((job["job"], job["epoch"]))
    end = post(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="NO_MEDIA", text="seeded")
    assert end["status"] == "failed", end
print(json.dumps(claimed))
"""


def seed(db: Connection, count: int) -> None:
    """Jobs whose sources do not exist, and the pool's worker disabled before it is born."""
    now = now_us()
    workers.ensure(db, "cpu-0", "cpu", device=None)
    workers.set_intent(db, "cpu-0", enabled=False, now=now)
    for number in range(count):
        name = f"{number}.mp4"
        new = NewVideo(f"/nowhere/{name}".encode(), b"/nowhere/out", name, name, f"v{number}", 1, 1, "q")
        video = videos.create(db, new, now=now + number)
        job = NewJob(video=video, profile="web", profile_json="{}", prefer_gpu=False)
        assert jobs.create(db, job, now=now + number, actor="seed") is not None


def race(live: LiveSupervisor, clients: int) -> list[list[tuple[int, int]]]:
    """Let real processes claim and end jobs until none is left; what each of them got."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", _CLIENT, str(live.home.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(clients)
    ]
    try:
        for number, racer in enumerate(racers):
            token = live.send(calls.worker_token(f"racer-{number}"))["token"]
            assert racer.stdin is not None
            racer.stdin.write(f"{token} instance-{number}\n")
            racer.stdin.flush()
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        got = []
        for racer in racers:
            out, err = racer.communicate()
            assert racer.returncode == 0, err
            got.append([(job, epoch) for job, epoch in json.loads(out)])
        return got
    finally:
        for racer in racers:
            if racer.poll() is None:
                racer.kill()
                racer.communicate()


def ask(path: Path, statement: str) -> list[Any]:
    db = Database(path)
    db.open()
    try:
        return db.read_now(lambda c: [tuple(row) for row in c.execute(statement)])
    finally:
        db.close()


def prepared(make_supervisor: MakeSupervisor, count: int) -> LiveSupervisor:
    live = make_supervisor()
    db = Database(live.home.database)
    db.open()
    db.write_now(seed, count)
    db.close()
    return live.start()


@pytest.mark.slow
def test_thousands_of_jobs_are_each_claimed_once(make_supervisor: MakeSupervisor) -> None:
    live = prepared(make_supervisor, JOBS)
    got = race(live, CLIENTS)
    counts = live.send(calls.status())["jobs"]
    live.stop()

    claimed = Counter(job for one in got for job, _ in one)
    assert len(claimed) == JOBS
    assert set(claimed.values()) == {1}
    assert {epoch for one in got for _, epoch in one} == {1}
    assert all(got), "every process had its share"
    assert (counts["failed"], sum(counts.values())) == (JOBS, JOBS)
    database = live.home.database
    assert ask(
        database,
        "SELECT count(*), count(DISTINCT job_id), min(epoch), max(epoch), min(outcome), max(outcome)"
        " FROM attempt",
    ) == [(JOBS, JOBS, 1, 1, "failed", "failed")]
    assert ask(
        database,
        "SELECT trigger, count(*), count(DISTINCT job_id) FROM event WHERE job_id IS NOT NULL"
        " GROUP BY trigger ORDER BY trigger",
    ) == [("claim", JOBS, JOBS), ("create", JOBS, JOBS), ("fail_final", JOBS, JOBS)]
    recorded = ask(database, "SELECT job_id, worker FROM attempt")
    names = {job: f"racer-{number}" for number, one in enumerate(got) for job, _ in one}
    assert dict(recorded) == names, "the history names the process that got the job"


@pytest.mark.slow
@pytest.mark.fault("Many workers ask for the same job", "One gets it", area="workers")
def test_one_job_goes_to_one_of_many(make_supervisor: MakeSupervisor) -> None:
    live = prepared(make_supervisor, 1)
    got = race(live, CLIENTS)
    assert sorted(len(one) for one in got) == [0] * (CLIENTS - 1) + [1]
    [row] = live.send(calls.jobs())["jobs"]
    assert (row["status"], row["error"]["code"]) == ("failed", "NO_MEDIA")
