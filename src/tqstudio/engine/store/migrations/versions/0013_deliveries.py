"""Copies of ladders in object storage, and sources that are fetched from there."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Adds the table and the columns."""
    op.create_table(
        "delivery",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("job_id", sa.Integer()),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("files_done", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("tries", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("code", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("hint", sa.Text()),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("delivered_at", sa.BigInteger()),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'removing')", name=op.f("ck_delivery_state")),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name=op.f("fk_delivery_video_id_video")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
        sa.UniqueConstraint("video_id", "number", name=op.f("uq_delivery_video_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_delivery_next",
        "delivery",
        ["next_at", "id"],
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    for name, kind in (("url", sa.Text()), ("version", sa.Text()), ("output_root", sa.LargeBinary())):
        op.add_column("upload", sa.Column(name, kind))
