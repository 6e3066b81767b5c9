"""`job list`, `show`, `log` and `command`."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tqstudio import units
from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import FilterLine, JobIds, JsonFlag, listed
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.protocol.filters import SORTS, Term, parse, sort_of
from tqstudio.words import format as fmt
from tqstudio.words import sentences
from tqstudio.words.symbols import job_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tqstudio.protocol.answers import AttemptView, GateView, JobDetail, JobRow, RenditionView

PAGE = 200
FOLLOW_S = 0.5
Sort = Annotated[
    str, typer.Option("--sort", metavar="name|-name", help=f"Sort by {', '.join(SORTS)}; - turns round.")
]
HEADS = (
    *("ID", "STATE", "DONE", "QUALITIES", "LEFT", "WORKER", "VIDEO"),
    *("PRIORITY", "PROFILE", "KIND", "OWNER", "CODE", "ADDED", "ENDED"),
)
_KNOWN_CHARACTERS = 2_000
"""So much of a log is found again in its end, which may have moved on."""

JobId = Annotated[int, typer.Argument(metavar="ID", help="Job number.", show_default=False)]
AttemptNumber = Annotated[
    int | None,
    typer.Option("--attempt", min=1, metavar="N", help="Number of the attempt; default: the newest."),
]


def _terms(
    status: list[str] | None,
    folder: str | None,
    kind: str | None,
    owner: str | None,
    warning: str | None,
    batch: str | None,
) -> list[Term]:
    """The options of a list as terms of a filter."""
    shorthands = {
        "state": listed(status),
        "folder": [folder] if folder else [],
        "kind": listed([kind or ""]),
        "owner": [owner] if owner else [],
        "warning": listed([warning or ""]),
        "batch": [batch] if batch else [],
    }
    return [Term(word, tuple(values)) for word, values in shorthands.items() if values]


def list_jobs(
    line: FilterLine = "",
    status: Annotated[
        list[str] | None,
        typer.Option("--status", "-s", metavar="STATUS", help="Only these statuses, such as pending,failed."),
    ] = None,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="Only names that contain these words.")
    ] = "",
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="ID", help="Only jobs of this batch.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--folder", metavar="ID|NAME", help="Only jobs of this drop folder.")
    ] = None,
    kind: Annotated[
        Literal["new", "changed", "retranscode"] | None,
        typer.Option("--kind", metavar="new|changed|retranscode", help="Only jobs of this kind."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="Only jobs of folder, user, upload, or a token's name."),
    ] = None,
    warning: Annotated[
        str | None, typer.Option("--warning", metavar="any|CODE", help="Only jobs with any or this warning.")
    ] = None,
    sort: Sort = "order",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Maximal number of jobs.")] = 50,
    deleted: Annotated[bool, typer.Option("--deleted", help="Show deleted jobs instead.")] = False,
    columns: Annotated[str | None, options.columns(HEADS)] = None,
    as_json: JsonFlag = False,
) -> int:
    """List jobs, running ones first."""
    at = client()
    rows: list[JobRow] = []
    after: str | None = None
    total: int | None = None
    terms = _terms(status, folder, kind, owner, warning, batch)
    terms += [Term("text", (word,)) for word in text.split()]
    terms += [Term("state", ("deleted",))] if deleted else []
    wanted = parse(" ".join([line, *(term.line() for term in terms)])).line()
    while len(rows) < limit:
        page = at.send(
            calls.jobs(wanted, sort=sort_of(sort), limit=min(PAGE, limit - len(rows)), after=after)
        )
        rows += page["jobs"]
        after, total = page["after"], page["total"]
        if after is None:
            total = len(rows)
            break
    if as_json:
        printing.out_json({"jobs": rows, "total": total})
        return 0
    if not rows:
        printing.out("no matching jobs" if wanted else "the queue is empty")
        return 0
    printing.table(
        HEADS,
        map(_line, rows),
        right=(0, 2, 4, 7),
        elastic=(3, 6),
        statuses=[row["status"] for row in rows],
        columns=columns or "id,state,done,qualities,left,worker,video",
    )
    if after is not None:
        shown = f"the first {len(rows)} jobs" if total is None else f"{len(rows)} of {total} jobs"
        printing.err(f"{shown} shown; use --limit for more")
    return 0


def _line(row: JobRow) -> tuple[str, ...]:
    remark = printing.warning_sign(row["warnings"])
    if error := sentences.error_now(row):
        remark = error["code"]
    elif row["word"] == "changed":
        remark = ", ".join(filter(None, (sentences.changed_names(row), remark)))
    remark = ", ".join(filter(None, (sentences.viewable_words(row), remark)))
    return (
        str(row["id"]),
        f"{printing.job_sign(row)} {job_word(row)}",
        _progress(row),
        " ".join(map(_quality, (r for r in row["renditions"] if r["status"] != "skipped"))),
        fmt.clock_duration(row["eta_s"]),
        row["worker"] or "",
        f"{row['name']}  {remark}".rstrip(),
        *(str(row["priority"]), row["profile"], row["kind"], row["owner"], error["code"] if error else ""),
        *(printing.clock(row["created_at"]), printing.clock(row["completed_at"])),
    )


def _quality(rendition: RenditionView) -> str:
    """Its name, marked if it failed, as optional qualities of a done job can."""
    failed = rendition["status"] == "failed"
    return f"{printing.sign('failed')}{rendition['name']}" if failed else rendition["name"]


def _progress(row: JobRow) -> str:
    """Progress, also of a waiting or failed job; empty if nothing is done, or everything."""
    begun = row["status"] == "in_progress" or (row["progress"] > 0 and row["status"] != "done")
    return fmt.percent(row["progress"]) if begun else ""


def show(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Show all details of jobs."""
    at = client()
    details = [at.send(calls.job(job_id)) for job_id in ids]
    if as_json:
        printing.out_json(details[0] if len(details) == 1 else {"jobs": details})
        return 0
    gates = at.send(calls.status())["gates"] if any(job["status"] == "pending" for job in details) else []
    for number, detail in enumerate(details):
        if number:
            printing.out()
        _print(detail, gates)
    return 0


