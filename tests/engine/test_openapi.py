"""The API keeps to its schema: whatever it is asked, it answers what is documented there, and never fails.

schemathesis makes the requests from the schema itself: such as fit it, and such as do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from urllib3 import HTTPResponse

from harness import LiveSupervisor, UnixHTTP
from tqstudio import paths as sources
from tqstudio.protocol import calls

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 6
"""Of each call and kind; the same ones in each run."""
STREAM, SHUTDOWN = "/v1/events/stream", "/v1/shutdown"


class _Socket(HTTPAdapter):
    """Sends to a supervisor's socket. Of the event stream, which does not end, the first line is read."""

    def __init__(self, live: LiveSupervisor) -> None:
        super().__init__()
        self._live = live

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        connection = UnixHTTP(self._live.home.socket)
        try:
            assert request.method is not None
            connection.request(request.method, request.path_url, request.body, dict(request.headers))  # type: ignore[arg-type]
            answered = connection.getresponse()
            streams = answered.getheader("content-type", "").startswith("text/event-stream")
            content = answered.readline() if streams else answered.read()
            raw = HTTPResponse(
                BytesIO(content),
                answered.getheaders(),
                answered.status,
                preload_content=False,
                request_method=request.method,
            )
            return self.build_response(request, raw)
        finally:
            connection.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSupervisor]:
    """A supervisor of its own, whose queue may be paused and whose history may be forgotten."""
    live = LiveSupervisor(tmp_path_factory.mktemp("openapi"))
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        yield live
    finally:
        live.clear_away()


@pytest.fixture(scope="module", autouse=True)
def paths(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What stands for a path in the requests: files, folders, what is not there, names that are no text."""
    root = os.fsencode(tmp_path_factory.mktemp("paths"))
    files = [
        root + b"/" + name for name in (b"a.mp4", b"b.mkv", b"\xff\x1b[31m.mp4", b"folder/c.mp4", b"note.txt")
    ]
    os.mkdir(root + b"/folder")
    for file in files:
        with open(file, "wb") as opened:
            opened.write(b"some video " + file)
    os.mkfifo(root + b"/fifo.mp4")
    others = [
        root,
        root + b"/folder",
        root + b"/fifo.mp4",
        root + b"/none.mp4",
        root + b"/new/x.db",
        b"a.mp4",
    ]
    schemathesis.openapi.format("path-base64", st.sampled_from([*files, *others]).map(sources.encode))


@pytest.fixture(scope="module")
def session(live: LiveSupervisor) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.mount("http://", _Socket(live))
        yield session


@pytest.fixture(scope="module")
def schema(live: LiveSupervisor) -> Any:
    return schemathesis.openapi.from_dict(live.raw("GET", "/openapi.json")[1])


@pytest.fixture(scope="module")
def worker(live: LiveSupervisor) -> dict[str, str]:
    token = live.send(calls.worker_token("fuzzed", "cpu"))["token"]
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.NEGATIVE, GenerationMode.POSITIVE])
def test_every_call_answers_as_its_schema_says(
    live: LiveSupervisor, session: requests.Session, schema: Any, worker: dict[str, str], mode: GenerationMode
) -> None:
    asked = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == SHUTDOWN:
            continue

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            # No token is needed on the socket, and a made-up one is refused.
            if case.headers:
                case.headers.pop("Authorization", None)
            headers = dict(worker) if case.path.startswith("/v1/worker/") else {}
            response = case.call(base_url="http://tqstudio", session=session, headers=headers)
            # Where no worker runs, 503 is the answer of readiness.
            allowed = [not_a_server_error] if case.path == "/ready" else []
            case.validate_response(response, checks=CHECKS, excluded_checks=allowed)
            asked.add(case.operation.label)

        # A call that takes nothing cannot be asked wrongly.
        with suppress(Unsatisfiable):
            ask()
    assert len(asked) > (30 if mode is GenerationMode.POSITIVE else 20), asked
    assert live.process.poll() is None
    if mode is GenerationMode.POSITIVE:
        assert live.send(calls.jobs())["jobs"], "some files became jobs"


@pytest.mark.slow
def test_the_end_is_answered_as_its_schema_says(session: requests.Session, schema: Any) -> None:
    case = schema[SHUTDOWN]["POST"].Case(body={"drain": False}, media_type="application/json")
    case.validate_response(case.call(base_url="http://tqstudio", session=session), checks=CHECKS)
