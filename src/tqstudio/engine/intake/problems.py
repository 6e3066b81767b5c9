"""Describes why a folder cannot be watched as it should, or why a file in it is left out."""

from __future__ import annotations

import errno
import stat
from collections.abc import Mapping

from tqstudio.errors import ErrorCode, Problem
from tqstudio.paths import display

SLOW_S = 60.0
"""How long one look through a folder may take before it is called a problem."""

_IN_ITS_PLACE = "remove it, or put a video in its place"
ODD_KINDS: Mapping[int, Problem] = {
    stat.S_IFLNK: Problem(
        ErrorCode.UNSUPPORTED.value,
        "a symbolic link; only files themselves are taken",
        "move or hard-link the file into the folder",
    ),
    stat.S_IFIFO: Problem(ErrorCode.UNSUPPORTED.value, "a FIFO, not a file", _IN_ITS_PLACE),
    stat.S_IFSOCK: Problem(ErrorCode.UNSUPPORTED.value, "a socket, not a file", _IN_ITS_PLACE),
    stat.S_IFCHR: Problem(ErrorCode.UNSUPPORTED.value, "a device, not a file", _IN_ITS_PLACE),
    stat.S_IFBLK: Problem(ErrorCode.UNSUPPORTED.value, "a device, not a file", _IN_ITS_PLACE),
}
"""By the kind of file, as `stat.S_IFMT` has it."""
CLOSED_DIRECTORY: Problem = Problem(
    ErrorCode.PERMISSION.value,
    "this sub-folder may not be read by the user that runs the supervisor",
    "give that user access to it; it is then taken up by itself",
)
NOT_A_VIDEO: Problem = Problem(
    ErrorCode.NO_MEDIA.value,
    "not a video by its name",
    "rename it, or give the folder a pattern such as *.dat",
)
EMPTY: Problem = Problem(
    ErrorCode.SOURCE_EMPTY.value,
    "empty",
    "copy it again; it is taken as soon as something is in it",
)
NOT_QUEUED: Problem = Problem(
    ErrorCode.INTERNAL.value,
    "could not be queued, which is tried again soon",
    "look at logs/supervisor.log if it stays",
)


def no_answer(folder: bytes) -> Problem:
    return Problem(
        str(ErrorCode.SOURCE_UNREADABLE),
        f"looking through {display(folder)} takes more than {SLOW_S:.0f} s",
        "check that its file system answers; the other folders go on",
    )


def no_room(code: int, folder: bytes) -> Problem:
    """inotify cannot watch the folder, for the reason that this errno gives."""
    shown = display(folder)
    if code in (errno.EMFILE, errno.ENFILE):
        what, setting = "inotify instances", "fs.inotify.max_user_instances=1024"
    elif code == errno.ENOSPC:
        what, setting = "inotify watches", "fs.inotify.max_user_watches=1048576"
    else:
        return Problem(
            str(ErrorCode.UNSUPPORTED),
            f"inotify is not to be had here; {shown} is looked through every few seconds instead",
            "nothing, or set the folder's watch mode to polling",
        )
    return Problem(
        str(ErrorCode.BAD_CONFIG),
        f"the system's limit of {what} is reached; {shown} is looked through every few seconds instead",
        f"raise it: sudo sysctl {setting}; or set the folder's watch mode to polling",
    )
