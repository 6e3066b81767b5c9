"""How many workers may join by a token."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Adds the column; tokens from before have no limit."""
    op.add_column("token", sa.Column("max_workers", sa.Integer(), nullable=True))
