"""Names the files of a published ladder, and recognises a ladder by them.

    OUT/<slug>/.owner, master.m3u8, manifest.mpd
    OUT/<slug>/v<N>/<quality>/index.m3u8, iframes.m3u8, init.mp4, seg_00000.m4s …
    OUT/<slug>/v<N>/<slug>.mp4, <slug>.m4a, first-quality-only.txt

A ladder may be anywhere, because outputs change and people copy files. So only the names decide.
"""

from __future__ import annotations

import os
from collections.abc import Collection

MASTER_NAME = "master.m3u8"
MPD_NAME = "manifest.mpd"
"""Name of the DASH manifest, which is written if the profile asks for it."""
OWNER_NAME = ".owner"
"""Names the store and video that own the folder, because others may use the same name below one output."""
BUCKET_NAME = ".bucket"
"""In a generation whose segments are only in a bucket: the address there."""
FIRST_NAME = "first-quality-only.txt"
"""In a generation that has one quality, published before the others."""
INIT_NAME = "init.mp4"
PLAYLIST_NAME = "index.m3u8"
IFRAMES_NAME = "iframes.m3u8"

_MARKS = (os.fsencode(OWNER_NAME), os.fsencode(MASTER_NAME))
_INIT, _PLAYLIST, _SEGMENT_SUFFIX = os.fsencode(INIT_NAME), os.fsencode(PLAYLIST_NAME), b".m4s"


def is_whole_file(name: str) -> bool:
    """Whether a file of a generation, by its path below it, holds a whole video to take away."""
    return "/" not in name and name.endswith((".mp4", ".m4a"))


def is_ladder(names: Collection[bytes]) -> bool:
    """Whether a folder with these entries is the published ladder of a video."""
    return all(mark in names for mark in _MARKS)


def is_ladder_at(folder: bytes) -> bool:
    """Like `is_ladder`, without a listing; False for a folder that cannot be read."""
    return all(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS)


def is_head_of_segments(name: bytes, beside: Collection[bytes]) -> bool:
    """Whether this entry of a folder is the init section of segments rather than a video.

    Decided by its name and by a playlist or segment next to it, which a video of that name does not have;
    other programs use the same layout.
    """
    return name == _INIT and (_PLAYLIST in beside or any(other.endswith(_SEGMENT_SUFFIX) for other in beside))


def is_head_at(path: bytes) -> bool:
    """Like `is_head_of_segments`; lists the folder only if the name matches.

    Raises:
        OSError: the folder cannot be listed.
    """
    folder, name = os.path.split(path)
    return name == _INIT and is_head_of_segments(name, os.listdir(folder))
