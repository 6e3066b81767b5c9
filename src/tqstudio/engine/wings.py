"""Lists the wings of a supervisor: what it can do beyond its queue.

A new one is a folder in `tqstudio/wings` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlalchemy import FromClause

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.assembly.wing_calls import Wings
from tqstudio.engine.parts.dormant import Dormant
from tqstudio.engine.store.db import rows, tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind
from tqstudio.wings.after_done.part import AfterDone
from tqstudio.wings.alerts import api as alerts_api
from tqstudio.wings.alerts.part import Alerts
from tqstudio.wings.buckets import api as buckets_api
from tqstudio.wings.buckets.part import Deliveries
from tqstudio.wings.deletion import api as deletion_api
from tqstudio.wings.deletion.part import Deletions
from tqstudio.wings.files import making
from tqstudio.wings.graphics import api as graphics_api
from tqstudio.wings.graphics.pictures import Pictures
from tqstudio.wings.redis.part import RedisPart
from tqstudio.wings.remote import api as remote_api
from tqstudio.wings.remote.received_ladders import ReceivedLadders
from tqstudio.wings.remote.transfers import Transfers
from tqstudio.wings.statistics import api as statistics_api
from tqstudio.wings.uploads import api as uploads_api
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.part import Uploads
from tqstudio.wings.wall import api as wall_api

ROUTERS = (
    remote_api.router,
    deletion_api.router,
    buckets_api.router,
    uploads_api.router,
    uploads_api.fetch_router,
    statistics_api.router,
    alerts_api.router,
    wall_api.router,
    graphics_api.router,
)
"""Their endpoints, which the schema of the API always has."""


def wings_of(s: Services) -> Wings:
    """Make the wings; each starts when a setting, its rows or a request asks for it."""

    def has_rows(table: FromClause) -> Callable[[Connection], bool]:
        return lambda db: rows.is_any(db, table)

    def is_any_alert(db: Connection) -> bool:
        return rows.is_any(db, tables.alert) or rows.is_any(db, tables.alert_position)

    deletions = Deletions(
        s.home, s.settings, s.db, s.running_jobs, s.workspace, s.bounded_io, s.retention, s.ages
    )
    deliveries = Deliveries(s.home, s.settings, s.db, s.bounded_io, s.ages)
    uploaded = Uploads(s.home, s.settings, s.db, s.admission, s.bounded_io, s.ages)
    fetches = Fetches(s.home, s.db, uploaded, s.settings.backoff_max_s)
    alerts = Alerts(s.home, s.settings, s.db, s.uuid, s.volumes.low_soon, s.ages, patient=s.until_idle)
    after_done = AfterDone(s.db, s.bounded_io, s.intake.look_again)
    transfers = Transfers(s.home, s.db, s.running_jobs, s.ranges, s.workspace, s.bounded_io)
    return Wings(
        parts=(
            Dormant(s.db, deletions, has_rows(tables.deletion), (EventKind.VIDEO_DELETED,)),
            Dormant(
                s.db,
                deliveries,
                has_rows(tables.delivery),
                (EventKind.PUBLISHED, EventKind.VIDEO_DELETED, EventKind.VIDEO_UNDELETED),
            ),
            Dormant(s.db, fetches, has_rows(tables.upload)),
            Dormant(s.db, alerts, lambda db: alerts.active or is_any_alert(db)),
            Dormant(
                s.db,
                after_done,
                has_rows(tables.source_removal),
                (EventKind.PUBLISHED, EventKind.FOLDER_CHANGED),
            ),
            Dormant(s.db, uploaded, has_rows(tables.upload)),
            Dormant(s.db, transfers, lambda _: False),
            Dormant(s.db, Pictures(s.ffmpeg, s.bounded_io), lambda _: False),
            Dormant(s.db, RedisPart(s), lambda _: bool(s.settings.redis_url)),
        ),
        check_bucket=deliveries.check,
        require_received=transfers.require_received,
        require_valid=ReceivedLadders(s.home, s.db, s.workspace).require_valid,
        make_files=partial(making.make_files, s.ffmpeg),
        restore_deleted=deletions.restore_on_add,
        undelete=lambda video, actor: deletions.undelete(video, actor=actor),
    )
