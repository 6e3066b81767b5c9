"""Which CRFs were found for the quality that a profile asks for."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Adds the column; none were sought before."""
    # As in `tables`: PostgreSQL compares text by its bytes.
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("video", sa.Column("crfs", text, nullable=False, server_default="[]"))
