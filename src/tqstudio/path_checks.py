"""Checks of files that report a refused access instead of treating the path as missing; codes of OSErrors.

In a folder that may not be searched, `Path.is_file` and the like raise OSError, and `os.path.isdir` returns
False.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Mapping

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

AnyPath = str | bytes | os.PathLike[str]

AWAY = frozenset(
    (
        *(errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN),
        *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
    )
)
"""A network mount, FUSE file system or drive is no longer served."""

# Only on Linux: a damaged file system, a failing remote one.
_DAMAGED = {getattr(errno, name) for name in ("EUCLEAN", "EREMOTEIO") if hasattr(errno, name)}
FAILING = AWAY | _DAMAGED | {errno.EIO}
"""A disk is unavailable, or cannot read or write."""

LIMITS = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN))
"""No more open files, or no more processes."""

CODES: Mapping[int, ErrorCode] = {
    **dict.fromkeys((*FAILING, errno.EROFS), ErrorCode.IO_ERROR),
    **dict.fromkeys(LIMITS, ErrorCode.SYSTEM_LIMIT),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ErrorCode.DISK_LOW),
    **dict.fromkeys((errno.EACCES, errno.EPERM), ErrorCode.PERMISSION),
    errno.ENOMEM: ErrorCode.OUT_OF_MEMORY,
}
"""The codes of errors that are caused by the machine, not by the file or the program."""
_HINTS = {
    ErrorCode.DISK_LOW: "free some space there, then try again",
    ErrorCode.SYSTEM_LIMIT: "raise its limits (ulimit -n, ulimit -u), then try again",
    ErrorCode.OUT_OF_MEMORY: "end other programs, then try again",
    ErrorCode.PERMISSION: "give this user access to it and its parent folders, or choose another path",
}
_OF_PATHS = dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR), "check the path")


def mode(path: AnyPath) -> int | None:
    """Return `st_mode` of a path, following links; None if it does not exist.

    Raises:
        TqError: PERMISSION when it cannot be accessed.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refused(path, error) from None


def is_there(path: AnyPath) -> bool:
    """Whether a path exists. Raises as `mode`."""
    return mode(path) is not None


def is_file(path: AnyPath) -> bool:
    """Whether a path is a regular file. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISREG(found)


def is_folder(path: AnyPath) -> bool:
    """Whether a path is a folder. Raises as `mode`."""
    found = mode(path)
    return found is not None and stat.S_ISDIR(found)


def refused(path: AnyPath, error: OSError, what: str = "accessed") -> TqError:
    """Convert a refused access to a path to an error; PERMISSION where it is the path that is wrong."""
    code = CODES.get(error.errno or 0, ErrorCode.PERMISSION)
    message = f"{display(os.fsencode(path))} cannot be {what}: {error.strerror or error}"
    return TqError(code, message, _OF_PATHS.get(error.errno or 0) or _HINTS.get(code, ""))


def others_may_write(found: os.stat_result) -> bool:
    """Whether users other than ours and root may change a file, according to owner and mode."""
    return found.st_uid not in (os.geteuid(), 0) or others_may(stat.S_IWGRP, stat.S_IWOTH, found)


def others_may(group: int, everybody: int, found: os.stat_result) -> bool:
    """Whether the mode of a file gives other users one of these permissions."""
    return bool(found.st_mode & everybody or (found.st_mode & group and not _is_own_group(found.st_gid)))


def _is_own_group(group: int) -> bool:
    """Whether a group is root's, or has our user as its only member, as most systems create one per user."""
    if group == 0:
        return True
    try:
        name, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def no_temporary_folder() -> TqError:
    """Make the error of a machine on which `tempfile` finds no folder."""
    what = "no folder for temporary files can be written, neither /tmp nor /var/tmp"
    return TqError(ErrorCode.PERMISSION, what, "set TMPDIR to a folder of yours")
