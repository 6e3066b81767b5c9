"""Configures the supervisor's logging: to a file in the home, and to the terminal it was started from.

A thread writes the lines: the event loop would block while the disk does not answer or the terminal is
stopped. Paths are made relative, because logs are shared with bug reports. The history of jobs is not logged
here; see `tqstudio events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import shutil
import sys
import time
import warnings
from queue import SimpleQueue
from typing import Any, cast

import structlog

from tqstudio.engine.host import log_redaction
from tqstudio.engine.host.log_redaction import Folder, Roots
from tqstudio.home import Home
from tqstudio.lifecycle import LogLevel

MAX_LOG_BYTES = 10_000_000
KEPT_LOGS = 3
_GATHER_S = 0.1
"""How long the thread waits to collect lines, because waking it for each costs more."""

_roots = Roots()


def know(*folders: Folder) -> None:
    """Redact these folders in all following lines."""
    global _roots
    _roots |= Roots(*folders)


def roots() -> Roots:
    """The folders that are redacted."""
    return _roots


def configure(home: Home, level: LogLevel = "info") -> logging.handlers.QueueListener:
    """Log one line of key=value pairs per event; the file is rotated at 10 MB. `stop` flushes it."""
    global _roots
    _roots = Roots(home.root) | log_redaction.of_program()
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(
            home.supervisor_log, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8", delay=True
        )
    ]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
    for handler in handlers:
        handler.setFormatter(_Redacting())
    lines: SimpleQueue[Any] = SimpleQueue()
    writer = _Writer(lines, *handlers)
    logging.basicConfig(
        level=level.upper(),
        format="%(message)s",
        handlers=[logging.handlers.QueueHandler(lines)],
        force=True,
    )
    # Fields that no line shows need not be determined.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the standard library's documentation advises
    # The scheduler logs every run of every task, and each that a database without an answer holds up.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # It calls it an error that one of its threads ends just after an event, as with each scan.
    logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)
    # It warns where it begins to watch a directory twice, as in a tree created at once; nothing is lost.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="watchdog.observers.inotify")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_not_cancelled)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # Looking up the logger's name is a third of the cost of a line.
        cache_logger_on_first_use=True,
    )
    writer.start()
    return writer


def set_level(level: LogLevel) -> LogLevel:
    """Change the least severe level that is logged; returns the former one."""
    root = logging.getLogger()
    before = cast(LogLevel, logging.getLevelName(root.level).lower())
    root.setLevel(level.upper())
    return before


def is_debug() -> bool:
    """Whether debug lines are logged. Cheaper than to build a line that is not."""
    return logging.getLogger().level <= logging.DEBUG


def cut_long(home: Home) -> None:
    """Cut the logs that other processes append to; the lines so far are kept once, as `NAME.1`."""
    for log in (*home.logs.glob("worker-*.log"), home.lent_workers_log, home.probe_log, home.alerts_log):
        with contextlib.suppress(OSError):
            if log.stat().st_size > MAX_LOG_BYTES:
                shutil.copyfile(log, log.with_name(f"{log.name}.1"))
                os.truncate(log, 0)


class _Redacting(logging.Formatter):
    """Redacts every line, those of libraries too."""

    def format(self, record: logging.LogRecord) -> str:
        return _roots.relative(super().format(record))


class _Writer(logging.handlers.QueueListener):
    def __init__(self, lines: SimpleQueue[Any], *handlers: logging.Handler) -> None:
        super().__init__(lines, *handlers)
        self._lines = lines

    def dequeue(self, block: bool) -> Any:
        if self._lines.empty():
            time.sleep(_GATHER_S)
        return self._lines.get(block)


def _is_not_cancelled(record: logging.LogRecord) -> bool:
    """Filter out cancelled event streams at shutdown, which are no errors."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
