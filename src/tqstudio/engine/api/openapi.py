"""Corrects the answers documented in `/openapi.json` to those that are really sent."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from tqstudio.protocol.answers import ErrorAnswer

_ANY = {400, 408, 413, 431, 500, 503}
"""Error statuses that any call may get; see `errors` and `server`."""
_OF_READS = {404}
_OF_CHANGES = {403, 404, 409, 507}
_OF_WORKERS = {401}
_ERROR = "ErrorAnswer"


def describe(app: FastAPI) -> None:
    """Document in the schema of an application the errors that its calls answer."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _correct(generate())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _correct(schema: dict[str, Any]) -> None:
    answer = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{_ERROR}"}}}}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            # FastAPI's default for invalid requests, which get 400 here.
            answers.pop("422", None)
            statuses = _ANY | (_OF_READS if method == "get" else _OF_CHANGES)
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
    400: "The request is invalid or cannot be fulfilled",
    401: "The token is not a worker's",
    403: "The supervisor lacks a permission",
    404: "Not found",
    408: "The request did not arrive in time",
    409: "The present state does not allow it",
    413: "The body is too large",
    431: "The headers are too large",
    500: "Internal error of the supervisor, or a damaged database",
    503: "The database is busy",
    507: "A disk is full or cannot be written to",
}
