"""On how much work each speed was measured, which is its weight against the next measurement"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("speed", sa.Column("work_s", sa.Float(), nullable=False, server_default=sa.text("0")))
