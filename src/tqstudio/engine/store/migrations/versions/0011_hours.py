"""Hours of drop folders and of the queue, and pauses that end by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Adds the hours, none as before, and replaces the table of gates: SQLite cannot change a CHECK."""
    op.add_column("folder", sa.Column("hours", sa.Text(), nullable=False, server_default=""))
    op.rename_table("gate", "gate_before")
    op.create_table(
        "gate",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("path", sa.LargeBinary(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('user', 'disk', 'backpressure', 'hours')", name=op.f("ck_gate_kind")),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_gate")),
    )
    op.execute(
        "INSERT INTO gate (kind, reason, path, since) SELECT kind, reason, path, since FROM gate_before"
    )
    op.drop_table("gate_before")
