"""Drop folders: finding the videos in them, and waiting until each is complete.

`Intake` holds the folders, one `FolderIntake` each. `watch` brings hints from inotify, `scan` reads the
disk, `rules` judges names, `settling` and `writers` tell complete files from growing ones, `mounts` tells
where inotify is blind and where no files are kept, `pace` when everything is looked through, `account` what
became of each file.
"""

from __future__ import annotations

from tqstudio.engine.intake.folder_watcher import FolderState
from tqstudio.engine.intake.intake import Intake

__all__ = ["FolderState", "Intake"]
