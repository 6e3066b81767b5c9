"""The inode of each source, by which a file that was renamed while it waits is known again"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("video", sa.Column("inode", sa.BigInteger(), nullable=True))
    op.create_index("ix_video_inode", "video", ["inode"], sqlite_where=sa.text("inode IS NOT NULL"))
