"""A version of the product with one more migration, as the next release may be."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tqstudio
from tqstudio.engine.store.db.schema import SCHEMA_VERSION

NEXT = f"{int(SCHEMA_VERSION) + 1:04}"
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT}", "{SCHEMA_VERSION}"


def upgrade() -> None:
    op.add_column("job", sa.Column("of_a_test", sa.Text, nullable=False, server_default="none"))
    op.execute("UPDATE job SET of_a_test = 'some'")
    op.create_index("ix_job_of_a_test", "job", ["of_a_test"])
    op.create_table("of_a_test", sa.Column("id", sa.Integer, primary_key=True))
"""
_HOLD = """
    import time
    from pathlib import Path

    # Not where it is only tried, in memory.
    while op.get_bind().exec_driver_sql("PRAGMA database_list").first()[2] and Path("{}").exists():
        time.sleep(0.02)
"""


def make(folder: Path, held_by: Path | None = None) -> dict[str, str]:
    """Make its package in a folder; returns the environment in which it runs.

    Args:
        held_by: its migration waits at its end while this file exists.
    """
    package = folder / "tqstudio"
    shutil.copytree(Path(tqstudio.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    store = package / "engine" / "store"
    (store / "migrations" / "versions" / f"{NEXT}_of_a_test.py").write_text(
        MIGRATION + (_HOLD.format(held_by) if held_by else "")
    )
    _replace(
        store / "db" / "schema.py", f'^SCHEMA_VERSION = "{SCHEMA_VERSION}"$', f'SCHEMA_VERSION = "{NEXT}"'
    )
    column = '    of_a_test: str = _text(default="none")\n'
    _replace(store / "db" / "tables.py", r"(^class Job\(.*?^    id: .*?\n)", rf"\1{column}")
    return {"PYTHONPATH": str(folder)}


def _replace(path: Path, pattern: str, by: str) -> None:
    text, found = re.subn(pattern, by, path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found == 1, f"{path.name} has no {pattern}"
    path.write_text(text)
