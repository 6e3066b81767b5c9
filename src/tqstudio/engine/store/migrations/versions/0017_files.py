"""Files with the whole video, in the folder of a generation."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Adds the column; ladders from before have no such file."""
    kind = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("generation", sa.Column("files", kind, nullable=False, server_default=sa.text("'[]'")))
