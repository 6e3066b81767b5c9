"""Where the supervisor's log lines go: its file in the home, and the terminal it was started from.

A thread of its own writes them. A line that the event loop wrote itself would hold up every worker while the
disk does not answer, or the terminal is stopped. It makes paths relative, too: a log is handed on with
reports, and where its folders lie is nobody's business.

The history of each job is not written here, but where `tqstudio events` reads it.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import sys
import time
from queue import SimpleQueue
from typing import Any

import structlog

from tqstudio import log_redaction
from tqstudio.home import Home
from tqstudio.log_redaction import Folder, Roots

MAX_LOG_BYTES = 10_000_000
KEPT_LOGS = 3
_GATHER_S = 0.1
"""How long the thread rests behind a line: what comes meanwhile is written at once, for it costs less than to
wake it each time."""

_roots = Roots()


def know(*folders: Folder) -> None:
    """Let no line from now on name these folders."""
    global _roots
    _roots |= Roots(*folders)


def configure(home: Home) -> logging.handlers.QueueListener:
    """One line per event, key=value; the file is rotated at 10 MB. The last ones are written by `stop`."""
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
        handler.setFormatter(_Relative())
    lines: SimpleQueue[Any] = SimpleQueue()
    writer = _Writer(lines, *handlers)
    logging.basicConfig(
        level=logging.INFO,
        format="%(message)s",
        handlers=[logging.handlers.QueueHandler(lines)],
        force=True,
    )
    # What no line shows is not looked up for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the standard library's documentation advises
    # The scheduler announces every run of every job; its warnings are enough.
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_no_cut_stream)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # Nothing configures it again; finding the logger's name anew is a third of what a line costs.
        cache_logger_on_first_use=True,
    )
    writer.start()
    return writer


class _Relative(logging.Formatter):
    """Sees every line, those of libraries too."""

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


def _is_no_cut_stream(record: logging.LogRecord) -> bool:
    """Streams that nobody reads any more are cut at the end; that is no error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
