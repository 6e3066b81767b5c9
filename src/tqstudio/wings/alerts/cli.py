"""`alert list|test`: the alerts that events cause."""

from __future__ import annotations

from typing import Annotated

from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.protocol import calls

HEADS = ("DUE", "CHANNEL", "KIND", "STATE", "TRIES", "ALERT")
Columns = Annotated[str | None, options.columns(HEADS)]
_TEST_S = 700.0
"""Longer than the supervisor waits for a channel."""


def list_alerts(columns: Columns = None, as_json: JsonFlag = False) -> int:
    """List the newest alerts: sent, waiting with the error of the last try, or given up."""
    alerts = client().send(calls.alerts())["alerts"]
    if as_json:
        printing.out_json({"alerts": alerts})
        return 0
    printing.table(
        HEADS,
        [
            (
                printing.clock(alert["due_at"]),
                alert["channel"],
                alert["kind"],
                alert["state"],
                str(alert["tries"]),
                " – ".join(filter(None, (alert["text"], alert["error"]))),
            )
            for alert in alerts
        ],
        elastic=(5,),
        columns=columns,
    )
    return 0


def alert_test(as_json: JsonFlag = False) -> int:
    """Send a test alert to every channel; prints how each received it."""
    channels = client().send(calls.alert_test(), timeout_s=_TEST_S)["channels"]
    if as_json:
        printing.out_json({"channels": channels})
    for channel in channels if not as_json else ():
        printing.out(f"{channel['channel']}: {channel['error'] or 'accepted'}")
    return int(any(channel["error"] for channel in channels))
