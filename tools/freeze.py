"""Keeps what this version must hand on to later ones, as data of the tests: `python tools/freeze.py`.

It writes the schema of the API and dumps of both databases into `tests/releases`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import api_schema
from tqstudio import __version__
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "releases"
_PROSE = ("title", "description", "summary", "operationId")
_NAMED = ("properties", "schemas", "paths")
"""Objects whose keys are names, also such as `title`."""


def main() -> None:
    """Write all of it; what an earlier version has written stays."""
    sys.path.insert(0, str(ROOT / "tests"))
    import postgres
    from releases import schema_dumps

    api = json.dumps(_without_prose(api_schema.schema()), separators=(",", ":"), ensure_ascii=False)
    (KEPT / f"api-{__version__}.json").write_text(api + "\n")
    with tempfile.TemporaryDirectory() as folder:
        for program in schema_dumps.PROGRAMS:
            file = Path(folder) / "tqstudio.db"
            address = file if program == "sqlite" else postgres.empty_database()
            migrate(address)
            schema_dumps.kept(SCHEMA_VERSION, program).write_text(schema_dumps.dump(address))


def _without_prose(node: Any, *, is_named: bool = False) -> Any:
    if isinstance(node, list):
        return [_without_prose(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_prose(each, is_named=key in _NAMED)
        for key, each in node.items()
        if is_named or key not in _PROSE or not isinstance(each, str)
    }


if __name__ == "__main__":
    main()
