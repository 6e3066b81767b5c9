"""The first schema"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("video_id", sa.Integer(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.CheckConstraint("detail IS NULL OR length(detail) <= 500", name=op.f("ck_event_detail")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index("ix_event_at", ["at"], unique=False)
        batch_op.create_index("ix_event_job", ["job_id", "seq"], unique=False)

    op.create_table(
        "folder",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("path", sa.LargeBinary(), nullable=False),
        sa.Column("output_root", sa.LargeBinary(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("watch", sa.Text(), server_default=sa.text("'auto'"), nullable=False),
        sa.Column("enabled", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("recursive", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("patterns", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("settle_s", sa.Float(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_folder")),
        sa.UniqueConstraint("path", name=op.f("uq_folder_path")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "gate",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("path", sa.LargeBinary(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('user', 'disk', 'backpressure')", name=op.f("ck_gate_kind")),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_gate")),
    )
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "job_count",
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("status", name=op.f("pk_job_count")),
    )
    op.create_table(
        "supervisor",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("store_uuid", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_heartbeat_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_supervisor_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_supervisor")),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), server_default=sa.text("'local'"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=True),
        sa.Column("encoder", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("draining", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pid_started", sa.Float(), nullable=True),
        sa.Column("capabilities", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("metadata_json", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=True),
        sa.Column("last_heartbeat_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('cpu', 'gpu')", name=op.f("ck_worker_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
        sa.UniqueConstraint("name", name=op.f("uq_worker_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "video",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("folder_id", sa.Integer(), nullable=True),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("output_root", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("quick_hash", sa.Text(), nullable=True),
        sa.Column("full_hash", sa.Text(), nullable=True),
        sa.Column("facts", sa.Text(), nullable=True),
        sa.Column("generation_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["folder_id"], ["folder.id"], name=op.f("fk_video_folder_id_folder")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_video")),
        sa.UniqueConstraint("output_root", "slug", name=op.f("uq_video_output_root_slug")),
        sa.UniqueConstraint("source", "output_root", name=op.f("uq_video_source_output_root")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "generation",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("settings_hash", sa.Text(), nullable=False),
        sa.Column("poster", sa.Text(), nullable=True),
        sa.Column("published_at", sa.BigInteger(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name=op.f("fk_generation_video_id_video")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_generation")),
        sa.UniqueConstraint("video_id", "number", name=op.f("uq_generation_video_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "job",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("video_id", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), server_default=sa.text("'new'"), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("profile_json", sa.Text(), nullable=False),
        sa.Column("prefer_gpu", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("requested", sa.Text(), nullable=True),
        sa.Column("dropped", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("progress", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("crashes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("3"), nullable=False),
        sa.Column("max_crashes", sa.Integer(), server_default=sa.text("3"), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("worker_id", sa.Integer(), nullable=True),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("control", sa.Text(), server_default=sa.text("'none'"), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("error_hint", sa.Text(), nullable=True),
        sa.Column("error_log", sa.Text(), nullable=True),
        sa.Column("exhausted", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("autorestart", sa.Text(), server_default=sa.text("'disabled'"), nullable=False),
        sa.Column("autorestart_limit", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("autorestart_delay_s", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("restarts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_restart_at", sa.BigInteger(), nullable=True),
        sa.Column("processed_by_id", sa.Integer(), nullable=True),
        sa.Column("processed_by", sa.Text(), nullable=True),
        sa.Column("metadata_json", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_progress_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(status = 'in_progress') = (lease_expires_at IS NOT NULL)"
            " AND (status = 'in_progress') = (worker_id IS NOT NULL)"
            " AND (status = 'in_progress') = (instance IS NOT NULL)",
            name=op.f("ck_job_lease"),
        ),
        sa.CheckConstraint(
            "autorestart IN ('disabled', 'enabled', 'in_progress', 'failed', 'denied')",
            name=op.f("ck_job_autorestart"),
        ),
        sa.CheckConstraint("control IN ('none', 'pause', 'cancel', 'restart')", name=op.f("ck_job_control")),
        sa.CheckConstraint("kind IN ('new', 'retranscode', 'changed')", name=op.f("ck_job_kind")),
        sa.CheckConstraint(
            "status = 'in_progress' OR control = 'none'", name=op.f("ck_job_control_of_running")
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'in_progress', 'paused', 'done', 'failed', 'cancelled')",
            name=op.f("ck_job_status"),
        ),
        sa.CheckConstraint(
            "step IS NULL OR step IN ('probe', 'thumbnail', 'transcode', 'master_playlist', 'finalize')",
            name=op.f("ck_job_step"),
        ),
        sa.CheckConstraint(
            "attempts <= max_attempts AND crashes <= max_crashes", name=op.f("ck_job_counters")
        ),
        sa.ForeignKeyConstraint(["video_id"], ["video.id"], name=op.f("fk_job_video_id_video")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_job_worker_id_worker")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index(
            "ix_job_backoff",
            ["not_before"],
            unique=False,
            sqlite_where=sa.text("status = 'pending' AND not_before IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_job_batch", ["batch", "id"], unique=False, sqlite_where=sa.text("batch IS NOT NULL")
        )
        batch_op.create_index(
            "ix_job_deleted", ["deleted_at"], unique=False, sqlite_where=sa.text("deleted_at IS NOT NULL")
        )
        batch_op.create_index(
            "ix_job_instance", ["instance"], unique=False, sqlite_where=sa.text("status = 'in_progress'")
        )
        batch_op.create_index(
            "ix_job_lease", ["lease_expires_at"], unique=False, sqlite_where=sa.text("status = 'in_progress'")
        )
        batch_op.create_index(
            "ix_job_one_open",
            ["video_id"],
            unique=True,
            sqlite_where=sa.text("status IN ('pending', 'in_progress', 'paused') AND deleted_at IS NULL"),
        )
        batch_op.create_index(
            "ix_job_status", ["status", "id"], unique=False, sqlite_where=sa.text("deleted_at IS NULL")
        )
        batch_op.create_index("ix_job_video", ["video_id", "id"], unique=False)

    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("worker_id", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("encoder", sa.Text(), nullable=True),
        sa.Column("argv", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("steps", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("resumed_from", sa.Integer(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), server_default=sa.text("'running'"), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("log", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('running', 'done', 'failed', 'lost', 'paused', 'cancelled', 'released')",
            name=op.f("ck_attempt_outcome"),
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_attempt_job_id_job")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_attempt_worker_id_worker")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("job_id", "epoch", name=op.f("uq_attempt_job_id_epoch")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "published",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("generation_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.Column("frame_rate", sa.Float(), nullable=True),
        sa.Column("codecs", sa.Text(), nullable=False),
        sa.Column("duration_s", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("average_bps", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("peak_bps", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("settings_hash", sa.Text(), nullable=False),
        sa.Column("stream_key", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("channels", sa.Integer(), nullable=True),
        sa.Column("is_default", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"], ["generation.id"], name=op.f("fk_published_generation_id_generation")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_published")),
        sa.UniqueConstraint("generation_id", "name", name=op.f("uq_published_generation_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "rendition",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("required", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.Column("encoder", sa.Text(), nullable=True),
        sa.Column("progress", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("segments_done", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("segments_total", sa.Integer(), nullable=True),
        sa.Column("speed", sa.Float(), nullable=True),
        sa.Column("settings_hash", sa.Text(), nullable=True),
        sa.Column("stream_key", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'in_progress', 'completed', 'failed', 'skipped')",
            name=op.f("ck_rendition_status"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_rendition_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_rendition")),
    )

    # Expression indexes, which autogeneration cannot see on SQLite.
    op.execute(
        "CREATE INDEX ix_job_ready ON job (prefer_gpu, priority DESC, created_at, id)"
        " WHERE status = 'pending' AND not_before IS NULL AND deleted_at IS NULL"
    )
    op.execute(
        "CREATE INDEX ix_job_waiting ON job (status, priority DESC, created_at, id) WHERE deleted_at IS NULL"
    )
    op.execute(
        "CREATE INDEX ix_job_ended ON job (status, completed_at DESC, id DESC) WHERE deleted_at IS NULL"
    )
    # Text filters of three and more characters look names up by trigrams.
    op.execute(
        "CREATE VIRTUAL TABLE video_name USING fts5"
        "(name, content='video', content_rowid='id', tokenize='trigram')"
    )
    op.execute(
        "CREATE TRIGGER video_name_insert AFTER INSERT ON video BEGIN"
        " INSERT INTO video_name (rowid, name) VALUES (new.id, new.name); END"
    )
    op.execute(
        "CREATE TRIGGER video_name_update AFTER UPDATE OF name ON video BEGIN"
        " INSERT INTO video_name (video_name, rowid, name) VALUES ('delete', old.id, old.name);"
        " INSERT INTO video_name (rowid, name) VALUES (new.id, new.name); END"
    )
    op.execute(
        "CREATE TRIGGER video_name_delete AFTER DELETE ON video BEGIN"
        " INSERT INTO video_name (video_name, rowid, name) VALUES ('delete', old.id, old.name); END"
    )
    # Counts by status; a job marked as deleted is not counted.
    for status in ("pending", "in_progress", "paused", "done", "failed", "cancelled"):
        op.execute(f"INSERT INTO job_count (status, n) VALUES ('{status}', 0)")
    op.execute(
        "CREATE TRIGGER job_count_insert AFTER INSERT ON job WHEN new.deleted_at IS NULL BEGIN"
        " UPDATE job_count SET n = n + 1 WHERE status = new.status; END"
    )
    op.execute(
        "CREATE TRIGGER job_count_delete AFTER DELETE ON job WHEN old.deleted_at IS NULL BEGIN"
        " UPDATE job_count SET n = n - 1 WHERE status = old.status; END"
    )
    op.execute(
        "CREATE TRIGGER job_count_update AFTER UPDATE OF status, deleted_at ON job"
        " WHEN old.status <> new.status OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL) BEGIN"
        " UPDATE job_count SET n = n - 1 WHERE status = old.status AND old.deleted_at IS NULL;"
        " UPDATE job_count SET n = n + 1 WHERE status = new.status AND new.deleted_at IS NULL; END"
    )
