"""Finding the jobs that have warnings."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Adds an index of them."""
    some = sa.text("warnings <> '[]'")
    op.create_index("ix_job_warned", "job", ["id"], sqlite_where=some, postgresql_where=some)
