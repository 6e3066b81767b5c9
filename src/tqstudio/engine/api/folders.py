"""Endpoints of drop folders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from functools import partial
from typing import Any

from fastapi import APIRouter

from tqstudio import path_checks
from tqstudio.engine.admission import output_template
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices
from tqstudio.engine.api.views import fill
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.files.mounts import is_within, shows_the_system
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import NO_AUTORESTART
from tqstudio.paths import data, decode, display, encode, normal
from tqstudio.protocol.answers import ErrorView, FolderPreview, FolderView, SkippedFile
from tqstudio.protocol.requests import FolderChange, FolderRequest

router = APIRouter(route_class=BoundedRoute)
PREVIEW_S = 2.0
"""Time after which a preview shows what it has found."""


@router.get("/folders")
async def listing(services: TheServices) -> dict[str, list[FolderView]]:
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    rows = await services.db.read(folders.listing)
    ended = await services.db.read(folders.ended_since, int(midnight * MICROSECOND))
    return {"folders": [_view(services, row, ended.get(row.id, (0, 0))) for row in rows]}


def _view(services: Services, row: FolderRow, ended: tuple[int, int] = (0, 0)) -> FolderView:
    state = services.intake.states().get(row.id)
    skipped: list[SkippedFile] = [
        {"name": name, "code": code, "reason": reason, "hint": hint}
        for name, (code, reason, hint) in (state.skipped if state else ())
    ]
    return fill(
        FolderView,
        row,
        output_root=services.home.bucket_url(row.output_root) or data(row.output_root),
        output_root_b64=encode(row.output_root),
        watch=state.watch if state else row.watch,
        settle_s=services.settings.settle_s if row.settle_s is None else row.settle_s,
        done_dir_b64=None,
        autorestart=row.autorestart.limit,
        autorestart_delay_s=row.autorestart.delay_s,
        max_attempts=row.max_attempts or services.settings.max_attempts,
        max_crashes=row.max_crashes or services.settings.max_crashes,
        settling=state.settling if state else 0,
        checking=state.checking if state else 0,
        skipped=skipped,
        done_today=ended[0],
        failed_today=ended[1],
        problem=problem_of(services, row),
    )


def problem_of(services: Services, row: FolderRow) -> ErrorView | None:
    """Why a folder does not take its files as it should; None without a problem."""
    state = services.intake.states().get(row.id)
    found = services.volumes.source_problem(row.path) if row.enabled else None
    if found is None and state is not None:
        found = state.problem
    if found is None:
        return None
    code, message, hint = found
    return {"code": code, "message": message, "hint": hint}


@router.post("/folders")
async def add(services: TheServices, request: FolderRequest) -> FolderView:
    path = _absolute(request.path_b64)
    output = await _output(services, request.output_b64, path)
    await _require_new(services, path)
    done_dir = _done_dir(request.after_done, request.done_dir_b64)
    await _require_apart(services, None, path, output, request.after_done, done_dir)
    output_template.check(request.template)
    profile = services.admission.profile(request.profile)
    values = request.model_dump(exclude={"path_b64", "output_b64", "done_dir_b64"})
    values |= {"path": path, "output_root": output, "profile": profile.name, "done_dir": done_dir}
    values |= {"recursive": int(request.recursive), "autorestart_limit": values.pop("autorestart")}
    if request.autorestart_delay_s is None:
        values["autorestart_delay_s"] = NO_AUTORESTART.delay_s
    row = await services.db.write(lambda db: folders.add(db, values, now=now_us()))
    if row is None:
        raise TqError(
            ErrorCode.REFUSED,
            f"{display(path)} is already a drop folder",
            "change it with: tqstudio folder edit",
        )
    await services.reload_folders()
    return _view(services, row)


@router.post("/folders/preview")
async def preview(services: TheServices, request: FolderRequest) -> FolderPreview:
    """Count what a folder holds by these rules, as the intake would take it; nothing is changed."""
    path = _absolute(request.path_b64)
    rules = request.model_dump(include={"watch", "recursive", "priority", "audio"})
    row = FolderRow(
        **rules | {"id": 0, "path": path, "profile": "", "enabled": True, "settle_s": None},
        output_root=services.admission.output_root(
            decode(request.output_b64) if request.output_b64 else None
        ),
        done_dir=decode(request.done_dir_b64) if request.done_dir_b64 else None,
        patterns=tuple(request.patterns),
        exclude=tuple(request.exclude),
        autorestart=NO_AUTORESTART,
    )
    halt = threading.Event()
    timer = asyncio.get_running_loop().call_later(PREVIEW_S, halt.set)
    try:
        found = await services.bounded_io.run(path, partial(services.intake.preview, row, halt))
    except OSError as error:
        raise TqError(
            ErrorCode.SOURCE_UNREADABLE, str(error.strerror), "check that the disk answers"
        ) from None
    finally:
        timer.cancel()
    lengths = await services.db.read(folders.lengths, found.files)
    known = [length for path in found.files if (length := lengths.get(path))]
    problem = found.problem
    return {
        "videos": len(found.files),
        "length_s": sum(known) / 1000,
        "unknown": len(found.files) - len(known),
        "left_out": found.left_out,
        "reasons": [{"name": name, "reason": reason} for name, reason in found.reasons],
        "complete": not halt.is_set(),
        "problem": problem and {"code": problem.code, "message": problem.message, "hint": problem.hint},
    }


@router.patch("/folders/{folder}")
async def change(services: TheServices, actor: TheActor, folder: int, request: FolderChange) -> FolderView:
    given = request.model_dump(exclude_unset=True)
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    rows = {row.id: row for row in await services.db.read(folders.listing)}
    if folder not in rows:
        raise _unknown(folder)
    if "output_b64" in changes:
        changes["output_root"] = await _output(services, changes.pop("output_b64"), rows[folder].path)
    before, given_dir = rows[folder], changes.pop("done_dir_b64", None)
    after_done = changes.get("after_done", before.after_done)
    keeps_dir = given_dir is None and after_done == before.after_done
    done_dir = before.done_dir if keeps_dir else _done_dir(after_done, given_dir)
    if not keeps_dir:
        changes["done_dir"] = done_dir
    if not keeps_dir or "output_root" in changes:
        output = changes.get("output_root", before.output_root)
        await _require_apart(services, folder, before.path, output, after_done, done_dir)
    if "autorestart" in changes:
        changes["autorestart_limit"] = changes.pop("autorestart")
    if "template" in changes:
        output_template.check(changes["template"])
    if "profile" in changes:
        services.admission.profile(changes["profile"])
    row = await services.db.write(lambda db: folders.change(db, folder, changes, now=now_us(), actor=actor))
    if row is None:
        raise _unknown(folder)
    await services.reload_folders()
    return _view(services, row)


@router.delete("/folders/{folder}")
async def remove(services: TheServices, actor: TheActor, folder: int) -> dict[str, Any]:
    """Stop watching a folder; files, videos and jobs stay."""
    if not await services.db.write(lambda db: folders.remove(db, folder, now=now_us(), actor=actor)):
        raise _unknown(folder)
    await services.reload_folders()
    return {"removed": folder}


async def _output(services: Services, given_b64: str | None, path: bytes) -> bytes:
    """The output of a drop folder.

    Raises:
        TqError: one of the two cannot be used.
    """
    output = services.admission.output_root(decode(given_b64) if given_b64 else None)
    await asyncio.to_thread(_check, path, output)
    await services.check_output(output)
    return output


async def _require_new(services: Services, path: bytes) -> None:
    """Check that a folder is not watched yet.

    Raises:
        TqError: REFUSED if it is, also under another path such as a link.
    """
    for row in await services.db.read(folders.listing):
        is_same = False
        # A folder that is missing or does not answer cannot be compared.
        with contextlib.suppress(OSError):
            is_same = await services.bounded_io.run(row.path, partial(os.path.samefile, row.path, path))
        if is_same:
            name = "" if row.path == path else f", as {display(row.path)}"
            raise TqError(
                ErrorCode.REFUSED,
                f"{display(path)} is already drop folder {row.id}{name}",
                f"change it with: tqstudio folder edit {row.id}",
            )


def _done_dir(after_done: str, given_b64: str | None) -> bytes | None:
    """Where sources are moved to.

    Raises:
        TqError: BAD_REQUEST if that does not fit the rule.
    """
    if (after_done == "move") is (given_b64 is not None):
        return None if given_b64 is None else _absolute(given_b64)
    if given_b64 is None:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "sources cannot be moved: no folder for them is given",
            "give --done-dir DIR",
        )
    raise TqError(
        ErrorCode.BAD_REQUEST,
        f"a folder for sources is given, but the rule is to {after_done} them",
        "give --after-done move, or no --done-dir",
    )


async def _require_apart(
    services: Services,
    folder: int | None,
    path: bytes,
    output: bytes,
    after_done: str,
    done_dir: bytes | None,
) -> None:
    """Check that sources may be moved or deleted, and that moved ones are found by no drop folder or player.

    Args:
        folder: the folder to be changed; None for a new one.

    Raises:
        TqError: why not.
    """
    others = [row for row in await services.db.read(folders.listing) if row.id != folder]

    def check() -> None:
        drop, out = os.path.realpath(path), os.path.realpath(output)
        done = os.path.realpath(done_dir) if done_dir else None
        if after_done != "keep":
            if is_within(out, drop):
                raise _entangled(output, path, "is inside the drop folder")
            if not os.access(path, os.W_OK | os.X_OK):
                raise TqError(ErrorCode.PERMISSION, f"files in {display(path)} may not be moved or deleted")
        if done_dir and done:
            _require_writable(done_dir)
            if is_within(drop, done):
                raise _entangled(done_dir, path, "contains the drop folder")
            if is_within(done, out):
                raise _entangled(done_dir, output, "is inside the output")
        for row in others:
            place, target = os.path.realpath(row.path), os.path.realpath(row.output_root)
            if done_dir and done and (is_within(done, place) or is_within(done, target)):
                raise _entangled(done_dir, row.path, "is inside the drop folder or output of")
            if row.done_dir and (real := os.path.realpath(row.done_dir)):
                if is_within(drop, real):
                    raise _entangled(path, row.path, "would get the done sources of")
                if is_within(real, out):
                    raise _entangled(output, row.path, "contains the done sources of")

    await asyncio.to_thread(check)


def _require_writable(done_dir: bytes) -> None:
    shown = display(done_dir)
    if not path_checks.is_folder(done_dir):
        raise TqError(ErrorCode.SOURCE_MISSING, f"{shown} is not a folder", "create it, or check the path")
    if not os.access(done_dir, os.W_OK | os.X_OK):
        raise TqError(ErrorCode.PERMISSION, f"{shown} may not be written to")


def _entangled(one: bytes, other: bytes, how: str) -> TqError:
    return TqError(
        ErrorCode.REFUSED,
        f"{display(one)} {how} {display(other)}",
        "choose folders that do not contain each other",
    )


def _absolute(text: str) -> bytes:
    path = decode(text)
    if not path.startswith(b"/"):
        raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is not an absolute path")
    return normal(path)


def _check(path: bytes, output: bytes) -> None:
    shown = display(path)
    if not path_checks.is_folder(path):
        code = ErrorCode.UNSUPPORTED if path_checks.is_there(path) else ErrorCode.SOURCE_MISSING
        raise TqError(code, f"{shown} is not a folder", "create it, or check the path")
    if shows_the_system(path):
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"{shown} is on a virtual file system of the kernel, which stores no files",
            "choose a folder on a disk",
        )
    if os.path.realpath(path) == b"/":
        # With all of a machine's videos queued, `--after-done delete` would even delete them.
        raise TqError(
            ErrorCode.REFUSED,
            "/ has all files of this machine",
            "choose the folder that videos are dropped into",
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise TqError(ErrorCode.PERMISSION, f"{shown} may not be read")
    if os.path.realpath(path) == os.path.realpath(output):
        raise TqError(
            ErrorCode.REFUSED,
            f"{shown} cannot be both drop folder and output",
            "choose another --output, or ladders would be queued as sources",
        )


def _unknown(folder: int) -> TqError:
    return TqError(
        ErrorCode.NOT_FOUND, f"there is no drop folder {folder}", "list folders with: tqstudio folder list"
    )
