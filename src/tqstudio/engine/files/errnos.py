"""Which errors of the operating system say that a disk is away or fails, or that a limit is reached.

None of them says anything of the file that was asked for: on a sound machine the same call succeeds.
"""

from __future__ import annotations

import errno

AWAY = frozenset(
    (
        *(errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN),
        *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
    )
)
"""A network mount, a FUSE file system or a drive that nobody serves any more."""

# Linux's: a damaged file system, a remote one that fails.
_DAMAGED = {getattr(errno, name) for name in ("EUCLEAN", "EREMOTEIO") if hasattr(errno, name)}
FAILING = AWAY | _DAMAGED | {errno.EIO}
"""Also one that is there and cannot read or write."""

LIMITS = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN))
"""No more open files, or no more processes."""
