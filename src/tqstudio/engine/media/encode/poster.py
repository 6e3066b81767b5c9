"""Stores the poster durably, and detects one that a power cut truncated."""

from __future__ import annotations

import os
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.media.plan.file_names import POSTER_NAME
from tqstudio.errors import ErrorCode, TqError

_END_OF_JPEG = b"\xff\xd9"


def take_poster(directory: Path, scratch: Path) -> Path:
    """Move the poster of an ended run to the scratch directory; without one raise OUTPUT_EMPTY."""
    poster = directory / POSTER_NAME
    if not poster.exists() or not poster.stat().st_size:
        # After a seek beyond the last frame, ffmpeg exits with 0 and writes nothing.
        raise TqError(ErrorCode.OUTPUT_EMPTY, "the poster is empty")
    return poster.replace(scratch / POSTER_NAME)


def store_poster(scratch: Path, target: Path) -> Path:
    """Move a poster durably to the place where later attempts find it."""
    durable.sync(scratch)
    kept = scratch.replace(target)
    durable.sync_folder(target.parent)
    return kept


def is_poster_complete(path: Path) -> bool:
    """Whether the file exists and ends with the JPEG end marker."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_END_OF_JPEG), os.SEEK_END)
            return file.read() == _END_OF_JPEG
    except OSError:
        return False  # missing, or shorter than the marker
