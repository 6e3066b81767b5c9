"""Where an attempt goes on, to the fragment: the segment said "from the start" to one within the first"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("resumed_at_s", sa.Float(), nullable=True))
