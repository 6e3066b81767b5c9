"""Which quality of a video is published before the others."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Adds the column; every ladder from before is whole."""
    # As in `tables`: PostgreSQL compares text by its bytes.
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("video", sa.Column("viewable", text))
