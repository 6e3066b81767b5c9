"""Writes the schema of the API as clients and people read it in the repository: `docs/openapi.json`."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.http.app import make_app
from tqstudio.engine.wings import ROUTERS


def schema() -> dict[str, Any]:
    """The schema of every call, which a supervisor answers at `/openapi.json`."""
    # No endpoint is called, so none needs the services of a supervisor.
    app: Any = make_app(cast(Services, SimpleNamespace(db=None)), ROUTERS)
    return dict(app.openapi())


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