def _print(job: JobDetail, gates: Sequence[GateView]) -> None:
    video = job["video_view"]
    state = printing.painted(f"{printing.job_sign(job)} {job['word']}", job["status"])
    title = printing.bold(f"job {job['id']}")
    files = video["generation"]["files"] if video["generation"] else []
    printing.out(f"{title}  {state}  {job['name']}")
    fields = [
        ("deleted", _deleted(job)),
        ("source", sentences.source_path(video)),
        ("video", f"{video['id']} ({video['status']}), {_source(job)}"),
        ("problem", in_one_line(**job["source"]["problem"]) if job["source"]["problem"] else ""),
        ("profile", f"{job['profile']}, priority {job['priority']}, {job['kind']}"),
        ("changed", ", ".join(sentences.changes(job))),
        ("owner", sentences.owner_words(job["owner"])),
        ("metadata", _metadata(job)),
        ("failures", sentences.failure_words(job)),
        ("worker", sentences.worker_words(job) or job["processed_by"] or ""),
        ("created", printing.clock(job["created_at"])),
        ("started", printing.clock(job["started_at"])),
        ("ended", printing.clock(job["completed_at"])),
        *(("waits", sentences.gate_words(gate)) for gate in gates if job["word"] in ("pending", "changed")),
        ("next try", f"in {fmt.short_duration(job['retry_in_s'])}" if job["retry_in_s"] is not None else ""),
        ("restarts", sentences.autorestart_words(job["autorestart"], datetime.now(UTC).astimezone())),
        ("progress", _progress(job)),
        ("step", job["step"] or "" if job["status"] == "in_progress" else ""),
        ("idle", f"no progress for {fmt.short_duration(job['idle_s'])}" if job["idle_s"] is not None else ""),
        ("left", fmt.clock_duration(job["eta_s"])),
        ("took", sentences.took_words(job)),
        ("plays", f"{job['viewable']} only, so far" if sentences.viewable_words(job) else ""),
        ("master", readable(video["generation"]["master"]) if video["generation"] else ""),
        *(("file", readable(each["path"])) for each in files),
        *sentences.delivery_words(video["delivery"]),
    ]
    for name, value in fields:
        if value:
            printing.out(_field(name, value))
    if error := job["error"]:
        name, look = ("error", "failed") if sentences.error_now(job) else ("last error", "")
        printing.out(printing.painted(_field(name, f"{error['code']}: {error['message']}"), look))
        printing.out(_field("", f"{printing.ARROW} {error['hint']}"))
        if error["log"]:
            printing.out(_field("", f"log: {error['log']}"))
    for warning in job["warnings"]:
        text = _field("warning", f"{warning['code']}: {readable(warning['text'])}")
        printing.out(printing.painted(text, "warning"))
    _print_renditions(job["renditions"])
    _print_attempts(job["attempts_log"])
    if job["attempts_log"]:
        printing.out(
            f"{printing.ARROW} tqstudio job log {job['id']} prints the log, --attempt N an earlier one"
        )
    if job["events"]:
        printing.out()
        rows = [
            (
                printing.clock(e["at"]),
                sentences.event_sentence(e),
                sentences.status_word(e["target"] or ""),
                sentences.actor_words(e),
                e["code"] or "",
                e["detail"] or "",
            )
            for e in reversed(job["events"])
        ]
        printing.table(("AT", "EVENT", "NOW", "BY", "CODE", "DETAIL"), rows, elastic=(5,))


