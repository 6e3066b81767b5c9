"""Whether published video is SDR, PQ or HLG."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the column; all ladders published before are SDR."""
    op.add_column("published", sa.Column("video_range", sa.Text(), nullable=False, server_default="SDR"))
