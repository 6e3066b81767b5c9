"""Which workers have to pass a test encode before their next job"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("worker", sa.Column("suspected_at", sa.BigInteger(), nullable=True))
