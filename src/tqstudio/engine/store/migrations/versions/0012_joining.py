"""Tokens by which workers join, and the token by which a worker did."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Adds the column and the role, and marks workers that have tokens as those of other machines."""
    op.add_column("worker", sa.Column("joined_by", sa.Text(), nullable=True))
    op.execute("UPDATE worker SET type = 'remote' WHERE id IN (SELECT worker_id FROM token)")
    with op.batch_alter_table("token", table_kwargs={"sqlite_autoincrement": True}) as token:
        token.drop_constraint(op.f("ck_token_role"), type_="check")
        token.create_check_constraint(
            op.f("ck_token_role"), "role IN ('view', 'operate', 'admin', 'worker', 'join')"
        )
