"""`doctor`: checks the installation, with or without a supervisor."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import path_checks, units
from tqstudio.cli.session.supervisor_session import client
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import JsonFlag
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.paths import is_bucket
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from tqstudio.config import Settings
    from tqstudio.home import Home
    from tqstudio.protocol.answers import CheckLevel, CheckView

OLDEST_SQLITE = (3, 35, 0)
"""The first version with UPDATE … RETURNING, which claims use."""
CLOCK_TOLERANCE_S = 2.0
_WORDS = {"ok": ("ok  ", "done"), "warn": ("warn", "paused"), "fail": ("FAIL", "failed")}
"""Printed word, and the status whose colour it has, for each level."""


def doctor(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="First rebuild the database's indexes and counts; needs a stopped supervisor."
        ),
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Print what an issue asks for: versions, checks, settings and logs, without names of films.",
        ),
    ] = False,
    with_names: Annotated[
        bool, typer.Option("--with-names", help="Leave names of films and folders in the report.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Check the installation: missing, damaged and orphaned parts.

    Checks the home and its database, ffmpeg and its encoders, disks, limits and the clock.
    """
    if report and as_json:
        raise TqError(ErrorCode.BAD_REQUEST, "--json and --report exclude each other", "choose one of them")
    if with_names and not report:
        raise TqError(ErrorCode.BAD_REQUEST, "--with-names is for reports", "add --report")
    if repair:
        _repair(current_home())
    checks = {check["name"]: check for check in _local(current_home())}
    # The supervisor's results take precedence: its environment is what counts.
    checks |= {check["name"]: check for check in _of_supervisor(current_home())}
    ok = all(check["ok"] for check in checks.values())
    if report:
        _report(current_home(), checks.values(), with_names=with_names)
        return 0
    if as_json:
        printing.out_json({"ok": ok, "checks": list(checks.values())})
        return 0 if ok else 1
    width = max(map(len, checks))
    for check in checks.values():
        word, status = _WORDS[check["level"]]
        printing.out(f"{printing.painted(word, status)}  {check['name']:{width}}  {check['detail']}")
        if check["hint"]:
            printing.out(f"      {printing.ARROW} {check['hint']}")
    return 0 if ok else 1


def _report(home: Home, checks: Iterable[CheckView], *, with_names: bool) -> None:
    from tqstudio.config import load_settings
    from tqstudio.engine.monitoring import report

    try:
        settings = load_settings(home)
    except TqError:
        settings = None
    for section in report.report(home, settings, checks, with_names=with_names):
        printing.out(section)


def _repair(home: Home) -> None:
    from tqstudio.config import load_settings
    from tqstudio.engine.host import home_lock
    from tqstudio.engine.store.db import opening
    from tqstudio.engine.store.db.connection import address_of, shown

    address = address_of(home, load_settings(home))
    if not path_checks.is_there(home.root) or (isinstance(address, Path) and opening.is_empty(address)):
        raise TqError(ErrorCode.NOT_FOUND, f"there is no database {shown(address)}", "nothing to repair")
    held = home_lock.HomeLock(home)
    held.acquire()
    try:
        opening.repair(address, consent=True)
    finally:
        held.release()
    what = "indexes and counts" if isinstance(address, Path) else "counts"
    printing.err(f"rebuilt the {what} of {shown(address)} from its tables")


def _of_supervisor(home: Home) -> list[CheckView]:
    from tqstudio.protocol import launch

    try:
        if launch.join(home) is not None:
            return client().send(calls.doctor())["checks"]
    except TqError as error:
        return [_failed("supervisor", error)]
    return [_check("supervisor", True, "not running; start one with: tqstudio up")]


def _check(name: str, ok: bool, detail: str, hint: str = "") -> CheckView:
    level: CheckLevel = "ok" if ok else "fail"
    return {"name": name, "ok": ok, "level": level, "detail": detail, "hint": "" if ok else hint}


