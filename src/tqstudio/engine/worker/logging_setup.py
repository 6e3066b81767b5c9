"""A worker's own log lines: one per event, on stderr, which the supervisor sends to a file.

They name no root.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict

from tqstudio import log_redaction
from tqstudio.home import current_home
from tqstudio.log_redaction import Folder, Roots

_roots = Roots()


def configure(worker: str) -> None:
    """Let this process write lines that name the worker, a mistake that ends it among them."""

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
            relative,  # type: ignore[list-item]  # what the renderer made is text
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    sys.excepthook = lambda *error: structlog.get_logger().critical("the worker died", exc_info=error)
    set_roots()


def set_roots(*folders: Folder) -> Roots:
    """The roots from now on: these folders, the home and the program's own; for the log of an attempt too."""
    global _roots
    _roots = Roots(current_home().root, *folders) | log_redaction.of_program()
    return _roots
