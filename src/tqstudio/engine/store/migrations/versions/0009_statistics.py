"""What ffmpeg used in each attempt, and the figures of ended attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds the columns and the table; the statistics begin with the first attempt that ends from now on."""
    op.add_column("attempt", sa.Column("cpu_s", sa.Float(), nullable=True))
    op.add_column("attempt", sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=True))
    op.create_table(
        "statistic",
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=True),
        sa.Column("wall_s", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("cpu_s", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("media_s", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("off_percent", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("at", "job_id", "epoch", name=op.f("pk_statistic")),
        sqlite_with_rowid=False,
    )
