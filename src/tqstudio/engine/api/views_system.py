"""Converts rows of workers, gates and drop folders to the messages of the API."""

from __future__ import annotations

from collections.abc import Mapping

from tqstudio.engine.api.views import fill, iso, iso_time
from tqstudio.engine.gates.decide import Waits
from tqstudio.engine.live.running_jobs import Heartbeat, LiveJob
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.engine.store.machine.workers import WorkerRow
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import GateKind, worker_status
from tqstudio.paths import data, encode
from tqstudio.protocol.answers import ErrorView, FolderView, GateView, SkippedFile, WorkerView
from tqstudio.units import size


def worker_view(
    row: WorkerRow,
    beat: Heartbeat | None,
    live: LiveJob | None,
    *,
    silent_s: float,
    offline_s: float,
    note: str | None,
) -> WorkerView:
    heard = max(row.last_heartbeat_at or 0, beat.at if beat else 0) or None
    alive = row.instance is not None or row.registered_at is None
    sound = row.quarantine_reason is None
    shown = note
    if not sound and note is None:
        advice = f"check their logs, then: tqstudio worker enable {row.name}"
        shown = f"in quarantine: {row.quarantine_reason}; {advice}"
    status = worker_status(
        enabled=row.enabled and sound,
        draining=row.draining,
        beat_age_s=(0.0 if row.registered_at is None else silent_s) if alive and note is None else None,
        offline_s=offline_s,
        registered=row.registered_at is not None,
        busy=live is not None,
    )
    return fill(
        WorkerView,
        row,
        status=status.value,
        enabled=row.enabled and sound and (live is not None or not row.draining),
        draining=row.draining and live is not None,
        last_heartbeat_at=iso(heard),
        job=live.token.job if live else None,
        step=live.step if live else None,
        speed=live.speed if live else None,
        cpu_percent=beat.cpu_percent if beat else None,
        memory_bytes=beat.memory_bytes if beat else None,
        note=shown,
        quarantine=row.quarantine_reason,
    )


_GATE_HINTS: Mapping[GateKind, str] = {
    GateKind.USER: "resume the queue with: tqstudio queue resume",
    GateKind.DISK: "check that disk; the queue resumes automatically",
    GateKind.BACKPRESSURE: "nothing to do: the queue resumes when the load is lower",
}


def gate_view(row: GateRow, waits: Waits | None = None, *, of_home: bool = False) -> GateView:
    """Convert a gate.

    Args:
        waits: what a disk gate waits for; None for a database that cannot be written for another reason.
        of_home: space is short in the home, not for a single job.
    """
    code = None
    if row.kind is GateKind.DISK:
        code = (ErrorCode.DATABASE_UNWRITABLE if waits is None else waits.code).value
    view: GateView = {
        "kind": row.kind.value,
        "code": code,
        "reason": row.reason,
        "since": iso_time(row.since),
        "hint": _GATE_HINTS[row.kind],
    }
    if waits is None:
        return view
    or_pause = "" if of_home else ", or pause the job that waits for it"
    if waits.of_files:
        view["reason"] = waits.why
        view["hint"] = "remove files there, because no inodes are left; the queue resumes automatically"
    elif waits.hint:
        view["hint"] = waits.hint
    else:
        view["path"], view["path_b64"] = data(waits.path), encode(waits.path)
        view["free"], view["needed"] = waits.free, waits.needed
        view["hint"] = f"free some space there{or_pause}; the queue resumes automatically"
        if 0 < waits.total < waits.needed:
            ways = "" if of_home else f"lower disk_reserve_bytes{or_pause}, or "
            view["hint"] = f"the disk has only {size(waits.total)} in total: {ways}choose a larger one"
    return view


def folder_view(
    row: FolderRow,
    *,
    default_settle_s: float,
    watch: str,
    settling: int,
    checking: int,
    skipped: tuple[tuple[str, tuple[str, str, str]], ...],
    problem: ErrorView | None,
    ended: tuple[int, int],
) -> FolderView:
    listed: list[SkippedFile] = [
        {"name": name, "code": code, "reason": reason, "hint": hint} for name, (code, reason, hint) in skipped
    ]
    return fill(
        FolderView,
        row,
        watch=watch,
        settle_s=default_settle_s if row.settle_s is None else row.settle_s,
        done_dir_b64=None,
        autorestart=row.autorestart.limit,
        autorestart_delay_s=row.autorestart.delay_s,
        settling=settling,
        checking=checking,
        skipped=listed,
        done_today=ended[0],
        failed_today=ended[1],
        problem=problem,
    )
