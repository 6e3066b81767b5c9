"""`events`: prints the event history, and follows it."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import parse_since
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.words.sentences import actor_words, event_sentence, status_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tqstudio.protocol.answers import EventView
    from tqstudio.protocol.client import Client

PAGE = 200
ATTACH_AGAIN_S = 0.2
COLUMNS = (
    *("seq", "at", "trigger", "job", "video", "worker", "source", "target", "actor", "code", "detail"),
    "video_name",
)


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new events.")] = False,
    job: Annotated[int | None, typer.Option("--job", metavar="ID", help="Only events of this job.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="10m|2h|3d|TIME", help="All events since then.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Number of newest events, without --since.")
    ] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header line.")] = False,
) -> int:
    """Print the event history: every change of every job, with actor and reason."""
    if as_json and as_csv:
        raise TqError(ErrorCode.BAD_REQUEST, "--json and --csv exclude each other", "choose one of them")
    at = client()
    from_then = None if since is None else parse_since(since)
    emit = partial(printing.out_json, indent=None) if as_json else _csv_writer() if as_csv else _line
    # Read first, so that events of the time in between are either printed below or followed.
    seen = at.send(calls.events(limit=1))["last_seq"] if follow else 0
    for event in _stored(at, job, from_then, limit):
        emit(event)
        seen = max(seen, event["seq"])
    if follow:
        _follow(at, seen, job, emit)
    return 0


def _stored(at: Client, job: int | None, since: str | None, limit: int) -> Iterator[EventView]:
    if since is None:
        yield from _newest(at, job, limit)
        return
    after = 0
    while True:
        events = at.send(calls.events(after=after, job_id=job, since=since, limit=PAGE))["events"]
        yield from events
        if len(events) < PAGE:
            return
        after = events[-1]["seq"]


def _newest(at: Client, job: int | None, limit: int) -> Iterator[EventView]:
    """The newest events, oldest first; pages are read backwards from the end."""
    pages: list[list[EventView]] = []
    left, before = limit, None
    while left:
        size = min(left, PAGE)
        page = at.send(calls.events(before=before, job_id=job, limit=size))["events"]
        pages.append(page)
        if len(page) < size:
            break
        left -= size
        before = page[0]["seq"]
    for page in reversed(pages):
        yield from page


def _follow(at: Client, after: int, job: int | None, emit: Callable[[Any], None]) -> None:
    """Emit later events until the supervisor has ended; reconnects if the stream is cut."""
    while True:
        try:
            for message in at.stream(after):
                if message.name == "reset":
                    printing.err("older events were pruned; continuing with the remaining ones")
                    after = min(after, message.data["last"])
                elif message.name == "event":
                    after = message.data["seq"]
                    if job in (None, message.data["job"]):
                        emit(message.data)
        except TqError as error:
            if error.code is not ErrorCode.NO_SUPERVISOR:
                raise
            printing.err("the supervisor has stopped")
            return
        # The supervisor disconnected a reader that was too slow, or is shutting down.
        time.sleep(ATTACH_AGAIN_S)


def _csv_writer() -> Callable[[EventView], None]:
    import csv

    writer = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore")
    writer.writeheader()

    def write(event: EventView) -> None:
        writer.writerow(dict(event))
        sys.stdout.flush()

    return write


def _line(event: EventView) -> None:
    about = f"job {event['job']}" if event["job"] is not None else event["worker"] or ""
    before, now = (status_word(event[key] or "") for key in ("source", "target"))
    change = f"{before} {printing.ARROW} {now}" if now else ""
    more = "  ".join(part for part in (event["video_name"], event["code"], event["detail"]) if part)
    columns = f"{about:9} {event_sentence(event):24} {change:24} {actor_words(event):10}"
    text = f"{printing.clock(event['at'])}  {columns} {more}"
    printing.out(printing.painted(text.rstrip(), event["target"] or ""))
