"""What was left out of each job's result, or is known to be damaged"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("warnings", sa.Text(), server_default=sa.text("'[]'"), nullable=False))
