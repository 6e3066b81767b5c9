"""What people are told when a folder cannot be watched as it should, or a file not be queued."""

from __future__ import annotations

import errno

from tqstudio.errors import ErrorCode
from tqstudio.sources import display

SLOW_S = 60.0
"""How long one look through a folder may take before it is called a problem."""

EMPTY = "empty; taken as soon as something is in it"
NOT_QUEUED = "could not be queued, which is tried again soon; see the supervisor's log"


def no_answer(folder: bytes) -> tuple[str, str, str]:
    return (
        str(ErrorCode.SOURCE_UNREADABLE),
        f"looking through {display(folder)} takes more than {SLOW_S:.0f} s",
        "check that its file system answers; the other folders go on",
    )


def no_room(code: int, folder: bytes) -> tuple[str, str, str]:
    """inotify cannot watch the folder, for the reason that this errno gives."""
    shown = display(folder)
    if code in (errno.EMFILE, errno.ENFILE):
        what, setting = "inotify instances", "fs.inotify.max_user_instances=1024"
    elif code == errno.ENOSPC:
        what, setting = "inotify watches", "fs.inotify.max_user_watches=1048576"
    else:
        return (
            str(ErrorCode.UNSUPPORTED),
            f"inotify is not to be had here; {shown} is looked through every few seconds instead",
            "nothing, or set the folder's watch mode to polling",
        )
    return (
        str(ErrorCode.BAD_CONFIG),
        f"the system's limit of {what} is reached; {shown} is looked through every few seconds instead",
        f"raise it: sudo sysctl {setting}; or set the folder's watch mode to polling",
    )
