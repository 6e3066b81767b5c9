"""Checks a file of a whole video by its boxes, without its samples, and hides its subtitles until chosen."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path

from tqstudio.engine.media.segments import boxes


def damage(path: Path, pictures: Collection[int], sounds: Collection[int]) -> str:
    """What is wrong with a file; empty if nothing is.

    Args:
        pictures: how many its video may have: as the qualities of its ladder.
        sounds: how many samples each of its tracks of sound may have.

    Raises:
        OSError: from the file system.
    """
    try:
        tracks = _read(path)
    except (boxes.BoxError, struct.error, IndexError) as error:
        return f"{path.name} is damaged: {error}"
    for track in tracks:
        wanted = {"vide": pictures, "soun": sounds}.get(track.kind, (track.samples,))
        if track.samples not in wanted:
            return f"{path.name} has {track.samples} samples instead of {', '.join(map(str, sorted(wanted)))}"
    return "" if any(track.kind in ("vide", "soun") for track in tracks) else f"{path.name} has no track"


def hide_subtitles(path: Path) -> None:
    """Let players show no subtitles unless a person chooses them: ffmpeg always enables the first of them.

    Raises:
        OSError: from the file system.
        BoxError: the file is damaged.
    """
    tracks = _read(path)
    with path.open("r+b") as file:
        for track in tracks:
            if track.kind == "sbtl":
                file.seek(track.flags_at)
                flags = file.read(1)[0]
                file.seek(track.flags_at)
                file.write(bytes([flags & ~1]))


def _read(path: Path) -> list[boxes.WholeTrack]:
    with path.open("rb") as file:
        return boxes.whole_tracks(file, file.seek(0, 2))
