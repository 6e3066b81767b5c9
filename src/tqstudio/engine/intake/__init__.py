"""Watches drop folders: finds the videos in them and waits until each is complete.

`Intake` has one `FolderWatcher` per folder. `hints` collects what watchdog reports, `scan` reads the disk,
`rules` filters names, `settling` and `open_files` detect complete files, and `file_states` remembers the
result for each file.
"""

from __future__ import annotations

from tqstudio.engine.intake.folder_watcher import FolderState
from tqstudio.engine.intake.intake import Intake

__all__ = ["FolderState", "Intake"]
