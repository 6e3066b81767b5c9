"""Alerts that wait for delivery, and the last event that they were made of."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Creates both tables; no alert was sent before."""
    op.create_table(
        "alert",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("suppressed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert")),
        sa.UniqueConstraint("channel", "key", name=op.f("uq_alert_channel_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_alert_waiting", "alert", ["channel", "next_at"], sqlite_where=sa.text("next_at IS NOT NULL")
    )
    op.create_index("ix_alert_subject", "alert", ["channel", "kind", "subject", "id"])
    op.create_table(
        "alert_position",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_alert_position")),
    )
