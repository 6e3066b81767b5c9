"""Runs the supervisor's process: locks the home, opens the database, and leads the queue or stands by."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path

import structlog
import uvloop

from tqstudio import path_checks
from tqstudio.config import SECRETS, Settings, removed_settings
from tqstudio.engine.host import failpoints, home_lock, logging_setup
from tqstudio.engine.host.parent_death import PARENT
from tqstudio.engine.host.service_manager import ServiceManager
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.process import require_confinement
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
from tqstudio.engine.store.db import backup, opening, schema
from tqstudio.engine.store.db.connection import Address, address_of, shown
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import standbys
from tqstudio.engine.supervisor import Replaced, Supervisor
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

_CUT_OFF = (ErrorCode.ALREADY_RUNNING, ErrorCode.DATABASE_UNREACHABLE, ErrorCode.DATABASE_UNWRITABLE)
"""After which a supervisor stands by: another one leads, or may."""
_NOTHING = ShutdownSummary(0, 0, 0)
"""What a supervisor leaves that has only stood by."""


def run(home: Home, settings: Settings, *, until_idle: bool = False) -> ShutdownSummary:
    """Run the supervisor of a home until it is asked to shut down; return a summary of the remaining jobs.

    Args:
        until_idle: shut down, too, when no command uses it and no job is open.

    Raises:
        TqError: ALREADY_RUNNING, BAD_CONFIG, FFMPEG_MISSING, PERMISSION, DATABASE_VERSION, DATABASE_DAMAGED,
            DATABASE_BUSY, OUTPUT_IN_USE, DISK_LOW, IO_ERROR or SYSTEM_LIMIT before anything was started;
            NOT_FOUND when the home was lost while it ran.
    """
    try:
        return _run(home, settings, until_idle=until_idle)
    except OSError as error:
        # Of sockets and locks there is no name.
        path = error.filename if isinstance(error.filename, str | bytes) else home.root
        raise path_checks.refused(path, error, "used") from error


def _run(home: Home, settings: Settings, *, until_idle: bool) -> ShutdownSummary:
    """As `run`, but it raises the OSErrors of the system as they are."""
    failpoints.arm()
    manager = ServiceManager()
    for name in [name for name in os.environ if name.lower().removeprefix("tqstudio_") in SECRETS]:
        # They were read, and no child process needs them.
        del os.environ[name]
    # Files created from here on, by workers too, are not writable for other users, unless outputs are shared.
    inherited = os.umask(0o022)
    os.umask(inherited if settings.allow_shared_output else inherited | 0o022)
    address = address_of(home, settings)
    if isinstance(address, Path):
        opening.require_local(address)
    home.create()
    held = home_lock.HomeLock(home)
    held.acquire()
    log = logging_setup.configure(home, settings.log_level)
    try:
        # One that was killed while it stood by has left it; commands would look for a leader that is gone.
        home.leader.unlink(missing_ok=True)
        found = binary.locate(settings.ffmpeg or None)
        if settings.require_confinement:
            require_confinement(found.path)
        logging_setup.know(os.path.dirname(found.path))
        if settings.profile not in (known := profiles.available(home.profiles)):
            raise TqError(
                ErrorCode.BAD_CONFIG,
                f"the setting profile names {settings.profile!r}, and there is no such profile",
                f"set it to one of {', '.join(sorted(known))}",
            )
        for key in removed_settings(home):
            hint = "remove it; hours and max_load hold the queue"
            structlog.get_logger().warning(
                "a setting of an earlier version has no effect", setting=key, hint=hint
            )
        if isinstance(address, Path):
            if settings.standby:
                raise TqError(
                    ErrorCode.BAD_CONFIG,
                    "standby needs a queue on PostgreSQL, which several supervisors can reach",
                    "set database, or leave standby out",
                )
            if repaired := opening.require_intact(home):
                structlog.get_logger().warning(
                    "the indexes and counts of the database were rebuilt", found=repaired.text
                )
            _migrate_apart(home)
        has_led = False
        while True:
            if settings.standby and not isinstance(address, Path):
                # It brings the dialect of PostgreSQL with it, which others do not need.
                from tqstudio.wings.standby.standby import Standby

                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    standby = Standby(home, settings, address, held, manager, is_patient=has_led)
                    if not runner.run(standby.wait()):
                        return _NOTHING
            has_led = True
            with contextlib.suppress(Replaced):
                return _lead(home, settings, Database(address), found, held, manager, until_idle=until_idle)
    except OSError as error:
        structlog.get_logger().error("the system refused what a supervisor needs", exc_info=error)
        raise
    finally:
        # Before the lock is released and another supervisor may write to the same file.
        log.stop()
        held.release()


def _lead(
    home: Home,
    settings: Settings,
    db: Database,
    found: FFmpeg,
    held: home_lock.HomeLock,
    manager: ServiceManager,
    *,
    until_idle: bool,
) -> ShutdownSummary:
    """Run the queue until the supervisor is asked to shut down.

    Raises:
        Replaced: another supervisor leads the queue, and this one stands by.
        TqError: as `run`.
    """
    stands_by_after = _CUT_OFF if settings.standby else ()
    supervisor: Supervisor | None = None
    try:
        db.open()
    except TqError as error:
        if error.code in stands_by_after:
            structlog.get_logger().warning("cannot lead", code=error.code.value, error=error.message)
            raise Replaced from None
        raise
    except OSError:
        raise
    except Exception as error:
        structlog.get_logger().error("the database cannot be opened", exc_info=error)
        raise _unmigrated(home, db.address, error) from error
    # Imported modules stay for good; scanning them for garbage would delay requests.
    gc.freeze()
    try:
        if settings.standby and not db.read_now(standbys.may_lead, home.id()):
            # The connection of the one that leads broke, and it may get the lock back.
            raise Replaced
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            supervisor = Supervisor(home, settings, db, found, held, manager, until_idle=until_idle)
            try:
                return runner.run(supervisor.main())
            except OSError as error:
                if error.errno in path_checks.CODES:
                    raise
                # No path is wrong, as it may be at a start: the service is restarted after it.
                raise RuntimeError(f"the supervisor ended by an error of the system: {error}") from error
            finally:
                # As with the home, the next supervisor must find them unlocked.
                supervisor.services.workspace.unlock()
    except TqError as error:
        is_asked_to_end = supervisor is not None and supervisor.services.shutdown.is_asked_for
        if error.code in stands_by_after and not is_asked_to_end:
            structlog.get_logger().warning("cannot lead", code=error.code.value, error=error.message)
            raise Replaced from None
        raise
    finally:
        db.close()


def _unmigrated(home: Home, address: Address, error: Exception) -> TqError:
    """The error for a database on which a migration fails, as its tables are not those of its version."""
    why = str(getattr(error, "orig", error)).strip().partition("\n")[0]
    return TqError(
        ErrorCode.DATABASE_DAMAGED,
        f"the database {shown(address)} cannot be migrated to schema {schema.SCHEMA_VERSION}: {why}",
        f"it was not changed; restore a backup (docs/backup.md), and report this with {home.supervisor_log}",
    )


def _migrate_apart(home: Home) -> None:
    """Upgrade an old schema in a separate process: alembic would keep 20 MB of memory."""
    if not schema.is_old(home.database):
        return
    backup.before_migration(home.database, schema.SCHEMA_VERSION)
    # An error there happens again, and is reported, when the database is opened.
    argv = [sys.executable, "-P", "-m", "tqstudio.engine.store.db.schema", str(home.database)]
    environment = os.environ | {PARENT: str(os.getpid())}
    subprocess.run(argv, stderr=subprocess.DEVNULL, check=False, env=environment)
