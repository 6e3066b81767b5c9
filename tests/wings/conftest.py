"""Fixtures of the tests of wings: those of the engine's, and of whole studios."""

from __future__ import annotations

from e2e.conftest import (
    clip,
    copy,
    database,
    ffmpeg,
    fleet,
    held,
    make_studio,
    on_postgresql,
    one_for_all,
    shared,
    studio,
    terminal,
)
from engine.conftest import desk, home, opened, settings, standing

# fmt: off
__all__ = [
    "clip", "copy", "database", "desk", "ffmpeg", "fleet", "held", "home", "make_studio", "on_postgresql",
    "one_for_all", "opened", "settings", "shared", "standing", "studio", "terminal",
]
