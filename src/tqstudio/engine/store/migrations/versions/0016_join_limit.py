"""How many workers may join by a token."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Adds the column; tokens from before have no limit."""
    number = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
    op.add_column("token", sa.Column("max_workers", number, nullable=True))
