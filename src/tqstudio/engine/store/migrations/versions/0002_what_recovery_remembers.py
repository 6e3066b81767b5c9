"""What recovery remembers: publications under way, measured speeds, quarantine, autorestart of folders;
and which sources the background probe has still to look at"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Columns are added in place: rebuilding a table would lose its expression indexes and triggers.
    op.add_column(
        "folder", sa.Column("autorestart_limit", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column(
        "folder", sa.Column("autorestart_delay_s", sa.Float(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("worker", sa.Column("quarantined_at", sa.BigInteger(), nullable=True))
    op.add_column("worker", sa.Column("quarantine_reason", sa.Text(), nullable=True))
    op.add_column(
        "worker", sa.Column("failed_jobs", sa.Text(), server_default=sa.text("'[]'"), nullable=False)
    )
    op.add_column("worker", sa.Column("offline_at", sa.BigInteger(), nullable=True))
    op.add_column(
        "job", sa.Column("segments_at_crash", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("job", sa.Column("predicted_s", sa.Float(), nullable=True))
    op.add_column("job", sa.Column("actual_s", sa.Float(), nullable=True))
    op.add_column(
        "generation", sa.Column("omitted", sa.Text(), server_default=sa.text("'{}'"), nullable=False)
    )
    op.add_column("video", sa.Column("probe_error", sa.Text(), nullable=True))
    op.add_column("job", sa.Column("unprobed", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.execute("UPDATE job SET unprobed = 1 WHERE video_id IN (SELECT id FROM video WHERE facts IS NULL)")
    op.execute(
        "CREATE INDEX ix_job_unprobed ON job (priority DESC, created_at, id)"
        " WHERE unprobed = 1 AND status IN ('pending', 'paused') AND deleted_at IS NULL"
    )
    op.create_index(
        "ix_job_autorestart",
        "job",
        ["id"],
        sqlite_where=sa.text(
            "status = 'failed' AND autorestart IN ('enabled', 'in_progress') AND deleted_at IS NULL"
        ),
    )
    op.create_table(
        "publication",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("full_hash", sa.Text(), nullable=True),
        sa.Column("begun_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_publication_job_id_job"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name=op.f("fk_publication_video_id_video")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_publication")),
    )
    op.create_table(
        "speed",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("samples", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_speed")),
    )
    # Lists: every order also of what is deleted, and searches read narrow indexes alone.
    for name in ("waiting", "ended", "status", "deleted"):
        op.drop_index(f"ix_job_{name}", table_name="job")
    for prefix, where in (("ix_job", "deleted_at IS NULL"), ("ix_job_deleted", "deleted_at IS NOT NULL")):
        for name, columns in (
            ("waiting", "priority DESC, created_at, id"),
            ("ended", "completed_at DESC, id DESC"),
            ("status", "id"),
        ):
            op.execute(f"CREATE INDEX {prefix}_{name} ON job (status, {columns}, video_id) WHERE {where}")
    op.create_index("ix_video_name", "video", ["id", "name"])
