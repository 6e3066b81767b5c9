"""When each attempt last got further: one that was lost may be found to be so much later"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("last_progress_at", sa.BigInteger(), nullable=True))
