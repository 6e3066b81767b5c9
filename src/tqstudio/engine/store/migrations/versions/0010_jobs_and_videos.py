"""How often the jobs of a drop folder may fail and crash, who added a job, and deleted videos."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds the columns; the settings apply to all folders as before, of owners only folders are known."""
    op.add_column("folder", sa.Column("max_attempts", sa.Integer()))
    op.add_column("folder", sa.Column("max_crashes", sa.Integer()))
    op.add_column("job", sa.Column("owner", sa.Text(), nullable=False, server_default="user"))
    op.add_column("job", sa.Column("changes", sa.Text(), nullable=False, server_default="[]"))
    op.execute("UPDATE job SET owner = 'folder' WHERE from_folder = 1")
    op.create_table(
        "deletion",
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state IN ('leaving', 'aside', 'returning', 'removing')", name=op.f("ck_deletion_state")
        ),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name=op.f("fk_deletion_video_id_video")),
        sa.PrimaryKeyConstraint("video_id", name=op.f("pk_deletion")),
    )
    op.create_index("ix_job_origin", "job", ["id", "kind", "owner"])
