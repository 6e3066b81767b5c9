"""What `/openapi.json` says of the answers: those that are sent, and no others."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from tqstudio.protocol.answers import ErrorAnswer

_ANY = {400, 408, 413, 431, 500, 503}
"""Statuses of errors that any call may be answered with; see `refusals` and `serving`."""
_LOOKS = {404}
_CHANGES = {403, 404, 409, 507}
_OF_WORKERS = {401}
_ERROR = "ErrorAnswer"


def describe(app: FastAPI) -> None:
    """Have the schema of an application name the errors that its calls are answered with."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _correct(made())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _correct(schema: dict[str, Any]) -> None:
    answer = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{_ERROR}"}}}}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            # FastAPI's own, for requests that do not fit their schema: those are answered 400.
            answers.pop("422", None)
            statuses = _ANY | (_LOOKS if method == "get" else _CHANGES)
            if path.startswith("/v1/worker/"):
                statuses = statuses | _OF_WORKERS
                operation["security"] = [{"token": []}]
            for status in sorted(statuses):
                answers[str(status)] = {"description": _MEANING[status], **answer}
    components = schema["components"]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["schemas"] |= _error_schemas()


def _error_schemas() -> dict[str, Any]:
    from pydantic import TypeAdapter

    described = TypeAdapter(ErrorAnswer).json_schema(ref_template="#/components/schemas/{model}")
    return {**described.pop("$defs"), _ERROR: described}


_MEANING = {
    400: "The request is wrong, or asks for what cannot be",
    401: "The token is not that of a worker",
    403: "The system does not let the supervisor do it",
    404: "There is no such thing",
    408: "No whole request came in time",
    409: "The state of what is asked for does not allow it",
    413: "The body is too large",
    431: "The head of the request is too large",
    500: "The supervisor made a mistake, or its database is damaged",
    503: "The database is busy",
    507: "A disk is full or takes no writes",
}
