"""Finds the file system of a folder, whether inotify reports all changes there, and whether it is virtual."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

NETWORK = {
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
"""File systems of other machines."""
_CLUSTER = {"gfs", "gfs2", "ocfs2", "beegfs", "orangefs", "pvfs2", "gpfs"}
_VIRTUAL_MACHINE = {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}

NO_INOTIFY = frozenset(NETWORK | _CLUSTER | _VIRTUAL_MACHINE | {"fuse"})
"""File systems that can change without this kernel noticing, as can every `fuse.*`."""

_STATE = {"proc", "sysfs", "cgroup", "cgroup2", "configfs", "bpf", "pstore", "efivarfs", "resctrl"}
_DEVICES = {"devtmpfs", "devpts", "mqueue", "hugetlbfs"}
_INSIGHT = {"debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs"}
_INTERFACES = {"fusectl", "binfmt_misc", "rpc_pipefs", "nfsd", "nsfs"}

SYSTEM = frozenset(_STATE | _DEVICES | _INSIGHT | _INTERFACES)
"""Virtual file systems of the kernel, which store no files."""

_MOUNTS = "/proc/self/mountinfo"


class _Mount(NamedTuple):
    point: bytes
    device: int
    """`st_dev` of the files there."""
    kind: str


def misses_inotify(path: bytes, *, mounts: str = _MOUNTS) -> bool:
    """Whether inotify may miss changes on the file system of this path."""
    kind = file_system(path, mounts=mounts)
    return kind in NO_INOTIFY or kind.startswith("fuse.")


def file_system(path: bytes, *, mounts: str = _MOUNTS) -> str:
    """The type of the file system of an absolute path; empty if unknown.

    Reads only the mount table, never the path: a dead network mount would not answer.
    """
    mount = _mount_of(path, mounts)
    return "" if mount is None else mount.kind


def mount_point(path: bytes) -> bytes:
    """The mount point of the file system of an absolute path; the path itself if unknown.

    Reads only the mount table, as `file_system` does.
    """
    mount = _mount_of(path, _MOUNTS)
    return path if mount is None else mount.point


def _mount_of(path: bytes, mounts: str) -> _Mount | None:
    path = os.path.normpath(path)
    best = None
    for mount in _table(mounts):
        # Of two mounts on one point, the later one hides the earlier.
        if is_within(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def is_within(path: bytes, point: bytes) -> bool:
    """Whether an absolute path is this mount point or below it."""
    return path == point or path.startswith(point.rstrip(b"/") + b"/")


def points(*, mounts: str = _MOUNTS) -> frozenset[bytes]:
    """The present mount points, without virtual file systems and unmounted autofs points."""
    return frozenset(mount.point for mount in _table(mounts) if mount.kind not in SYSTEM | {"autofs"})


def expected(*, fstab: str = "/etc/fstab") -> frozenset[bytes]:
    """The mount points listed in /etc/fstab."""
    try:
        with open(fstab, "rb") as table:
            lines = [line.split() for line in table if not line.lstrip().startswith(b"#")]
    except OSError:
        return frozenset()
    named = (_unescape(fields[1]) for fields in lines if len(fields) > 1)
    return frozenset(os.path.normpath(point) for point in named if point.startswith(b"/"))


def shows_the_system(path: bytes) -> bool:
    """Whether a folder is on a virtual file system of the kernel: /proc, /sys, /dev and such.

    Raises:
        OSError: it cannot be checked.
    """
    return os.stat(path).st_dev in system_devices()


def system_devices(*, mounts: str = _MOUNTS) -> frozenset[int]:
    """`st_dev` of the virtual file systems of the kernel."""
    # Containers have their devices in a tmpfs.
    devices = (b"/dev", "tmpfs")
    return frozenset(
        mount.device
        for mount in _table(mounts)
        if mount.kind in SYSTEM or (mount.point, mount.kind) == devices
    )


def _table(mounts: str) -> tuple[_Mount, ...]:
    try:
        with open(mounts, "rb") as table:
            return _parsed(table.read())
    except OSError:
        return ()


@lru_cache(maxsize=4)
def _parsed(table: bytes) -> tuple[_Mount, ...]:
    return tuple(_mounts(table))


def _mounts(table: bytes) -> Iterator[_Mount]:
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        major, _, minor = fields[2].partition(b":")
        kind = after.split(b" ")[0].decode("ascii", "replace")
        yield _Mount(_unescape(fields[4]), os.makedev(int(major), int(minor)), kind)


def _unescape(field: bytes) -> bytes:
    """Decode space, tab, newline and backslash, which the mount table writes in octal."""
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, character)
    return field
