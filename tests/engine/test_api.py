"""The API over its real socket, as clients and workers meet it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

import psutil
import pytest
from sqlalchemy import inspect

from harness import LiveSupervisor, MakeSupervisor, UnixHTTP, answer_of
from tqstudio import paths as sources
from tqstudio.engine.store.db import tables
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls as client
from tqstudio.protocol.answers import (
    AttemptView,
    AutorestartView,
    GenerationView,
    JobDetail,
    JobError,
    RenditionView,
    VideoView,
)
from waiting import until

from .conftest import Desk

BIG = 10**30


def error_of(answer: tuple[int, Any], status: int) -> dict[str, str]:
    assert answer[0] == status, answer
    error: dict[str, str] = answer[1]["error"]
    assert set(error) == {"code", "message", "hint"}
    assert all(error.values()), error
    return error


# Errors have one shape


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/videos", b"{not json", 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", b"\xff\xfe", 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", b"", 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", [], 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", {"paths_b64": []}, 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", {"paths_b64": ["!"]}, 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", {"paths_b64": ["L3g="], "prioritaet": 1}, 400, "BAD_REQUEST"),
        ("POST", "/v1/videos", {"paths_b64": ["L3g="], "profile": "none-such"}, 400, "BAD_CONFIG"),
        ("POST", "/v1/videos", {"paths_b64": ["L3g="], "overrides": {"none": "1"}}, 400, "BAD_CONFIG"),
        ("POST", "/v1/videos", {"paths_b64": ["L3g="], "output_b64": "eA=="}, 400, "BAD_REQUEST"),
        ("GET", "/v1/videos?after=1&around=2", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/videos?sort=newest", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/videos?status=", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/videos/1?limit=1", None, 400, "BAD_REQUEST"),
        ("POST", "/v1/queue/resume?force=1", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/videos/4711", None, 404, "NOT_FOUND"),
        ("GET", "/v1/jobs/4711", None, 404, "NOT_FOUND"),
        ("GET", "/v1/jobs/x", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/jobs/{BIG}", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/videos/{BIG}", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs/4711/log", None, 404, "NOT_FOUND"),
        ("GET", "/v1/jobs?after=bm8%3D", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?before=WzFd", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?limit=0", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?limit=501", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?sort=colour", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?filter=state:walking", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?filter=folder:nowhere", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?filter=folder:4711", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?filter=colour:red", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?filter=older:x", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/jobs?filter={'x' * 501}", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/jobs?status=failed", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/jobs?around={BIG}", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/events?after={BIG}", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/events?since=yesterday", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/events?after=1&before=9", None, 400, "BAD_REQUEST"),
        ("GET", f"/v1/events?before={BIG}", None, 400, "BAD_REQUEST"),
        ("GET", "/v1/events?job=4711", None, 404, "NOT_FOUND"),
        ("GET", "/v1/events?job=4711&after=0", None, 404, "NOT_FOUND"),
        ("GET", "/v1/batches/no-such-batch", None, 404, "NOT_FOUND"),
        ("POST", "/v1/jobs/actions", {"operation": "explode", "ids": [1]}, 400, "BAD_REQUEST"),
        ("POST", "/v1/jobs/actions", {"operation": "pause", "ids": [BIG]}, 400, "BAD_REQUEST"),
        (
            "POST",
            "/v1/jobs/actions",
            {"operation": "retry", "ids": [1], "profile": "web"},
            400,
            "BAD_REQUEST",
        ),
        (
            "POST",
            "/v1/jobs/actions",
            {"operation": "retranscode", "ids": [1], "profile": "none-such"},
            400,
            "BAD_CONFIG",
        ),
        ("POST", "/v1/workers/none/disable", None, 404, "NOT_FOUND"),
        ("POST", "/v1/workers/cpu-0/explode", None, 404, "NOT_FOUND"),
        ("POST", "/v1/workers/tokens", {"name": "a/b"}, 400, "BAD_REQUEST"),
        ("POST", "/v1/workers/tokens", {"name": "cpu-0"}, 409, "REFUSED"),
        ("DELETE", "/v1/folders/4711", None, 404, "NOT_FOUND"),
        ("PATCH", "/v1/folders/4711", {}, 404, "NOT_FOUND"),
        ("POST", "/v1/folders", {"path_b64": "L25vd2hlcmU="}, 400, "SOURCE_MISSING"),
        ("POST", "/v1/folders", {"path_b64": sources.encode("/proc")}, 400, "UNSUPPORTED"),
        ("POST", "/v1/folders", {"path_b64": sources.encode("//proc")}, 400, "UNSUPPORTED"),
        ("GET", "/v1/nothing", None, 404, "NOT_FOUND"),
        ("GET", "/", None, 404, "NOT_FOUND"),
        ("DELETE", "/v1/status", None, 405, "BAD_REQUEST"),
    ],
)
def test_errors(standing: LiveSupervisor, method: str, path: str, body: Any, status: int, code: str) -> None:
    assert error_of(standing.raw(method, path, body), status)["code"] == code


def test_a_query_that_is_not_known_is_refused_with_those_that_are(standing: LiveSupervisor) -> None:
    """On every endpoint for people: who asks another question than is answered is refused."""
    error = error_of(standing.raw("GET", "/v1/videos?around=2&colour=red"), 400)
    assert error["message"] == "/v1/videos has no parameter 'colour'"
    assert error["hint"] == "it takes after, before, around, limit, path_b64"
    paths = standing.raw("GET", "/openapi.json")[1]["paths"]
    calls = [
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if not path.startswith("/v1/worker/") and method != "head"  # whose answers have no body
    ]
    assert len(calls) > 20
    for method, path in calls:
        named = re.sub(r"{[^}]*}", "1", path)
        error = error_of(standing.raw(method, f"{named}?colour=red"), 400)
        assert error["message"] == f"{named} has no parameter 'colour'"


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic x", "Bearer \xff"])
@pytest.mark.parametrize("path", ["register", "claim", "heartbeat", "jobs/1/progress", "jobs/1/complete"])
def test_a_worker_needs_its_token(standing: LiveSupervisor, path: str, header: str | None) -> None:
    headers = {"Authorization": header} if header else {}
    answer = standing.raw("POST", f"/v1/worker/{path}", {}, headers=headers)
    assert error_of(answer, 401)["code"] == "UNAUTHORIZED"


def test_a_new_token_ends_the_one_before(standing: LiveSupervisor) -> None:
    first = standing.worker("twice")
    first.register()
    second = standing.worker("twice")
    assert error_of(first.post("claim", instance=first.instance), 401)["code"] == "UNAUTHORIZED"
    second.register()


def test_too_much_metadata_is_refused(standing: LiveSupervisor) -> None:
    body = {"instance": "instance", "pid": 1, "pid_started": 1, "metadata": {"x": "y" * 10_001}}
    assert "metadata" in error_of(standing.worker("fat").post("register", **body), 400)["message"]


NOT_BASE64, WITH_NUL = "%%%", sources.encode(b"/a\0b")
DIGITS = "9" * 5_000


@pytest.mark.parametrize("path", [NOT_BASE64, WITH_NUL, ""])
@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("/v1/backup", {"path_b64": "?"}),
        ("/v1/videos", {"paths_b64": ["?"]}),
        ("/v1/videos", {"paths_b64": ["L3g="], "output_b64": "?"}),
        ("/v1/folders", {"path_b64": "?"}),
        ("/v1/folders", {"path_b64": "L3g=", "output_b64": "?"}),
    ],
)
def test_what_is_no_path_is_refused(standing: LiveSupervisor, call: str, body: Any, path: str) -> None:
    sent = json.dumps(body).replace("?", path).encode()
    assert error_of(standing.raw("POST", call, sent), 400)["code"] == "BAD_REQUEST"


@pytest.mark.parametrize("path", [b"relative.db", b"/", b"/tmp", b"/tmp/" + b"x" * 300])
def test_a_backup_needs_a_new_file(standing: LiveSupervisor, path: bytes) -> None:
    status, answer = standing.raw("POST", "/v1/backup", {"path_b64": sources.encode(path)})
    assert status in (400, 403, 409), answer


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"/v1/jobs/{DIGITS}", "", 400),
        ("GET", f"/v1/jobs?around={DIGITS}", "", 400),
        ("GET", f"/v1/events?after={DIGITS}", "", 400),
        ("POST", f"/v1/worker/jobs/{DIGITS}/progress", "{}", 401),
        ("POST", "/v1/videos", f'{{"paths_b64": ["L3g="], "metadata": {{"x": {DIGITS}}}}}', 400),
        ("POST", "/v1/videos", f'{{"paths_b64": ["L3g="], "overrides": {{"crf": "{DIGITS}"}}}}', 400),
        ("POST", "/v1/jobs/actions", f'{{"operation": "pause", "ids": [{DIGITS}]}}', 400),
    ],
)
def test_numbers_of_5000_digits(
    standing: LiveSupervisor, method: str, path: str, body: str, status: int
) -> None:
    error_of(standing.raw(method, path, body.encode() or None), status)


def test_the_number_of_a_last_event_is_a_number(standing: LiveSupervisor) -> None:
    connection = UnixHTTP(standing.home.socket)
    connection.request("GET", "/v1/events/stream", headers={"Last-Event-ID": DIGITS})
    response = connection.getresponse()
    assert response.status == 200
    assert response.readline().startswith(b"retry: ")
    connection.close()


@pytest.mark.parametrize(
    "report",
    [
        {"resumed_from": BIG},
        {"steps": {"probe": 1e300}},
        {"facts": {"x": 10**4290}},
        {"renditions": [{"name": "720p", "status": "pending", "width": BIG}]},
    ],
)
def test_a_report_that_cannot_be_stored_spoils_no_other(desk: Desk, report: dict[str, Any]) -> None:
    """Reports share a transaction."""
    worker, job = desk.running()
    body = {"instance": worker.instance, "epoch": 1, "step": "probe", "progress": 1}
    answer = worker.post(f"jobs/{job['job']}/progress", **body, **report)
    assert error_of(answer, 400)["code"] == "BAD_REQUEST"
    worker.send("heartbeat", jobs=[{"job": job["job"], "epoch": 1}])
    worker.send(f"jobs/{job['job']}/progress", epoch=1, step="transcode", progress=2)
    until(lambda: desk.show(job["job"])["step"] == "transcode", "a later report is shown")


def test_what_lies_among_the_profiles_stops_nothing(desk: Desk) -> None:
    folder = desk.live.home.profiles
    fifo, nest, loud = folder / "a-fifo.toml", folder / "a-nest.toml", folder / "loud.toml"
    os.mkfifo(fifo)
    nest.write_text("a = " + "[\n" * 10_000)
    loud.write_text('extends = "web"\ndescription = "\\u001b]0;title\\u0007 \\u001b[31mred"\n')
    try:
        listed = {view["name"]: view for view in desk.live.send(client.profiles())["profiles"]}
        assert {name for name, view in listed.items() if view["error"]} == {"a-fifo", "a-nest"}
        for name in ("a-fifo", "a-nest"):
            answer = desk.live.raw("POST", "/v1/videos", {"paths_b64": ["L3g="], "profile": name})
            assert error_of(answer, 400)["code"] == "BAD_CONFIG"
        shown = desk.live("profile", "list")
        assert "title" in shown.out
        assert "a-nest.toml: it is nested too deep" in shown.err
        assert (shown.out + shown.err).replace("\n", "").isprintable()
    finally:
        for file in (fifo, nest, loud):
            file.unlink()


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999"])
def test_numbers_that_are_none(desk: Desk, number: str) -> None:
    worker, job = desk.running()
    body = (
        f'{{"instance": "{worker.instance}", "epoch": 1, "step": "probe", "progress": 1, "speed": {number}}}'
    )
    answer = desk.live.raw(
        "POST",
        f"/v1/worker/jobs/{job['job']}/progress",
        body.encode(),
        headers={"Authorization": f"Bearer {worker.token}"},
    )
    assert error_of(answer, 400)["code"] == "BAD_REQUEST"
    desk.live.send(client.status())


# Requests


def test_the_socket_is_for_its_owner_alone(standing: LiveSupervisor) -> None:
    found = standing.home.socket.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert not [path for path in standing.home.root.iterdir() if path.name.startswith(".")]


def test_the_status_is_answered_to_many_at_once(standing: LiveSupervisor) -> None:
    with ThreadPoolExecutor(50) as callers:
        answers = list(callers.map(lambda _: standing.raw("GET", "/v1/status"), range(200)))
    assert {status for status, _ in answers} == {200}
    assert {answer["supervisor"]["pid"] for _, answer in answers} == {standing.process.pid}


def test_the_schema_is_served(standing: LiveSupervisor) -> None:
    status, schema = standing.raw("GET", "/openapi.json")
    assert status == 200
    described = {(verb.upper(), path) for path, verbs in schema["paths"].items() for verb in verbs}
    assert {
        ("POST", "/v1/worker/claim"),
        ("POST", "/v1/worker/jobs/{job}/complete"),
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs/actions"),
        ("GET", "/v1/events/stream"),
        ("POST", "/v1/shutdown"),
    } <= described
    for path, verbs in schema["paths"].items():
        for call in verbs.values():
            for statuses in ("4XX", "5XX"):
                [answer] = call["responses"][statuses]["content"].values()
                assert answer["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}
            assert "security" in call, path


def test_nothing_listens_on_the_network(standing: LiveSupervisor) -> None:
    for process in standing.processes():
        # One that has just ended listens no more.
        with contextlib.suppress(psutil.NoSuchProcess):
            assert process.net_connections(kind="inet") == []


def test_a_second_supervisor_is_refused_by_the_lock(standing: LiveSupervisor) -> None:
    """The command says “already up”; the engine itself, when two race, refuses."""
    code = (
        "import sys\n"
        "from tqstudio.config import load_settings\n"
        "from tqstudio.engine import program\n"
        "from tqstudio.errors import TqError\n"
        "from tqstudio.home import current_home\n"
        "home = current_home()\n"
        "try:\n"
        "    program.run(home, load_settings(home))\n"
        "except TqError as error:\n"
        "    sys.exit(f'{error.code}: {error.message}')\n"
    )
    done = answer_of([sys.executable, "-c", code], standing.environment)
    assert done.code == 1
    assert done.err.startswith(f"ALREADY_RUNNING: a supervisor (pid {standing.process.pid}) already")
    standing.send(client.status())


def test_up_when_already_up_reports_it(standing: LiveSupervisor) -> None:
    done = standing("up")
    assert done.code == 0
    assert f"pid {standing.process.pid}" in done.out


@pytest.mark.more
@pytest.mark.fault("A dozen supervisors start at once", "One remains", area="supervisor")
def test_of_many_that_start_at_once_one_remains(make_supervisor: MakeSupervisor) -> None:
    first = make_supervisor()
    racers = [
        subprocess.Popen(
            first.command("up"),
            env=first.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for _ in range(3)
    ]
    try:
        until(lambda: sum(r.poll() is not None for r in racers) == 2, "all but one have ended", 60)
        for racer in racers:
            if racer.poll() is not None:
                _, output = racer.communicate()
                assert racer.returncode in (0, 4)
                assert racer.returncode == 0 or b"ALREADY_RUNNING" in output
        [left] = [racer for racer in racers if racer.poll() is None]
        assert until(lambda: _pid_that_answers(first), "one answers") == left.pid
        first.send(client.shutdown())
        assert left.wait(30) == 0
        until(lambda: not first.processes(), "no process is left")
    finally:
        for racer in racers:
            if racer.poll() is None:
                racer.kill()
            racer.communicate()


def _pid_that_answers(live: LiveSupervisor) -> int | None:
    try:
        return live.send(client.status())["supervisor"]["pid"]
    except TqError:
        return None


@pytest.mark.slow
def test_the_end_leaves_nothing(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    until(lambda: len(live.processes()) == 2, "the worker is there")
    assert live.stop() == 0
    assert not live.home.socket.exists()
    with pytest.raises(TqError) as caught:
        live.send(client.status())
    assert caught.value.code is ErrorCode.NO_SUPERVISOR


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_it_like_a_command(make_supervisor: MakeSupervisor, number: signal.Signals) -> None:
    live = make_supervisor().start()
    with socket.socket(socket.AF_UNIX) as idle:
        # A client that never asks anything must not hold it up.
        idle.connect(str(live.home.socket))
        live.process.send_signal(number)
        assert live.process.wait(30) == 0
    live.stop()


@pytest.mark.slow
def test_a_killed_supervisor_takes_its_workers_along_and_its_home_serves_the_next(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor().start()
    live.send(client.worker_action("cpu-0", "disable"))
    desk = Desk(live, tmp_path)
    worker, job = desk.running()
    live.kill()
    until(lambda: not live.processes(), "its worker is gone")
    assert live.home.socket.exists(), "a stale socket is left"
    again = make_supervisor().start()
    row = again.send(client.job(job["job"]))
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0), "no one's fault"
    assert row["events"][0]["trigger"] == "requeued:supervisor"
    assert (
        again.raw("POST", "/v1/worker/claim", {}, headers={"Authorization": f"Bearer {worker.token}"})[0]
        == 401
    )
    names = {w["name"]: w for w in again.send(client.workers())["workers"]}
    assert names["cpu-0"]["enabled"] is False, "intent outlives the supervisor"
    assert worker.name not in names, "its token ended with the supervisor"


def test_a_killed_worker_is_replaced(supervisor: LiveSupervisor) -> None:
    def pid() -> int | None:
        [row] = supervisor.send(client.workers())["workers"]
        return row["pid"] if row["status"] == "idle" else None

    first = until(pid, "the worker is idle")
    psutil.Process(first).kill()
    second = until(lambda: (now := pid()) != first and now, "another one is idle")
    assert second != first
    triggers = [e["trigger"] for e in supervisor.send(client.events())["events"]]
    assert triggers == ["worker_registered", "worker_ended", "worker_registered"]


# Jobs and people


def test_status_has_what_a_header_shows(standing: LiveSupervisor) -> None:
    status = standing.send(client.status())
    assert set(status["jobs"]) == {"pending", "in_progress", "paused", "done", "failed", "cancelled"}
    assert status["supervisor"]["pid"] == standing.process.pid
    assert status["supervisor"]["home"] == str(standing.home.root)
    worker = next(w for w in status["workers"] if w["name"] == "cpu-0")
    assert (worker["kind"], worker["status"]) == ("cpu", "disabled")
    [disk] = status["disk"]
    assert disk["free"] <= disk["total"]
    assert disk["reserve"] == 1_000_000


def test_the_operations_by_the_api(desk: Desk) -> None:
    job = desk.job()
    for operation, status in (
        ("pause", "paused"),
        ("resume", "pending"),
        ("cancel", "cancelled"),
        ("retry", "pending"),
        ("delete", "pending"),
        ("undelete", "pending"),
    ):
        [result] = desk.act(operation, job)
        assert (result["ok"], result["status"], result["error"]) == (True, status, None), operation
    [refused] = desk.act("retranscode", job)
    assert not refused["ok"]
    assert refused["error"]["code"] == "REFUSED"
    assert refused["error"]["message"] == f"job {job} is still waiting; use change to give it other settings"


def test_one_refusal_stops_no_other_job(desk: Desk) -> None:
    first, second = desk.job(), desk.job()
    desk.act("cancel", first)
    results = desk.act("pause", first, 4711, second)
    assert [result["ok"] for result in results] == [False, False, True]
    assert results[1]["error"]["code"] == "NOT_FOUND"
    assert desk.show(second)["status"] == "paused"


def test_priority_by_value_and_by_step(desk: Desk) -> None:
    job = desk.job(priority=3)
    desk.act("priority", job, delta=4)
    assert desk.show(job)["priority"] == 7
    desk.act("priority", job, priority=-2)
    assert desk.show(job)["priority"] == -2


def test_an_action_with_a_key_is_done_once(desk: Desk) -> None:
    job = desk.job(priority=0)
    first = desk.act("priority", job, delta=1, idempotency_key=f"up-{job}")
    second = desk.act("priority", job, delta=1, idempotency_key=f"up-{job}")
    assert first == second
    assert desk.show(job)["priority"] == 1


def test_an_add_with_a_key_is_done_once(desk: Desk) -> None:
    path = desk.file()
    key = f"add-{path}"[-100:]
    call = client.add([sources.encode(path)], idempotency_key=key)
    first = desk.live.send(call)
    assert first["results"][0]["decision"] == "queued"
    assert desk.live.send(call) == first
    [again] = desk.add(path)
    assert again["decision"] == "waiting"


def test_a_key_of_an_add_is_not_that_of_an_action(desk: Desk) -> None:
    path, key = desk.file(), "one key for two"
    job = desk.live.send(client.add([sources.encode(path)], idempotency_key=key))["results"][0]["job"]
    [result] = desk.act("pause", job, idempotency_key=key)
    assert (result["job"], result["status"]) == (job, "paused")


def test_an_add_that_is_repeated_while_it_runs_is_done_once(desk: Desk) -> None:
    paths = [sources.encode(desk.file()) for _ in range(30)]
    answers: list[Any] = []
    call = client.add(paths, idempotency_key=f"both-{paths[0]}"[-100:])
    threads = [threading.Thread(target=lambda: answers.append(desk.live.send(call))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1] == answers[2]
    assert {result["decision"] for result in answers[0]["results"]} == {"queued"}


# What the detail calls otherwise, or has in a part of its own.
_CALLED = {
    "video_id": "video",
    "epoch": "lease_epoch",
    "metadata_json": "metadata",
    "error_code": "error.code",
    "error_text": "error.message",
    "error_hint": "error.hint",
    "error_log": "error.log",
    "exhausted": "error.exhausted",
    "autorestart": "autorestart.state",
    "autorestart_limit": "autorestart.limit",
    "autorestart_delay_s": "autorestart.delay_s",
    "restarts": "autorestart.restarts",
    "last_restart_at": "autorestart.last_at",
}
_UNREPORTED = {
    "profile_json": "the profile's name says it, and each rendition what came of it",
    "worker_id": "processed_by_id, while it runs",
    "unprobed": "follows from the facts of the video: the key of an index",
    "prefer_gpu": "follows from the profile: the key of an index",
    "ready_at": "orders the queue: what people read is created_at and not_before",
    "segments_at_crash": "only compared, at the next crash",
    "resumed_at_crash_s": "only compared, at the next crash",
    "instance": "what its lease is known by; for no client but its worker",
    "supervisor_id": "who keeps the deadline of its lease; there is but one",
    "from_folder": "the actor of its first event is `intake`",
    "starts_over": "owed by the next claim; the event of the restart says it",
}


def test_the_detail_has_all_that_is_stored_of_a_job() -> None:
    parts = {"": JobDetail, "error.": JobError, "autorestart.": AutorestartView}
    reported = {f"{of}{key}" for of, part in parts.items() for key in get_type_hints(part)}
    columns = set(inspect(tables.Job).columns.keys())
    assert {_CALLED.get(column, column) for column in columns - set(_UNREPORTED)} - reported == set()
    assert (set(_CALLED) | set(_UNREPORTED)) - columns == set(), "they are columns no more"


_IN_ITS_PLACE = "it stands there where it belongs"
_PARTS: list[tuple[Any, Any, dict[str, str], dict[str, str]]] = [
    (tables.Rendition, RenditionView, {}, {"job_id": _IN_ITS_PLACE, "position": "their order is that"}),
    (
        tables.Video,
        VideoView,
        {"source": "path", "generation_id": "generation"},
        {
            "folder_id": "a folder may be gone and come back: the path says it",
            "created_at": "its first job says it",
            "probe_error": "source.problem of the job, while it counts",
            "inode": "only compared, when a file has a new name",
            "name_lower": "the name, for filters",
            "length_ms": "facts say it; lists are sorted by it",
            "crfs": "the remarks of the qualities say it, and `plan`",
        },
    ),
    (
        tables.Generation,
        GenerationView,
        {},
        {
            "id": "number names it, in its video",
            "video_id": _IN_ITS_PLACE,
            "removed_at": "of one that is gone nothing is shown",
            "omitted": "only compared, when the file is offered again",
        },
    ),
    (
        tables.Attempt,
        AttemptView,
        {"error_text": "error"},
        {
            "id": "number names it, in its job",
            "job_id": _IN_ITS_PLACE,
            "worker_id": "the name, which stays when a worker is gone",
            "instance": "of the one that runs, the job's",
            "answer": "the outcome says it",
        },
    ),
]


@pytest.mark.parametrize(
    ("table", "view", "called", "unreported"), _PARTS, ids=[part[0].__tablename__ for part in _PARTS]
)
def test_the_detail_has_all_that_is_stored_of_its_parts(
    table: Any, view: Any, called: dict[str, str], unreported: dict[str, str]
) -> None:
    columns = set(inspect(table).columns.keys())
    assert {called.get(column, column) for column in columns - set(unreported)} - set(
        get_type_hints(view)
    ) == set()
    assert (set(called) | set(unreported)) - columns == set(), "they are columns no more"


def test_a_job_keeps_what_was_noted_with_it(desk: Desk) -> None:
    path = desk.file()
    [result] = desk.add(path, metadata={"client": "acme", "order": 12})
    job = result["job"]
    assert desk.show(job)["metadata"] == {"client": "acme", "order": 12}
    [again] = desk.add(path, metadata={"order": 13, "by": "ada"})
    assert again["applied"] == {"metadata": {"order": 13, "by": "ada"}}
    noted = {"client": "acme", "order": 13, "by": "ada"}
    assert desk.show(job)["metadata"] == noted
    assert desk.add(path, metadata={"by": "ada"})[0]["applied"] == {}
    assert desk.add(path)[0]["applied"] == {}
    assert desk.show(job)["metadata"] == noted


def test_a_running_job_can_be_given_metadata(desk: Desk) -> None:
    path = desk.file()
    [result] = desk.add(path, priority=1000)
    assert desk.worker().claim()["job"] == result["job"]
    [again] = desk.add(path, metadata={"client": "acme"})
    assert (again["decision"], again["status"]) == ("waiting", "in_progress")
    assert again["applied"] == {"metadata": {"client": "acme"}}
    assert desk.show(result["job"])["metadata"] == {"client": "acme"}
    [refused] = desk.add(path, metadata={"client": "other"}, hold=True)
    answered = [refused[key] for key in ("decision", "job", "status")]
    assert answered == ["rejected", result["job"], "in_progress"]
    assert desk.show(result["job"])["metadata"] == {"client": "acme"}, "it took over nothing"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (b'{"client": "M\\udcfcller"}', "M\\udcfcller is not valid Unicode"),
        (b'{"of": [{"\\ud800": 1}]}', "\\ud800 is not valid Unicode"),
        (b'{"n": NaN}', "NaN and infinite numbers"),
        (b'{"n": [1e400]}', "NaN and infinite numbers"),
        (b'{"n": ' * 300 + b"1" + b"}" * 300, "nested more than 20 levels deep"),
        (b'{"n": ' + b"[" * 20 + b"]" * 20 + b"}", "nested more than 20 levels deep"),
    ],
)
def test_metadata_that_could_not_be_answered_is_refused(desk: Desk, metadata: bytes, expected: str) -> None:
    path = sources.encode(desk.file()).encode()
    body = b'{"paths_b64": ["' + path + b'"], "metadata": ' + metadata + b"}"
    error = error_of(desk.live.raw("POST", "/v1/videos", body), 400)
    assert error["message"].startswith(f"metadata: {expected}")
    assert desk.live.send(client.jobs("state:pending"))["jobs"] == []
    worker = desk.live.worker("odd")
    body = b'{"instance": "instance", "pid": 1, "pid_started": 1, "capabilities": ' + metadata + b"}"
    headers = {"Authorization": f"Bearer {worker.token}"}
    error_of(desk.live.raw("POST", "/v1/worker/register", body, headers=headers), 400)


def test_metadata_comes_back_as_it_was_given(desk: Desk) -> None:
    deep: Any = {"n": "Müller 🎬\0", "big": 10**400, "none": None, "list": [1.5, True]}
    for _ in range(18):
        deep = {"in": deep}
    [result] = desk.add(metadata=deep)
    assert desk.show(result["job"])["metadata"] == deep


def test_a_quality_that_is_no_text_is_refused(desk: Desk) -> None:
    body = b'{"operation": "retranscode", "ids": [1], "drop": ["\\ud800"]}'
    assert error_of(desk.live.raw("POST", "/v1/jobs/actions", body), 400)["message"].startswith("drop.0: ")


def test_a_job_keeps_only_so_much_metadata(desk: Desk) -> None:
    path = desk.file()
    body = {"paths_b64": [sources.encode(path)], "metadata": {"note": "x" * 3_000_000}}
    error = error_of(desk.live.raw("POST", "/v1/videos", body), 400)
    assert (error["code"], error["hint"][:9]) == ("BAD_REQUEST", "send less")
    assert "metadata has 3000012 bytes" in error["message"]
    [result] = desk.add(path, metadata={"note": "x" * 9_000})
    assert result["decision"] == "queued"
    [more] = desk.add(path, metadata={"another": "y" * 9_000})
    assert (more["decision"], more["error"]["code"]) == ("rejected", "BAD_REQUEST")
    assert desk.show(result["job"])["metadata"] == {"note": "x" * 9_000}


def test_the_detail_says_with_which_key_a_job_was_asked_for(desk: Desk) -> None:
    path = desk.file()
    key = f"add-{path}"[-100:]
    [result] = desk.add(path, idempotency_key=key)
    shown = desk.show(result["job"])
    assert shown["idempotency_key"] == key
    video, found = shown["video_view"], path.stat()
    assert (video["size"], video["mtime_ns"]) == (found.st_size, found.st_mtime_ns)
    assert video["quick_hash"]
    assert video["full_hash"] is None, "its bytes were not all read yet"
    assert desk.show(desk.job())["idempotency_key"] is None


def test_the_detail_says_who_holds_a_job_and_when_it_is_requeued(desk: Desk) -> None:
    worker, job = desk.running()
    held = desk.show(job["job"])
    assert "instance" not in held, "it is what a lease is known by"
    [known] = [w for w in desk.live.send(client.workers())["workers"] if w["name"] == held["worker"]]
    assert (held["processed_by"], held["processed_by_id"]) == (known["name"], known["id"])
    assert (held["dropped"], held["not_before"]) == ([], None)
    worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="STALLED", text="no")
    waits = desk.show(job["job"])
    assert (waits["word"], waits["processed_by_id"]) == ("retry", known["id"])
    assert datetime.fromisoformat(waits["not_before"]) > datetime.fromisoformat(held["claimed_at"])


def test_a_page_of_jobs(desk: Desk) -> None:
    made = [desk.job(batch="a-page") for _ in range(5)]
    first = desk.live.send(client.jobs("batch:a-page", limit=2))
    second = desk.live.send(client.jobs("batch:a-page", limit=2, after=first["after"]))
    assert [row["id"] for row in first["jobs"] + second["jobs"]] == made[:4]
    back = desk.live.send(client.jobs("batch:a-page", limit=2, before=second["before"]))
    # Ids: the background probe may describe a file between the two answers.
    assert [row["id"] for row in back["jobs"]] == made[:2]
    around = desk.live.send(client.jobs("batch:a-page", limit=3, around=made[2]))
    assert [row["id"] for row in around["jobs"]] == made[1:4]
    batch = desk.live.raw("GET", "/v1/batches/a-page")
    assert batch == (200, {"batch": "a-page", "counts": {"pending": 5}, "total": 5})
    desk.live.send(client.act("delete", made))
    batch = desk.live.raw("GET", "/v1/batches/a-page")
    assert batch == (200, {"batch": "a-page", "counts": {}, "total": 0})


def test_a_page_of_videos(desk: Desk) -> None:
    ids = [result["video"] for result in desk.add(*(desk.file() for _ in range(6)))]

    def page(**given: int) -> tuple[list[int], int | None, int | None]:
        query = "&".join(f"{key}={value}" for key, value in given.items())
        status, answer = desk.live.raw("GET", f"/v1/videos?{query}")
        assert status == 200
        return [video["id"] for video in answer["videos"]], answer["before"], answer["after"]

    assert page(around=ids[2], limit=3) == (ids[1:4], ids[1], ids[3])
    assert page(around=ids[5], limit=4) == (ids[3:6], ids[3], None)
    assert page(after=ids[1], limit=2) == (ids[2:4], ids[2], ids[3])
    assert page(before=ids[2], limit=2) == (ids[0:2], page(around=ids[0], limit=1)[1], ids[1])
    assert page(after=ids[5]) == ([], None, None)
    first, before, after = page(limit=1)
    assert before is None
    assert after == first[0]


def test_a_name_is_shown_escaped_and_given_exactly(desk: Desk) -> None:
    path = desk.file(b"caf\xe9\n[red].mp4")
    [result] = desk.add(path)
    assert result["path"].endswith("caf\\xe9\\n[red].mp4")
    assert sources.decode(result["path_b64"]) == os.fsencode(path)
    row = desk.show(result["job"])
    assert row["name"] == "caf\\xe9\\n[red].mp4"
    assert sources.decode(row["path_b64"]) == os.fsencode(path)
    assert sources.decode(row["video_view"]["path_b64"]) == os.fsencode(path)


def test_texts_of_other_roles_control_no_terminal(desk: Desk) -> None:
    evil = "x\x1b[2J\nready true\u202e"
    gate = desk.live.send(client.pause_queue(evil))
    desk.live.send(client.resume_queue())
    worker, job = desk.running()
    worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="NO_MEDIA", text=evil, hint=evil)
    error = desk.show(job["job"])["error"]
    shown = "x\\x1b[2J\\nready true\\u202e"
    assert [gate["reason"], error["message"], error["hint"]] == [shown] * 3


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("東京\u3000旅行.mp4", "東京\u3000旅行.mp4"),
        ("Recording 3.05.10\u202fPM.mp4", "Recording 3.05.10\u202fPM.mp4"),
        ("می\u200cخواهم.mp4", "می\u200cخواهم.mp4"),
        ("\u200eWhatsApp\x1b.mp4", "\\u200eWhatsApp\\x1b.mp4"),
    ],
)
def test_a_path_that_is_text_is_given_as_it_is_and_its_name_is_found(
    desk: Desk, name: str, shown: str
) -> None:
    path = desk.file(name.encode())
    [result] = desk.add(path)
    assert result["path"] == str(path)
    row = desk.show(result["job"])
    assert (row["path"], row["video_view"]["path"], row["name"]) == (str(path), str(path), shown)
    found = desk.live.send(client.jobs(name))["jobs"]
    assert [each["id"] for each in found] == [result["job"]]


def test_the_disk_of_an_output_that_is_no_text_is_reported(desk: Desk, tmp_path: Path) -> None:
    output = os.fsencode(desk.live.home.output.parent) + b"/!\xe9"
    made = client.add_folder(sources.encode(tmp_path), output_b64=sources.encode(output))
    folder = desk.live.send(made)
    [disk] = desk.live.send(client.status())["disk"]
    desk.live.send(client.remove_folder(folder["id"]))
    assert sources.decode(folder["output_root_b64"]) == output
    assert disk["path"].endswith("/!\\xe9")
    assert sources.decode(disk["path_b64"]) == output


def test_a_drop_folder_is_one_under_all_its_names(desk: Desk, tmp_path: Path) -> None:
    (drop := tmp_path / "in").mkdir()
    (link := tmp_path / "link").symlink_to(drop, target_is_directory=True)
    folder = desk.live.send(client.add_folder(sources.encode(b"/" + os.fsencode(drop))))
    assert folder["path"] == str(drop)
    for name in (os.fsencode(drop), b"/" + os.fsencode(drop), os.fsencode(link), bytes(link) + b"/../in"):
        body = {"path_b64": sources.encode(name)}
        error = error_of(desk.live.raw("POST", "/v1/folders", body), 409)
        assert (error["code"], f"is already drop folder {folder['id']}" in error["message"]) == (
            "REFUSED",
            True,
        )
    drop.rename(tmp_path / "moved")
    (other := tmp_path / "other").mkdir()
    second = desk.live.send(client.add_folder(sources.encode(other)))
    for row in (folder, second):
        desk.live.send(client.remove_folder(row["id"]))


def test_a_deleted_job_is_off_the_list(desk: Desk) -> None:
    job = desk.job(batch="deleted ones")
    desk.act("delete", job)
    assert desk.live.send(client.jobs('batch:"deleted ones"'))["jobs"] == []
    [row] = desk.live.send(client.jobs('state:deleted batch:"deleted ones"'))["jobs"]
    assert (row["id"], row["deleted_at"] is not None) == (job, True)
    [result] = desk.act("retranscode", job)
    assert "is deleted; undelete it first" in result["error"]["message"]


# Gates and intent


def test_pausing_the_queue_changes_no_job(desk: Desk) -> None:
    job, worker = desk.job(priority=1000), desk.worker()

    def seen() -> dict[str, Any]:
        # The look at its source in the background may come to its end meanwhile.
        return {name: value for name, value in desk.show(job).items() if name != "source"}

    before = seen()
    gate = desk.live.send(client.pause_queue("for the night"))
    assert (gate["kind"], gate["reason"]) == ("user", "for the night")
    desk.live.send(client.pause_queue("again"))
    assert worker.claim() is None
    assert seen() == before
    assert [g["kind"] for g in desk.live.send(client.status())["gates"]] == ["user"]
    assert desk.live.send(client.resume_queue()) == {"resumed": True}
    assert desk.live.send(client.resume_queue()) == {"resumed": False}
    assert worker.claim()["job"] == job


def test_a_pause_that_is_taken_back_at_once_is_still_answered(desk: Desk) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in range(40):
            paused = threads.submit(desk.live.send, client.pause_queue("for a moment"))
            threads.submit(desk.live.send, client.resume_queue()).result()
            assert paused.result()["kind"] == "user"
    desk.live.send(client.resume_queue())


def waiting_claim(worker: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(worker.claim(wait_s=20)))
    thread.start()
    return thread, answers


@pytest.mark.parametrize("what", ["add", "resume", "gate", "enable", "release"])
def test_a_waiting_claim_is_woken(desk: Desk, what: str) -> None:
    worker = desk.worker()
    wake: Any
    if what == "add":
        wake = desk.job
    elif what == "resume":
        job = desk.job(hold=True)
        wake = lambda: desk.act("resume", job)  # noqa: E731
    elif what == "gate":
        desk.live.send(client.pause_queue())
        desk.job()
        wake = lambda: desk.live.send(client.resume_queue())  # noqa: E731
    elif what == "enable":
        desk.live.send(client.worker_action(worker.name, "disable"))
        desk.job()
        wake = lambda: desk.live.send(client.worker_action(worker.name, "enable"))  # noqa: E731
    else:
        other, held = desk.running()
        wake = lambda: other.send(  # noqa: E731
            f"jobs/{held['job']}/release", epoch=held["epoch"], reason="shutdown"
        )
    thread, answers = waiting_claim(worker)
    # A claim that already waits is what is woken: its worker is known to the event stream by then or not at
    # all, so the only sign is that the thread still runs when the queue changes.
    assert thread.is_alive()
    wake()
    thread.join(15)
    assert not thread.is_alive()
    assert answers[0] is not None


def test_a_disabled_worker_stays_so(desk: Desk) -> None:
    worker = desk.worker()
    desk.job(priority=1000)
    view = desk.live.send(client.worker_action(worker.name, "disable"))
    assert (view["enabled"], view["status"]) == (False, "disabled")
    worker.send("heartbeat", jobs=[])
    worker.register()
    assert worker.claim() is None
    view = desk.live.send(client.worker_action(worker.name, "drain"))
    view = desk.live.send(client.worker_action(worker.name, "enable"))
    assert (view["enabled"], view["draining"]) == (True, False)
    assert worker.claim() is not None


def test_a_draining_worker_ends_its_job_and_takes_no_more(desk: Desk) -> None:
    worker, job = desk.running()
    desk.job()
    desk.live.send(client.worker_action(worker.name, "drain"))
    answer = worker.send(f"jobs/{job['job']}/fail", epoch=job["epoch"], code="NO_MEDIA", text="no")
    assert answer["status"] == "failed"
    assert worker.claim() is None


def test_a_worker_that_was_only_announced_is_not_there(desk: Desk) -> None:
    name = "announced-only"
    desk.live.worker(name)
    row = next(w for w in desk.live.send(client.workers())["workers"] if w["name"] == name)
    assert row["status"] == "offline"
    assert row["note"]


# Workers


def test_a_claim_says_all_a_worker_needs(desk: Desk) -> None:
    path = desk.file(content=b"twelve bytes")
    [result] = desk.add(path, priority=1000)
    worker = desk.worker()
    job = worker.claim()
    assert (job["job"], job["epoch"], job["attempt"], job["kind"]) == (result["job"], 1, 1, "new")
    assert sources.decode(job["source"]["path_b64"]) == os.fsencode(path)
    assert sources.decode(job["source_root_b64"]) == os.fsencode(path.parent)
    assert (job["source_size"], job["source_mtime_ns"]) == (12, path.stat().st_mtime_ns)
    assert job["profile"]["name"] == "web"
    assert (job["kept"], job["requested"]) == ({}, None)
    work_dir = Path(os.fsdecode(sources.decode(job["work_dir"]["path_b64"])))
    assert work_dir.parent.parent == desk.live.home.output
    assert job["log"] == str(desk.live.home.job_logs(job["job"]) / "1.log")


@pytest.mark.fault("The answer to a claim is lost", "Asked again, the same lease is granted", area="workers")
def test_a_claim_whose_answer_was_lost_is_given_again(desk: Desk) -> None:
    worker, first = desk.running()
    desk.job(priority=1000)
    assert worker.claim() == first


def test_a_claim_cut_off_after_the_commit_is_given_again(desk: Desk) -> None:
    """The connection ends when the claim is in the database; the answer never arrives."""
    worker = desk.worker()
    job = desk.job(priority=1000)
    body = f'{{"instance": "{worker.instance}", "wait_s": 5}}'.encode()
    request = (
        b"POST /v1/worker/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (worker.token.encode(), len(body), body)
    )
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(desk.live.home.socket))
        line.sendall(request)
        until(lambda: desk.show(job)["status"] == "in_progress", "the claim is committed")
        # Nothing was read: for the worker the answer is lost.
    again = worker.claim()
    assert (again["job"], again["epoch"]) == (job, 1)
    row = desk.show(job)
    assert [attempt["epoch"] for attempt in row["attempts_log"]] == [1]
    assert [e["trigger"] for e in row["events"]] == ["claim", "create"]


def test_nothing_is_claimed_for_one_who_hung_up(desk: Desk) -> None:
    gone, there = desk.worker(), desk.worker()
    body = f'{{"instance": "{gone.instance}", "wait_s": 30}}'.encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(desk.live.home.socket))
        line.sendall(
            b"POST /v1/worker/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
            % (gone.token.encode(), len(body), body)
        )
        assert there.claim() is None
    there.send("heartbeat")
    job = desk.job(priority=1000)
    assert there.claim(wait_s=5)["job"] == job


def test_a_stale_instance_is_refused(desk: Desk) -> None:
    worker = desk.worker()
    desk.job(priority=1000)
    old, worker.instance = worker.instance, "a-new-instance"
    worker.register()
    assert error_of(worker.post("claim", instance=old), 409)["code"] == "LOST_LEASE"
    assert worker.claim() is not None


def report(worker: Any, job: Any, progress: float, **more: Any) -> Any:
    return worker.send(
        f"jobs/{job['job']}/progress", epoch=job["epoch"], step="transcode", progress=progress, **more
    )


def test_progress_is_shown_and_answers_with_what_was_asked(desk: Desk) -> None:
    worker, job = desk.running()
    rendition = {"name": "360p", "status": "in_progress", "progress": 40.0, "kept": 26.7, "speed": 2.0}
    rendition |= {"segments_done": 2, "segments_total": 10}
    resumed = {"argv": [["ffmpeg"]], "resumed_from": 0, "resumed_at_s": 4.0}
    answer = report(worker, job, 40.0, speed=2.0, eta_s=9.0, renditions=[rendition], **resumed)
    assert answer == {"control": "none", "divided": False}
    row = desk.show(job["job"])
    assert (row["word"], row["step"], row["progress"], row["speed"]) == ("running", "transcode", 40, 2)
    assert (row["renditions"][0]["segments_done"], row["renditions"][0]["progress"]) == (2, 40)
    attempt = row["attempts_log"][0]
    assert (attempt["argv"], attempt["resumed_from"], attempt["resumed_at_s"]) == ([["ffmpeg"]], 0, 4)
    report(worker, job, 30.0)
    assert desk.show(job["job"])["progress"] == 40, "it never goes back"
    lacks = {"code": "SUBTITLES_LEFT_OUT", "text": "1 subtitle track is left out: stream 2"}
    report(worker, job, 40.0, warnings=[lacks])
    report(worker, job, 40.0)
    listed = desk.live.send(client.jobs())["jobs"]
    assert [row["warnings"] for row in listed if row["id"] == job["job"]] == [[lacks]]
    [result] = desk.act("pause", job["job"])
    assert [result[key] for key in ("status", "control", "word")] == ["in_progress", "pause", "pausing…"]
    assert report(worker, job, 41.0)["control"] == "pause"
    beat = worker.send("heartbeat", jobs=[{"job": job["job"], "epoch": job["epoch"]}])
    assert (beat["controls"], beat["lost"]) == ({str(job["job"]): "pause"}, [])
    answer = worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason="pause")
    assert answer == {"job": job["job"], "status": "paused"}
    row = desk.show(job["job"])
    assert (row["status"], row["progress"], row["renditions"][0]["status"]) == ("paused", 41, "pending")
    assert row["warnings"] == [lacks], "stored with the last report"
    assert row["renditions"][0]["progress"] == 26.7, (
        "finished fragments count, what was in the making does not"
    )


@pytest.mark.fault("A report is delivered twice", "Answered as the first time", area="workers")
def test_outcomes_are_repeated(desk: Desk) -> None:
    worker, job = desk.running()
    end = {"epoch": job["epoch"], "code": "NO_MEDIA", "text": "no video in it"}
    first = worker.send(f"jobs/{job['job']}/fail", **end)
    assert worker.send(f"jobs/{job['job']}/fail", **end) == first
    row = desk.show(job["job"])
    assert (row["status"], row["error"]["code"], row["error"]["message"]) == (
        "failed",
        "NO_MEDIA",
        "no video in it",
    )
    assert row["error"]["log"] == str(desk.live.home.job_logs(job["job"]) / "1.log")


def test_a_worker_whose_lease_has_ended_hears_how_the_job_stands(desk: Desk) -> None:
    worker, job = desk.running()
    report = {"instance": worker.instance, "epoch": job["epoch"], "step": "probe", "progress": 1}
    wrong = error_of(worker.post(f"jobs/{job['job']}/progress", **{**report, "epoch": 7}), 409)
    assert wrong["message"].endswith("the job now has another lease")
    desk.act("cancel", job["job"])
    worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason="cancel")
    late = error_of(worker.post(f"jobs/{job['job']}/progress", **report), 409)
    assert late["message"] == f"this lease of job {job['job']} has ended: the job is now cancelled"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("progress", {"step": "probe", "progress": 1}),
        ("fail", {"code": "NO_MEDIA", "text": "x"}),
        ("release", {"reason": "shutdown"}),
        ("complete", {"manifest": {"renditions": [], "settings_hash": "x"}}),
    ],
)
def test_a_wrong_token_changes_nothing(desk: Desk, path: str, body: dict[str, Any]) -> None:
    worker, job = desk.running()
    before = desk.state(job["job"])
    for wrong in ({"epoch": 7}, {"epoch": job["epoch"], "instance": "another-one"}):
        answer = worker.post(f"jobs/{job['job']}/{path}", **({"instance": worker.instance} | body | wrong))
        assert error_of(answer, 409)["code"] == "LOST_LEASE"
    answer = worker.post(f"jobs/4711/{path}", **({"instance": worker.instance, "epoch": 1} | body))
    assert error_of(answer, 404)["code"] == "NOT_FOUND"
    assert desk.state(job["job"]) == before


@pytest.mark.fault(
    "A worker reports, renews or ends the job of another",
    "Refused: a lease belongs to the worker of the token",
    area="workers",
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("progress", {"step": "probe", "progress": 1}),
        ("fail", {"code": "NO_MEDIA", "text": "x"}),
        ("release", {"reason": "shutdown"}),
        ("complete", {"manifest": {"renditions": [], "settings_hash": "x"}}),
    ],
)
def test_no_worker_acts_on_the_lease_of_another(desk: Desk, path: str, body: dict[str, Any]) -> None:
    """Not even one that knows all that the lease is known by, or that registers with it."""
    worker, job = desk.running()
    other = desk.worker()
    before = desk.state(job["job"])
    token = {"instance": worker.instance, "epoch": job["epoch"]}
    for _ in range(2):
        assert error_of(other.post(f"jobs/{job['job']}/{path}", **token, **body), 409)["code"] == "LOST_LEASE"
        other.send("register", instance=worker.instance, pid=os.getpid(), pid_started=1.0)
    assert desk.state(job["job"]) == before
    worker.send(f"jobs/{job['job']}/progress", epoch=job["epoch"], step="probe", progress=2)


@pytest.mark.slow
def test_the_beat_of_another_worker_counts_for_no_lease(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor(
        TQSTUDIO_LEASE_S="1.5", TQSTUDIO_LEASE_SCAN_S="0.2", TQSTUDIO_HEARTBEAT_S="0.2"
    ).start()
    live.send(client.worker_action("cpu-0", "disable"))
    desk = Desk(live, tmp_path)
    silent, lost = desk.running()
    beating, kept = desk.running()
    held = {"job": lost["job"], "epoch": lost["epoch"]}

    def beat_until_lost() -> bool:
        beating.send("heartbeat", jobs=[{"job": kept["job"], "epoch": kept["epoch"]}])
        answer = beating.send("heartbeat", instance=silent.instance, jobs=[held])
        assert (answer["controls"], answer["lost"]) == ({}, [lost["job"]]), "it renews nothing"
        # Beats that name no lease of their instance would show that it was dropped.
        beating.send("heartbeat", instance=silent.instance)
        return bool(desk.show(lost["job"])["status"] == "pending")

    until(beat_until_lost, "the silent worker's job is taken back")
    assert desk.show(lost["job"])["events"][0]["trigger"] == "requeued:stale", "for its age alone"


def test_a_beat_for_what_is_not_held_is_answered_as_lost(desk: Desk) -> None:
    worker, job = desk.running()
    beats = [{"job": job["job"], "epoch": 9}, {"job": 4711, "epoch": 1}]
    answer = worker.send("heartbeat", jobs=beats)
    assert (answer["controls"], answer["lost"]) == ({}, [job["job"], 4711])


@pytest.mark.slow
def test_a_lease_without_beats_runs_out(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    live = make_supervisor(
        TQSTUDIO_LEASE_S="1.5",
        TQSTUDIO_LEASE_SCAN_S="0.2",
        TQSTUDIO_HEARTBEAT_S="0.2",
        TQSTUDIO_MAX_CRASHES="2",
    ).start()
    live.send(client.worker_action("cpu-0", "disable"))
    desk = Desk(live, tmp_path)
    silent, lost = desk.running()
    beating, kept = desk.running()

    def beat_until_lost() -> bool:
        beating.send("heartbeat", jobs=[{"job": kept["job"], "epoch": kept["epoch"]}])
        return bool(desk.show(lost["job"])["status"] == "pending")

    until(beat_until_lost, "the silent worker's job is taken back")
    row = desk.show(lost["job"])
    assert (row["crashes"], row["error"]["code"], row["claim"]) == (1, "WORKER_LOST", "retrying")
    assert row["events"][0]["trigger"] == "requeued:stale"
    late = silent.post(
        f"jobs/{lost['job']}/fail", instance=silent.instance, epoch=1, code="NO_MEDIA", text="x"
    )
    assert error_of(late, 409)["code"] == "LOST_LEASE"
    assert desk.show(kept["job"])["status"] == "in_progress"
    assert silent.claim()["epoch"] == 2
    until(lambda: beat_until_lost() or desk.show(lost["job"])["status"] == "failed", "it is poison")
    row = desk.show(lost["job"])
    assert (row["status"], row["error"]["code"], row["error"]["exhausted"]) == (
        "failed",
        "REPEATED_CRASHES",
        True,
    )
