"""Lists the wings of a supervisor: what it can do beyond its queue.

A new one is a folder in `tqstudio/wings` and a line here.
"""

from __future__ import annotations

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.parts.part import Parts
from tqstudio.wings.after_done.part import AfterDone
from tqstudio.wings.alerts import api as alerts
from tqstudio.wings.alerts.part import Alerts
from tqstudio.wings.buckets import api as buckets
from tqstudio.wings.buckets.part import Deliveries
from tqstudio.wings.uploads import api as uploads
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.part import Uploads

ROUTERS = (alerts.router, buckets.router, uploads.router, uploads.fetch_router)
"""Their endpoints, which the schema of the API always has."""


def wings_of(s: Services) -> Parts:
    """Make the wings, in the order in which they start."""
    uploaded = Uploads(s.home, s.settings, s.db, s.admission, s.bounded_io, s.ages)
    return Parts(
        Deliveries(s.home, s.settings, s.db, s.bounded_io, s.ages),
        Fetches(s.home, s.db, uploaded, s.settings.backoff_max_s),
        Alerts(s.home, s.settings, s.db, s.uuid, s.volumes.low_soon, s.ages, patient=s.until_idle),
        AfterDone(s.db, s.bounded_io, s.intake.look_again),
        uploaded,
    )
