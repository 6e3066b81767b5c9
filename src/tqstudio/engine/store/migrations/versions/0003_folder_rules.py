"""Which files of a drop folder are excluded."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the rules as they were before: nothing is excluded."""
    op.add_column("folder", sa.Column("exclude", sa.Text(), nullable=False, server_default="[]"))
