"""Classifies errors of the operating system: a disk is unavailable or fails, or a limit is reached.

None of them is caused by the file itself.
"""

from __future__ import annotations

import errno

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
