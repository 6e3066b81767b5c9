"""Tokens of the API for callers from the network."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Creates the table; there were no tokens before."""
    op.create_table(
        "token",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("worker_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("role IN ('view', 'operate', 'admin', 'worker')", name=op.f("ck_token_role")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_token_worker_id_worker")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("name", name=op.f("uq_token_name")),
        sa.UniqueConstraint("prefix", name=op.f("uq_token_prefix")),
        sqlite_autoincrement=True,
    )
