"""Where the supervisor's log lines go: its file in the home, and the terminal it was started from."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import sys

import structlog

from tqstudio.home import Home

MAX_LOG_BYTES = 10_000_000
KEPT_LOGS = 3


def configure(home: Home) -> None:
    """One line per event, key=value; the file is rotated at 10 MB."""
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(
            home.supervisor_log, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8", delay=True
        )
    ]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers, force=True)
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


def _is_no_cut_stream(record: logging.LogRecord) -> bool:
    """Streams that nobody reads any more are cut at the end; that is no error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
