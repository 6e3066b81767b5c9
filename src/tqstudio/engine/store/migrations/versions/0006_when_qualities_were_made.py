"""When each quality of a job was first worked on, and when it was whole"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rendition", sa.Column("started_at", sa.BigInteger(), nullable=True))
    op.add_column("rendition", sa.Column("completed_at", sa.BigInteger(), nullable=True))
