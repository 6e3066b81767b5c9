"""Which files and duplicates a drop folder leaves out, and what becomes of its sources."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the rules as they were before: nothing is left out, moved or deleted."""
    op.add_column("folder", sa.Column("exclude", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("folder", sa.Column("after_done", sa.Text(), nullable=False, server_default="keep"))
    op.add_column("folder", sa.Column("done_dir", sa.LargeBinary()))
    op.add_column("folder", sa.Column("duplicates", sa.Text(), nullable=False, server_default="encode"))
    op.create_index("ix_video_size", "video", ["size"], sqlite_where=sa.text("generation_id IS NOT NULL"))
    op.add_column("video", sa.Column("source_deleted_at", sa.BigInteger()))
    op.add_column("job", sa.Column("from_folder", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "removal",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("inode", sa.BigInteger(), nullable=False),
        sa.Column("ctime_ns", sa.BigInteger(), nullable=False),
        sa.Column("target", sa.LargeBinary()),
        sa.Column("begun_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_removal_job_id_job", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name="fk_removal_video_id_video"),
        sa.PrimaryKeyConstraint("job_id", name="pk_removal"),
    )
