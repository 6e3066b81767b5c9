"""The poster of a video as a file: kept durably, and told from one that a power cut tore."""

from __future__ import annotations

import os
from pathlib import Path

from tqstudio.engine.files import durable

_END_OF_JPEG = b"\xff\xd9"


def keep(made: Path, place: Path) -> Path:
    """Move a poster to where later attempts look for it, durably.

    Raises:
        OSError: as of the file system.
    """
    durable.sync(made)
    kept = made.replace(place)
    durable.sync_folder(place.parent)
    return kept


def is_whole(path: Path) -> bool:
    """Whether a picture is there, to its end."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_END_OF_JPEG), os.SEEK_END)
            return file.read() == _END_OF_JPEG
    except OSError:
        return False  # shorter than its end, or not there
