"""Where the last jobs are whose time was foretold: a start read every finished job for them"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE INDEX IF NOT EXISTS ix_job_foretold ON job (completed_at DESC, id DESC)"
        " WHERE predicted_s IS NOT NULL AND status = 'done' AND deleted_at IS NULL"
    )
