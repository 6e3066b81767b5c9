"""Configures the log of a worker: one line per event to stderr, which the supervisor redirects to a file.

Paths are relative to the roots, so that logs contain no private folders.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict

from tqstudio.engine.host import log_redaction
from tqstudio.engine.host.log_redaction import Folder, Roots
from tqstudio.home import current_home

_roots = Roots()


def configure(worker: str) -> None:
    """Configure structlog for this process, including unhandled exceptions."""

    def named(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["worker"] = worker
        return event

    def relative(_logger: object, _method: str, line: str) -> str:
        return _roots.relative(line)

    structlog.configure(
        processors=[
            named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "worker", "event"]),
            relative,  # type: ignore[list-item]  # the renderer returns text
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    sys.excepthook = lambda *error: structlog.get_logger().critical("worker crashed", exc_info=error)
    set_roots()


def set_roots(*folders: Folder) -> Roots:
    """Set the roots to these folders, the home and the program's own, and return them."""
    global _roots
    _roots = Roots(current_home().root, *folders) | log_redaction.of_program()
    return _roots
