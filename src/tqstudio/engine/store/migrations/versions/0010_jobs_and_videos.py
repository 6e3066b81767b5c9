"""How often the jobs of a drop folder may fail and crash."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    """Adds the columns; the settings apply to all folders, as before."""
    op.add_column("folder", sa.Column("max_attempts", sa.Integer()))
    op.add_column("folder", sa.Column("max_crashes", sa.Integer()))
