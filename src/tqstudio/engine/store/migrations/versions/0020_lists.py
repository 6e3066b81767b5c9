"""What job lists are filtered and sorted by."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Adds the length of sources, from their facts, and the indexes."""
    unknown = sa.text("0")
    op.add_column("video", sa.Column("length_ms", sa.BigInteger(), nullable=False, server_default=unknown))
    sqlite = op.get_bind().dialect.name == "sqlite"
    length = "json_extract(facts, '$.duration_s')" if sqlite else "(facts::json->>'duration_s')::float"
    op.execute(f"UPDATE video SET length_ms = round(1000 * coalesce({length}, 0)) WHERE facts IS NOT NULL")
    op.drop_index("ix_video_search", "video")
    op.create_index("ix_video_search", "video", ["id", "folder_id", "name_lower", "size", "length_ms"])
    op.create_index("ix_video_by_name", "video", ["name_lower", "id"])
    op.create_index("ix_video_by_size", "video", ["size", "id"])
    op.create_index("ix_video_by_length", "video", ["length_ms", "id"])
    op.drop_index("ix_job_origin", "job")
    columns = ["id", "kind", "owner", "profile", "error_code", "created_at"]
    op.create_index("ix_job_origin", "job", columns)
