"""What actions have changed, so that they can be undone."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

# As in `tables`: PostgreSQL compares text by its bytes, and its integers have 64 bits.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    """Adds the tables; nothing from before can be undone."""
    op.create_table(
        "undo",
        sa.Column("id", _INTEGER, primary_key=True, autoincrement=True),
        sa.Column("actor", _TEXT, nullable=False),
        sa.Column("operation", _TEXT, nullable=False),
        sa.Column("bulk", _TEXT, nullable=False, server_default=sa.text("''")),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_undo")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_undo_actor", "undo", ["actor", "id"])
    op.create_table(
        "undo_step",
        sa.Column("undo_id", _INTEGER, nullable=False),
        sa.Column("subject", _INTEGER, nullable=False, autoincrement=False),
        sa.Column("version", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("before", _INTEGER, nullable=False, server_default=sa.text("0")),
        sa.Column("former", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["undo_id"], ["undo.id"], name=op.f("fk_undo_step_undo_id_undo"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("undo_id", "subject", name=op.f("pk_undo_step")),
    )
    op.create_index("ix_undo_step_version", "undo_step", ["subject", "version"])