def _failed(name: str, error: TqError) -> CheckView:
    return _check(name, False, f"{error.code}: {error.message}", error.hint)


def _local(home: Home) -> Iterator[CheckView]:
    from tqstudio import __version__
    from tqstudio.config import load_settings
    from tqstudio.engine.monitoring import doctor

    version = ".".join(str(part) for part in sys.version_info[:3])
    yield _check("version", True, f"tqstudio {__version__} on Python {version}")
    yield _home_is_writable(home)
    try:
        settings = load_settings(home)
    except TqError as error:
        yield _failed("settings", error)
        if error.code is ErrorCode.PERMISSION:
            yield doctor.permissions(home)
        return
    yield _check("settings", True, ", ".join(_set_by(home)) or "all defaults")
    yield from _profiles(home, settings)
    try:
        tempfile.gettempdir()
    except OSError:
        yield _failed("temporary files", path_checks.no_temporary_folder())
    else:
        yield from _ffmpeg(settings)
    yield _disk(home, settings)
    yield _sqlite()
    yield _clock(home)
    yield from doctor.examine(home, settings)


def _set_by(home: Home) -> Iterator[str]:
    """Name the settings file and the variables that set anything."""
    from tqstudio.config import Settings

    if home.config.is_file():
        yield str(home.config)
    names = (f"TQSTUDIO_{name.upper()}" for name in Settings.model_fields)
    yield from sorted(name for name in names if name in os.environ)


def _home_is_writable(home: Home) -> CheckView:
    hint = "make it writable, or choose another home with --home or TQSTUDIO_HOME"
    try:
        is_there = path_checks.is_there(home.root)
    except TqError as error:
        return _check("home", False, f"{error.code}: {error.message}", hint)
    if not is_there:
        above = _existing(str(home.root))
        detail = f"{home.root} does not exist yet"
        return _check("home", os.access(above, os.W_OK | os.X_OK), f"{detail}; {above} exists", hint)
    try:
        with tempfile.NamedTemporaryFile(dir=home.root):
            pass
    except OSError as error:
        return _check("home", False, f"{home.root} cannot be written: {error.strerror}", hint)
    return _check("home", True, str(home.root))


