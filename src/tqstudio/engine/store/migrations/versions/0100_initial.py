"""The schema of 0.1.0: a new database is created from `db/tables.py` and marked with the newest revision.

Later revisions change databases that an earlier release created.
"""

revision = "0100"
down_revision = None


def upgrade() -> None:
    """Changes nothing: no release has an older schema."""
