"""Describes why a folder cannot be watched as it should, or why a file in it is left out."""

from __future__ import annotations

import errno
import stat
from collections.abc import Mapping

from tqstudio.errors import ErrorCode, Problem, TqError
from tqstudio.paths import display

SLOW_S = 60.0
"""How long a scan of a folder may take before it is reported as a problem."""


class NamedOtherwise(TqError):
    """A file is the source of a video under another path too, so it is not queued under this one."""

    def __init__(self, path: bytes) -> None:
        super().__init__(ErrorCode.DUPLICATE, f"it is also {display(path)}", "nothing to do: it is one video")
        self.path = path


_IN_ITS_PLACE = "remove it, or put a video in its place"
ODD_KINDS: Mapping[int, Problem] = {
    stat.S_IFLNK: Problem(
        ErrorCode.UNSUPPORTED.value,
        "a symbolic link; only regular files are queued",
        "move or hard-link the file into the folder",
    ),
    stat.S_IFIFO: Problem(ErrorCode.UNSUPPORTED.value, "a FIFO, not a file", _IN_ITS_PLACE),
    stat.S_IFSOCK: Problem(ErrorCode.UNSUPPORTED.value, "a socket, not a file", _IN_ITS_PLACE),
    stat.S_IFCHR: Problem(ErrorCode.UNSUPPORTED.value, "a device, not a file", _IN_ITS_PLACE),
    stat.S_IFBLK: Problem(ErrorCode.UNSUPPORTED.value, "a device, not a file", _IN_ITS_PLACE),
}
"""By the type of file, as from `stat.S_IFMT`."""
CLOSED_DIRECTORY: Problem = Problem(
    ErrorCode.PERMISSION.value,
    "the user that runs the supervisor may not read this sub-folder",
    "give that user access to it; it is then scanned automatically",
)
NOT_A_VIDEO: Problem = Problem(
    ErrorCode.NO_MEDIA.value,
    "not a video by its name",
    "rename it, or give the folder a pattern such as *.dat",
)
SOUND: Problem = Problem(
    ErrorCode.NO_MEDIA.value,
    "sound without video, which this folder leaves out",
    "take it: tqstudio folder edit FOLDER --audio encode, or tqstudio add FILE",
)
BIN: Problem = Problem(
    ErrorCode.NO_MEDIA.value,
    "a bin, previews or unfinished downloads by its name, as are all folders of this name",
    "if it has videos to take, rename it, or set include_temporary_files = true in config.toml",
)
GIF: Problem = Problem(
    ErrorCode.NO_MEDIA.value,
    "a GIF, which is taken only when it is asked for",
    "if it moves, take it: tqstudio add FILE, or give the folder the pattern *.gif",
)
EMPTY: Problem = Problem(
    ErrorCode.SOURCE_EMPTY.value,
    "empty",
    "copy it again; it is queued as soon as it has content",
)
NOT_QUEUED: Problem = Problem(
    ErrorCode.INTERNAL.value,
    "could not be queued; retried soon",
    "see logs/supervisor.log if this persists",
)


def no_answer(folder: bytes) -> Problem:
    return Problem(
        str(ErrorCode.SOURCE_UNREADABLE),
        f"scanning {display(folder)} takes more than {SLOW_S:.0f} s",
        "check that its file system answers; other folders are not affected",
    )


def no_room(code: int, folder: bytes) -> Problem:
    """Describe the errno for which inotify cannot watch a folder."""
    shown = display(folder)
    if code in (errno.EMFILE, errno.ENFILE):
        what, setting = "inotify instances", "fs.inotify.max_user_instances=1024"
    elif code == errno.ENOSPC:
        what, setting = "inotify watches", "fs.inotify.max_user_watches=1048576"
    else:
        return Problem(
            str(ErrorCode.UNSUPPORTED),
            f"inotify is not available; {shown} is scanned every few seconds instead",
            "nothing to do, or set the folder's watch mode to polling",
        )
    return Problem(
        str(ErrorCode.BAD_CONFIG),
        f"the system's limit of {what} is reached; {shown} is scanned every few seconds instead",
        f"raise it: sudo sysctl {setting}; or set the folder's watch mode to polling",
    )
