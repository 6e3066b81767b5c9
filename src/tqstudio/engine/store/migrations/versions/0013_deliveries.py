"""Copies of ladders in object storage, and sources that are fetched from there."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

# As in `tables`: integers of SQLite have 64 bits, and it compares text by its bytes.
_INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Adds the table and the columns."""
    op.create_table(
        "delivery",
        sa.Column("id", _INTEGER, nullable=False),
        sa.Column("video_id", _INTEGER, nullable=False),
        sa.Column("number", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("job_id", _INTEGER),
        sa.Column("url", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("files", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("files_done", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("tries", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("code", _TEXT),
        sa.Column("error", _TEXT),
        sa.Column("hint", _TEXT),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("delivered_at", sa.BigInteger()),
        sa.Column("evicted_at", sa.BigInteger()),
        sa.CheckConstraint(
            "state IN ('waiting', 'delivered', 'hiding', 'removing')", name=op.f("ck_delivery_state")
        ),
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
    op.create_index("ix_delivery_url", "delivery", ["url", "id"])
    for name, kind in (("url", _TEXT), ("version", _TEXT), ("output_root", sa.LargeBinary())):
        op.add_column("upload", sa.Column(name, kind))
