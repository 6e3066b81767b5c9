"""On which file system a folder lies, whether inotify sees all that happens there, whether it keeps files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

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

_STATE = {"proc", "sysfs", "cgroup", "cgroup2", "configfs", "bpf", "pstore", "efivarfs", "resctrl"}
_DEVICES = {"devtmpfs", "devpts", "mqueue", "hugetlbfs"}
_INSIGHT = {"debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs"}
_INTERFACES = {"fusectl", "binfmt_misc", "rpc_pipefs", "nfsd", "nsfs"}

SYSTEM = frozenset(_STATE | _DEVICES | _INSIGHT | _INTERFACES)
"""File systems that show the state of the system and keep no files."""

_MOUNTS = "/proc/self/mountinfo"


class _Mount(NamedTuple):
    point: bytes
    device: int
    """As `st_dev` of what lies there."""
    kind: str


def is_blind(path: bytes, *, mounts: str = _MOUNTS) -> bool:
    """Whether changes on the file system of this path may go unnoticed by inotify."""
    kind = file_system(path, mounts=mounts)
    return kind in BLIND or kind.startswith("fuse.")


def file_system(path: bytes, *, mounts: str = _MOUNTS) -> str:
    """The type of the file system that an absolute path lies on; empty when it cannot be known.

    Only the table is read, never the path: a dead network mount would not answer.
    """
    mount = _mount_of(path, mounts)
    return "" if mount is None else mount.kind


def mount_point(path: bytes) -> bytes:
    """Where the file system of an absolute path is mounted; the path itself when it cannot be known.

    Only the table is read, as for `file_system`.
    """
    mount = _mount_of(path, _MOUNTS)
    return path if mount is None else mount.point


def _mount_of(path: bytes, mounts: str) -> _Mount | None:
    path = os.path.normpath(path)
    best = None
    for mount in _table(mounts):
        # Of two mounts on one point, the later covers the earlier.
        if is_within(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def is_within(path: bytes, point: bytes) -> bool:
    """Whether an absolute path is this mount point, or lies below it."""
    return path == point or path.startswith(point.rstrip(b"/") + b"/")


def points(*, mounts: str = _MOUNTS) -> frozenset[bytes]:
    """Where something is mounted now that keeps files, or may."""
    return frozenset(mount.point for mount in _table(mounts) if mount.kind not in SYSTEM | {"autofs"})


def expected(*, fstab: str = "/etc/fstab") -> frozenset[bytes]:
    """Where the system's own table of file systems says that something belongs."""
    try:
        with open(fstab, "rb") as table:
            lines = [line.split() for line in table if not line.lstrip().startswith(b"#")]
    except OSError:
        return frozenset()
    named = (_unescape(fields[1]) for fields in lines if len(fields) > 1)
    return frozenset(os.path.normpath(point) for point in named if point.startswith(b"/"))


def shows_the_system(path: bytes, *, mounts: str = _MOUNTS) -> bool:
    """Whether a folder lies on a file system that shows the state of the system: /proc, /sys, /dev and such.

    Raises:
        OSError: it cannot be looked at.
    """
    return os.stat(path).st_dev in system_devices(mounts=mounts)


def system_devices(*, mounts: str = _MOUNTS) -> frozenset[int]:
    """`st_dev` of all that lies on such file systems, by whatever path it is reached."""
    # Containers keep their devices in a tmpfs.
    devices = (b"/dev", "tmpfs")
    return frozenset(
        mount.device
        for mount in _table(mounts)
        if mount.kind in SYSTEM or (mount.point, mount.kind) == devices
    )


def _table(mounts: str) -> Iterator[_Mount]:
    try:
        with open(mounts, "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        major, _, minor = fields[2].partition(b":")
        kind = after.split(b" ")[0].decode("ascii", "replace")
        yield _Mount(_unescape(fields[4]), os.makedev(int(major), int(minor)), kind)


def _unescape(field: bytes) -> bytes:
    """Space, tab, newline and backslash are written in octal there."""
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, character)
    return field
