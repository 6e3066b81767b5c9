"""On which file system a folder lies, and whether inotify sees all that happens there."""

from __future__ import annotations

import os

_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb2",
    "smb3",
    "smbfs",
    "ncpfs",
    "afs",
    "coda",
    "ceph",
    "glusterfs",
    "lustre",
}
_CLUSTER = {"gfs", "gfs2", "ocfs2", "beegfs", "orangefs", "pvfs2", "gpfs"}
_VIRTUAL_MACHINE = {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}

BLIND = frozenset(_NETWORK | _CLUSTER | _VIRTUAL_MACHINE | {"fuse"})
"""File systems that others change without this kernel knowing; every `fuse.*` is one too."""

_MOUNTS = "/proc/self/mountinfo"


def is_blind(path: bytes, *, mounts: str = _MOUNTS) -> bool:
    """Whether changes on the file system of this path may go unnoticed by inotify."""
    kind = file_system(path, mounts=mounts)
    return kind in BLIND or kind.startswith("fuse.")


def file_system(path: bytes, *, mounts: str = _MOUNTS) -> str:
    """The type of the file system that an absolute path lies on; empty when it cannot be known.

    Only the table is read, never the path: a dead network mount would not answer.
    """
    try:
        with open(mounts, "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return ""
    path = os.path.normpath(path)
    best, kind = b"", ""
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescape(fields[4])
        inside = path == point or path.startswith(point.rstrip(b"/") + b"/")
        # Of two mounts on one point, the later covers the earlier.
        if inside and len(point) >= len(best):
            best, kind = point, after.split(b" ")[0].decode("ascii", "replace")
    return kind


def _unescape(field: bytes) -> bytes:
    """Space, tab, newline and backslash are written in octal there."""
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, character)
    return field
