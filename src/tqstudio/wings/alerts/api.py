"""Endpoints of alerts: the newest ones, and a test of the channels."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import the
from tqstudio.engine.api.views import fill
from tqstudio.protocol import answers
from tqstudio.wings.alerts.part import Alerts
from tqstudio.wings.alerts.store import AlertRow

router = APIRouter(route_class=BoundedRoute)

TheAlerts = Annotated[Alerts, the(Alerts)]


@router.get("/alerts")
async def alert_list(alerts: TheAlerts) -> dict[str, list[answers.AlertView]]:
    """The newest alerts, newest first."""
    return {"alerts": [_alert_view(row) for row in await alerts.newest()]}


@router.post("/alerts/test")
async def alert_test(alerts: TheAlerts) -> dict[str, list[answers.AlertTest]]:
    """Send a test alert to every channel but commands."""
    results = await alerts.test()
    return {"channels": [{"channel": name, "error": error} for name, error in results]}


def _alert_view(row: AlertRow) -> answers.AlertView:
    content = json.loads(row.payload)
    state: Literal["waiting", "sent", "failed"] = "waiting"
    if row.next_at is None:
        state = "failed" if row.sent_at is None else "sent"
    text = content.get("text") or f"the command for job {content.get('TQSTUDIO_JOB')}"
    return fill(answers.AlertView, row, text=text, state=state)