def _existing(path: str) -> str:
    """The nearest existing parent folder."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _profiles(home: Home, settings: Settings) -> Iterator[CheckView]:
    from tqstudio.engine.media.plan.profile_catalogue import catalogue

    try:
        found = catalogue(home.profiles, settings.profile)
    except TqError as refused:
        yield _failed("profiles", refused)
        return
    good = [profile for profile in found if not profile["error"]]
    names = [f"{p['name']} (default)" if p["default"] else p["name"] for p in good]
    default = any(profile["default"] for profile in found)
    hint = (
        f"set profile to one of these in {home.config}, or put {settings.profile}.toml into {home.profiles}"
    )
    missing = "" if default else f"; the default profile {settings.profile!r} is not among them"
    yield _check("profiles", default, ", ".join(names) + missing, hint)
    for profile in found:
        if error := profile["error"]:
            detail = f"{error['code']}: {error['message']}"
            yield _check(f"profile {profile['name']}", False, detail, error["hint"])


def _ffmpeg(settings: Settings) -> Iterator[CheckView]:
    from tqstudio.engine.media.ffmpeg.binary import locate
    from tqstudio.engine.media.ffmpeg.hardware import discover
    from tqstudio.engine.media.ffmpeg.trial_runs import encoding_error, has_vmaf
    from tqstudio.engine.monitoring import gpu_access

    try:
        found = locate(settings.ffmpeg or None)
    except TqError as error:
        yield _failed("ffmpeg", error)
        return
    yield _check("ffmpeg", True, f"{found.version} ({found.path})")
    yield _confinement(found.path)
    is_there = has_vmaf(found)
    yield {
        "name": "vmaf",
        "ok": True,
        "level": "ok" if is_there else "warn",
        "detail": "libvmaf" if is_there else "no libvmaf: video.quality is not sought, nor quality measured",
        "hint": ""
        if is_there
        else "set TQSTUDIO_FFMPEG to an ffmpeg with libvmaf, as imageio-ffmpeg has one",
    }
    cpu = not encoding_error(found, "libx264")
    failed: dict[str, TqError] = {}
    devices, access = [], []
    if settings.uses_gpus:
        devices = discover(found, decode=settings.gpu_decode, on_failed=failed.setdefault)
        access = list(gpu_access.problems([device.node for device in devices]))
    on_gpus = [f"{device.encoders} on {device.label}" for device in devices if device.encoders]
    detail = ", ".join([*(["libx264"] if cpu else []), *on_gpus]) or "none works"
    yield _check("encoders", cpu, detail, "install an ffmpeg with libx264, or set TQSTUDIO_FFMPEG to one")
    for device in devices:
        codecs = device.decodes or ("none" if settings.gpu_decode else "not tested, gpu_decode is off")
        place = f"{device.label} ({device.node})"
        if device.encoders:
            failed.pop(place, None)
        detail = f"{place}: encodes with {device.encoders or 'the CPU'}"
        yield _check(device.name, True, f"{detail}; decodes and scales: {codecs}")
    hint = "install a driver that this ffmpeg can use, or set TQSTUDIO_FFMPEG to one for this driver"
    for place, why in failed.items():
        step = "see gpu access below" if gpu_access.explains(access, place) else hint
        yield {"name": f"gpu {place}", "ok": True, "level": "warn", "detail": why.message, "hint": step}
    yield from access


def _confinement(ffmpeg: str) -> CheckView:
    """What keeps ffmpeg from files and networks; without it encodes work all the same."""
    from tqstudio.engine.media.ffmpeg import confine
    from tqstudio.engine.media.ffmpeg.process import can_be_confined, confinement_lacks

    why = confinement_lacks(ffmpeg)
    if not why:
        return _check("confinement", True, "files, sockets and other processes")
    detail = f"{'partly' if can_be_confined(ffmpeg) and confine.is_program(ffmpeg) else 'none'}: {why}"
    hint = "a hostile file may reach what you can; require_confinement refuses to encode so"
    return {"name": "confinement", "ok": True, "level": "warn", "detail": detail, "hint": hint}


def _disk(home: Home, settings: Settings) -> CheckView:
    import shutil

    folder = str(home.buckets) if is_bucket(settings.output) else settings.output or str(home.output)
    usage = shutil.disk_usage(_existing(os.path.abspath(folder)))
    reserve = settings.disk_reserve_bytes
    detail = f"{units.size(usage.free)} free at {folder}, of which {units.size(reserve)} are reserved"
    hint = "free some space, choose another --output, or lower disk_reserve_bytes"
    if usage.total < reserve:
        hint = f"the disk has only {units.size(usage.total)}: lower disk_reserve_bytes, or use another disk"
    fits = usage.free > reserve
    return _check("disk", fits, detail if fits else f"{ErrorCode.DISK_LOW}: {detail}", hint)


def _sqlite() -> CheckView:
    import sqlite3

    version = sqlite3.sqlite_version_info
    hint = f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer"
    return _check("sqlite", version >= OLDEST_SQLITE, sqlite3.sqlite_version, hint)


def _clock(home: Home) -> CheckView:
    """Compare the clock with the file system's time: leases and settling use both."""
    try:
        with tempfile.NamedTemporaryFile(dir=_existing(str(home.root))) as probe:
            apart = abs(os.fstat(probe.fileno()).st_mtime - time.time())
    except OSError:
        return _check("clock", True, "not compared: nothing can be written there")
    detail = f"differs by {apart:.1f} s from the file system's time"
    return _check("clock", apart <= CLOCK_TOLERANCE_S, detail, "synchronise both clocks by NTP")
