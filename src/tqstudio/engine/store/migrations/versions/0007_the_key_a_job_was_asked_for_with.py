"""The idempotency key of the request that made a job"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("idempotency_key", sa.Text(), nullable=True))
