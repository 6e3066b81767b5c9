"""Where the supervisor's log lines go: its file in the home, and the terminal it was started from.

A thread of its own writes them. A line that the event loop wrote itself would hold up every worker while the
disk does not answer, or the terminal is stopped.

What becomes of jobs is not told here: that is the history's (`tqstudio events`).
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import logging.handlers
import sys
import time
from queue import SimpleQueue
from typing import Any

import structlog

from tqstudio.home import Home

MAX_LOG_BYTES = 10_000_000
KEPT_LOGS = 3
_GATHER_S = 0.1
"""How long a line waits for others: to wake the thread costs more than to write it."""


def configure(home: Home) -> None:
    """One line per event, key=value; the file is rotated at 10 MB. What waits is written at the end."""
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(
            home.supervisor_log, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8", delay=True
        )
    ]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
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
    atexit.register(writer.stop)


class _Writer(logging.handlers.QueueListener):
    def __init__(self, lines: SimpleQueue[Any], *handlers: logging.Handler) -> None:
        super().__init__(lines, *handlers)
        self._lines = lines

    def dequeue(self, block: bool) -> Any:
        is_first = self._lines.empty()
        line = self._lines.get(block)
        if is_first:
            time.sleep(_GATHER_S)
        return line


def _is_no_cut_stream(record: logging.LogRecord) -> bool:
    """Streams that nobody reads any more are cut at the end; that is no error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
