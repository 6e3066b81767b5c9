"""Where the attempt went on that crashed last, and that a restart is owed: what was made is still there"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "job", sa.Column("resumed_at_crash_s", sa.Float(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("job", sa.Column("starts_over", sa.Integer(), server_default=sa.text("0"), nullable=False))
