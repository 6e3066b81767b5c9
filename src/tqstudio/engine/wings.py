"""Lists the wings of a supervisor: what it can do beyond its queue.

A new one is a folder in `tqstudio/wings` and a line here.
"""

from __future__ import annotations

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.assembly.wings import Wings
from tqstudio.engine.parts.part import Parts
from tqstudio.wings.after_done.part import AfterDone
from tqstudio.wings.alerts import api as alerts
from tqstudio.wings.alerts.part import Alerts
from tqstudio.wings.buckets import api as buckets
from tqstudio.wings.buckets.part import Deliveries
from tqstudio.wings.deletion import api as deletion
from tqstudio.wings.deletion.part import Deletions
from tqstudio.wings.redis.part import RedisPart
from tqstudio.wings.remote import api as remote
from tqstudio.wings.remote.received_ladders import ReceivedLadders
from tqstudio.wings.remote.transfers import Transfers
from tqstudio.wings.statistics import api as statistics
from tqstudio.wings.uploads import api as uploads
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.part import Uploads

ROUTERS = (
    remote.router,
    deletion.router,
    buckets.router,
    uploads.router,
    uploads.fetch_router,
    statistics.router,
    alerts.router,
)
"""Their endpoints, which the schema of the API always has."""


def wings_of(s: Services) -> Wings:
    """Make the wings."""
    transfers = Transfers(s.home, s.db, s.running_jobs, s.ranges, s.workspace, s.bounded_io)
    uploaded = Uploads(s.home, s.settings, s.db, s.admission, s.bounded_io, s.ages)
    deletions = Deletions(
        s.home, s.settings, s.db, s.running_jobs, s.workspace, s.bounded_io, s.retention, s.ages
    )
    fetches = Fetches(s.home, s.db, uploaded, s.settings.backoff_max_s)
    parts = Parts(
        deletions,
        Deliveries(s.home, s.settings, s.db, s.bounded_io, s.ages),
        fetches,
        Alerts(s.home, s.settings, s.db, s.uuid, s.volumes.low_soon, s.ages, patient=s.until_idle),
        AfterDone(s.db, s.bounded_io, s.intake.look_again),
        transfers,
        uploaded,
        RedisPart(s, fetches),
    )
    return Wings(
        parts,
        require_received=transfers.require_received,
        require_valid=ReceivedLadders(s.home, s.db, s.workspace).require_valid,
        restore_deleted=deletions.restore_on_add,
    )
