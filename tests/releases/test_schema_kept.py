"""Databases of every release become those of this version, by migrations that cannot be forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

import postgres
from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate, schema_version

from .schema_dumps import HERE, PROGRAMS, dump, kept, load

VERSIONS = sorted({path.name.split(".")[0].removeprefix("schema-") for path in HERE.glob("schema-*.sql")})
_ON = [pytest.param(each, marks=pytest.mark.slow) if each == "postgresql" else each for each in PROGRAMS]


def _empty(program: str, folder: Path) -> Address:
    return folder / "tqstudio.db" if program == "sqlite" else postgres.empty_database()


@pytest.mark.parametrize("program", _ON)
def test_a_new_database_has_the_kept_schema(program: str, tmp_path: Path) -> None:
    """A change of `tables.py` needs a migration, another SCHEMA_VERSION, and its dump: tools/freeze.py."""
    address = _empty(program, tmp_path)
    migrate(address)
    assert dump(address) == kept(SCHEMA_VERSION, program).read_text()


@pytest.mark.parametrize("program", _ON)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_schema_of_each_release_is_migrated_to_that_of_new_databases(
    version: str, program: str, tmp_path: Path
) -> None:
    address = _empty(program, tmp_path)
    load(kept(version, program).read_text(), address, version)
    migrate(address)
    assert schema_version(address) == SCHEMA_VERSION
    assert dump(address) == kept(SCHEMA_VERSION, program).read_text()
