"""Opens the files of a ladder beneath its output, without following links."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tqstudio.engine.files import dir_fd, durable
from tqstudio.ladder_files import MASTER_NAME, OWNER_NAME

TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".m3u8": "application/vnd.apple.mpegurl",
        ".mp4": "video/mp4",
        ".m4s": "video/iso.segment",
        ".vtt": "text/vtt; charset=utf-8",
        ".json": "application/json",
        ".jpg": "image/jpeg",
    }
)
"""The files that players read, by their suffix; others are not served."""
MEDIA = (".m4s", ".mp4")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_OWNER = re.compile(rb"[0-9a-f-]+ ([0-9]+)\s*")


def owner_of(folder: Path) -> int | None:
    """Return the number of the video whose published ladder is in an open folder; None without one.

    The file names the studio that published it too, which is not compared: no call gives the id of ours.

    Raises:
        OSError: of the file system.
    """
    try:
        found = _OWNER.fullmatch(durable.read(folder / OWNER_NAME))
    except FileNotFoundError:
        return None
    return int(found[1]) if found and os.path.lexists(folder / MASTER_NAME) else None


def open_file(output: Path, slug: str, video: int, name: str) -> tuple[int, os.stat_result]:
    """Open a file of the ladder of a video; the caller closes it.

    Args:
        name: its path below the ladder's folder, of a name from TYPES.

    Raises:
        OSError: there is no such regular file, something on the way is a link, or it is another video's.
    """
    *folders, last = parts = name.split("/")
    if not all(map(_NAME.fullmatch, parts)) or os.path.splitext(last)[1] not in TYPES:
        raise FileNotFoundError(name)
    with dir_fd.hold(output, *slug.split("/")) as ladder:
        if owner_of(ladder) != video:
            raise FileNotFoundError(name)
        with dir_fd.hold(ladder, *folders) as folder:
            file = os.open(folder / last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise FileNotFoundError(name)
    return file, found
