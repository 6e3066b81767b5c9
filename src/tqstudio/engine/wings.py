"""Lists the wings of a supervisor: what it can do beyond its queue.

A new one is a folder in `tqstudio/wings` and a line here.
"""

from __future__ import annotations

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.parts.part import Parts
from tqstudio.wings.alerts import api as alerts_api
from tqstudio.wings.alerts.part import Alerts

ROUTERS = (alerts_api.router,)
"""Their endpoints, which the schema of the API always has."""


def wings_of(s: Services) -> Parts:
    """Make the wings, in the order in which they start."""
    return Parts(
        Alerts(s.home, s.settings, s.db, s.uuid, s.volumes.low_soon, s.ages, patient=s.until_idle),
    )
