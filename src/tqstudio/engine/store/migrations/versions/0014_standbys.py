"""Where the supervisor that leads is reached, and which ones stand by."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

# As in `tables`: PostgreSQL compares text by its bytes.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Adds the table and the columns."""
    op.create_table(
        "standby",
        sa.Column("home", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("version", _TEXT, nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("home", name=op.f("pk_standby")),
    )
    for name in ("home", "name"):
        op.add_column("supervisor", sa.Column(name, _TEXT, nullable=False, server_default=sa.text("''")))
    for name in ("url", "certificate"):
        op.add_column("supervisor", sa.Column(name, _TEXT))
