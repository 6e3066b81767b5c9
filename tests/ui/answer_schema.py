"""Checks answers against the types in `protocol/answers.py`, without unknown keys or converted values."""

from __future__ import annotations

import functools
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from tqstudio.protocol import answers
from tqstudio.protocol.calls import Call, StreamEvent

TYPES: dict[tuple[str, str], Any] = {
    ("GET", "status"): answers.StatusView,
    ("GET", "jobs"): answers.JobPage,
    ("GET", "jobs/{}"): answers.JobDetail,
    ("POST", "jobs/actions"): dict[str, list[answers.ActionResult]],
    ("POST", "jobs/forecast"): answers.ForecastView,
    ("GET", "events"): answers.EventPage,
    ("GET", "wall"): answers.WallView,
    ("GET", "load"): answers.LoadView,
    ("GET", "stats"): answers.StatisticsView,
    ("GET", "workers"): dict[str, list[answers.WorkerView]],
    ("POST", "workers/{}/{}"): answers.WorkerView,
    ("GET", "folders"): dict[str, list[answers.FolderView]],
    ("POST", "folders"): answers.FolderView,
    ("POST", "folders/preview"): answers.FolderPreview,
    ("POST", "workers"): answers.WorkerView,
    ("PATCH", "folders/{}"): answers.FolderView,
    ("GET", "settings"): answers.SettingsView,
    ("GET", "profiles"): dict[str, list[answers.ProfileView]],
    ("GET", "videos/{}"): answers.VideoView,
    ("POST", "videos"): answers.AddAnswer,
    ("POST", "queue/pause"): answers.GateView,
}
"""The answer to each call; the others have no type of their own."""

MESSAGES: dict[str, Any] = {
    "event": answers.EventView,
    "progress": dict[str, list[answers.JobLive]],
    "worker": dict[str, list[answers.WorkerView]],
    "sources": dict[str, list[answers.JobSource]],
    "reset": dict[str, int],
}


def check_answer(call: Call[Any], answer: Any) -> None:
    """Raises pydantic's ValidationError if the answer is not what its call promises."""
    first, *more = call.path.removeprefix("/v1/").split("/")
    for path in ("/".join([first, *more]), "/".join([first, *("{}" for _ in more)])):
        if (expected := TYPES.get((call.method, path))) is not None:
            _validator(expected).validate_python(answer, strict=True)
            return
    assert isinstance(answer, dict), answer


def check_message(message: StreamEvent) -> None:
    _validator(MESSAGES[message.name]).validate_python(message.data, strict=True)


@functools.cache
def _validator(expected: Any) -> SchemaValidator:
    schema = TypeAdapter(expected).core_schema
    _forbid_unknown(schema)
    return SchemaValidator(schema)


def _forbid_unknown(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "typed-dict":
            schema["extra_behavior"] = "forbid"
        for part in schema.values():
            _forbid_unknown(part)
    elif isinstance(schema, list):
        for part in schema:
            _forbid_unknown(part)
