"""How often the jobs of a drop folder may fail and crash, who added a job, and what had changed."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    """Adds the columns; the settings apply to all folders as before, of owners only folders are known."""
    op.add_column("folder", sa.Column("max_attempts", sa.Integer()))
    op.add_column("folder", sa.Column("max_crashes", sa.Integer()))
    op.add_column("job", sa.Column("owner", sa.Text(), nullable=False, server_default="user"))
    op.add_column("job", sa.Column("changes", sa.Text(), nullable=False, server_default="[]"))
    op.execute("UPDATE job SET owner = 'folder' WHERE from_folder = 1")
    op.create_index("ix_job_origin", "job", ["id", "kind", "owner"])
