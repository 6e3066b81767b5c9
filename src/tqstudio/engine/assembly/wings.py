"""Defines what the core calls of the wings, which it does not know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tqstudio.engine.parts.part import Parts
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.protocol.requests import Manifest

CheckResult = Callable[[LeaseToken, Manifest], Awaitable[None]]
"""Raises `TqError` if a result must not be published."""


@dataclass(frozen=True)
class Wings:
    """The wings of a supervisor."""

    parts: Parts
    """In the order in which they start."""
    require_received: CheckResult
    """Checks that all of a result has arrived, before its worker is answered."""
    require_valid: CheckResult
    """Checks what has arrived, before it is published."""
    restore_deleted: Callable[[int, str], Awaitable[None]]
    """Brings back a deleted video whose source an actor adds again."""
