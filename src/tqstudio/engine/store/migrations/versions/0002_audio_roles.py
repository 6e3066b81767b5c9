"""The role of published audio, and which rendition has the same sound in fewer channels."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds both columns; ladders published before have one audio rendition, without a role."""
    op.add_column("published", sa.Column("role", sa.Text(), nullable=False, server_default=""))
    op.add_column("published", sa.Column("surround_of", sa.Text(), nullable=True))