def _deleted(job: JobDetail) -> str:
    at = printing.clock(job["deleted_at"])
    return f"{at}; restore it with: tqstudio job undelete {job['id']}" if at else ""


def _field(name: str, value: str) -> str:
    return f"  {name:10} {value}"


def _metadata(job: JobDetail) -> str:
    """The job's metadata in the form of `--meta`; values that are not text as JSON."""
    noted = job["metadata"].items()
    return ", ".join(
        readable(f"{key}={value if isinstance(value, str) else json.dumps(value)}") for key, value in noted
    )


def _source(job: JobDetail) -> str:
    source = job["source"]
    parts = [units.size(source["size"])]
    if source["width"] and source["height"]:
        parts.append(f"{source['width']}×{source['height']}")
    if source["width"] == 0:
        parts.append("sound")
    if source["fps"]:
        parts.append(f"{source['fps']:g} fps")
    if source["duration_s"]:
        parts.append(fmt.clock_duration(source["duration_s"]))
    return ", ".join(parts)


def _print_renditions(renditions: list[RenditionView]) -> None:
    if not renditions:
        return
    printing.out()
    printing.table(
        ("QUALITY", "STATE", "DONE", "SEGMENTS", "TOOK", "SPEED", "ENCODER", "REMARK"),
        [
            (
                r["name"],
                sentences.status_word(r["status"]),
                fmt.percent(r["progress"]),
                "" if r["segments_total"] is None else f"{r['segments_done']}/{r['segments_total']}",
                fmt.lasted(r["started_at"], r["completed_at"]),
                fmt.speed(r["speed"]),
                r["encoder"] or "",
                r["error"] or r["reason"] or "",
            )
            for r in renditions
        ],
        right=(2, 3, 4, 5),
        elastic=(7,),
    )


def _print_attempts(attempts: list[AttemptView]) -> None:
    if not attempts:
        return
    printing.out()
    printing.table(
        ("#", "WORKER", "BEGAN", "TOOK", "CPU", "MEMORY", "FROM", "OUTCOME", "CODE"),
        [
            (
                str(a["number"]),
                a["worker"],
                printing.clock(a["started_at"]),
                fmt.lasted(a["started_at"], _last_seen(a)),
                fmt.clock_duration(a["cpu_s"]),
                units.size(a["peak_memory_bytes"]),
                _resumed_from(a),
                a["outcome"],
                a["error_code"] or "",
            )
            for a in attempts
        ],
        right=(0, 3, 4, 5),
    )


def _last_seen(attempt: AttemptView) -> str | None:
    """When an attempt ended; for a lost one, its last progress. None while it runs."""
    return attempt["last_progress_at"] if attempt["outcome"] == "lost" else attempt["ended_at"]


def _resumed_from(attempt: AttemptView) -> str:
    """The position from which the attempt resumed; empty until it is known."""
    at_s = attempt["resumed_at_s"]
    return "" if at_s is None else fmt.clock_duration(at_s) if at_s else "the start"


def command(job_id: JobId, attempt: AttemptNumber = None, as_json: JsonFlag = False) -> int:
    """Print the ffmpeg commands of a job; one per line, ready for a shell."""
    from tqstudio import shell_quoting

    detail = client().send(calls.job(job_id))
    wanted = [a for a in detail["attempts_log"] if attempt in (None, a["number"])]
    if not wanted:
        which = "has no attempt yet" if attempt is None else f"has no attempt {attempt}"
        raise TqError(
            ErrorCode.NOT_FOUND, f"job {job_id} {which}", f"see its attempts with: tqstudio job show {job_id}"
        )
    argv = max(wanted, key=lambda a: a["number"])["argv"]
    if as_json:
        printing.out_json({"job": job_id, "argv": argv})
    for command_line in [] if as_json else shell_quoting.script(argv):
        printing.out(command_line)
    if not argv:
        printing.err(f"this attempt of job {job_id} ran no ffmpeg")
    return 0


def log(
    job_id: JobId,
    attempt: AttemptNumber = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the job has ended.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Print the log of an attempt."""
    at = client()
    answer = at.send(calls.job_log(job_id, attempt))
    if as_json:
        printing.out_json(answer)
        return 0
    sys.stdout.write(answer["text"])
    sys.stdout.flush()
    printed, running = answer["text"], follow
    while running:
        time.sleep(FOLLOW_S)
        running = at.send(calls.job(job_id))["status"] == "in_progress"
        text = at.send(calls.job_log(job_id, answer["attempt"]))["text"]
        sys.stdout.write(_added(printed, text))
        sys.stdout.flush()
        printed = text
    return 0


def _added(before: str, now: str) -> str:
    """What was appended to a log, of which both are the end."""
    if now.startswith(before):
        return now[len(before) :]
    known = before[-_KNOWN_CHARACTERS:]
    at = now.rfind(known)
    return now if at < 0 else now[at + len(known) :]
