"""What a published ladder looks like on disk, and how it is told from a person's own videos.

    OUT/<slug>/.owner, master.m3u8
    OUT/<slug>/v<N>/<quality>/index.m3u8, init.mp4, seg_00000.m4s …

A ladder may lie anywhere: outputs change, and people copy. So names alone decide, as a listing gives them.
"""

from __future__ import annotations

import os
from collections.abc import Collection

MASTER_NAME = "master.m3u8"
OWNER_NAME = ".owner"
"""Says whose folder it is: two homes, or a person, may want the same name below one output."""
INIT_NAME = "init.mp4"
PLAYLIST_NAME = "index.m3u8"

_MARKS = (os.fsencode(OWNER_NAME), os.fsencode(MASTER_NAME))
_INIT, _PLAYLIST, _SEGMENT_SUFFIX = os.fsencode(INIT_NAME), os.fsencode(PLAYLIST_NAME), b".m4s"


def is_ladder(names: Collection[bytes]) -> bool:
    """Whether a folder with these entries is the published ladder of a video, with all that is in it."""
    return all(mark in names for mark in _MARKS)


def is_ladder_at(folder: bytes) -> bool:
    """As `is_ladder`, without a listing; a folder that cannot be looked into is none."""
    return all(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS)


def is_head_of_segments(name: bytes, beside: Collection[bytes]) -> bool:
    """Whether this entry of a folder is no video but what its segments begin with.

    Told by its name and its neighbours, since others lay out their ladders likewise: the playlist or a
    segment has to be there. A person's own video of that name has neither.
    """
    return name == _INIT and (_PLAYLIST in beside or any(other.endswith(_SEGMENT_SUFFIX) for other in beside))


def is_head_at(path: bytes) -> bool:
    """As `is_head_of_segments`; the folder is listed only for a file of the one name that matters.

    Raises:
        OSError: the folder cannot be listed.
    """
    folder, name = os.path.split(path)
    return name == _INIT and is_head_of_segments(name, os.listdir(folder))
