"""Where the ladders of a drop folder lie below its output, and whether it takes sound without video."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the columns; ladders lie directly in the output and sound is skipped, as before."""
    op.add_column("folder", sa.Column("template", sa.Text(), nullable=False, server_default="{slug}"))
    op.add_column("folder", sa.Column("audio", sa.Text(), nullable=False, server_default="skip"))
