"""What /proc reports: who writes to a file, and what file system a folder is on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tqstudio.engine.files import mounts
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.intake.settling import FileKey

from .conftest import writing


def _identity(path: Path | bytes) -> FileKey:
    found = os.stat(path)
    return (found.st_dev, found.st_ino)


def test_only_files_open_for_writing_are_named(tmp_path: Path) -> None:
    odd = os.path.join(os.fsencode(tmp_path), b"odd\n\xff.mp4")
    read, idle, linked = tmp_path / "read.mp4", tmp_path / "idle.mp4", tmp_path / "linked.mp4"
    for path in (read, idle):
        path.write_bytes(b"video")

    async def run() -> None:
        async with writing(Path(os.fsdecode(odd))) as writer, writing(idle, "update"):
            os.link(odd, linked)
            wanted = {_identity(path): os.fsencode(path) for path in (linked, read, idle)}
            assert open_for_writing(wanted) == {_identity(odd), _identity(idle)}
            await writer.send("close")
            assert open_for_writing(wanted) == {_identity(idle)}

    with open(read, "rb"):
        asyncio.run(run())
    assert open_for_writing({}) == set()


def test_a_mount_point_is_found_without_a_look_at_the_path() -> None:
    assert mounts.mount_point(b"/proc/nowhere/at/all") == b"/proc"


TABLE = rb"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/nas rw,relatime shared:9 master:2 - nfs4 nas:/export rw
31 22 0:41 / /mnt/two\040words rw - cifs //host/share rw
32 22 0:42 / /mnt/local rw - ext4 /dev/sdb1 rw
33 32 0:43 / /mnt/local rw - fuse.sshfs me@host: rw
34 30 0:44 / /mnt/nas/scratch rw - xfs /dev/sdc1 rw
35 22 8:5 / /mnt/usb rw - fuseblk /dev/sdd1 rw
36 22 0:5 / /dev rw - devtmpfs udev rw
37 36 0:6 / /dev/shm rw - tmpfs tmpfs rw
38 22 0:7 / /mnt/box/proc rw - proc proc rw
39 22 0:8 / /mnt/box/sys/cgroup rw - cgroup2 none rw
broken line
"""


def test_the_innermost_latest_mount_decides(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes(TABLE)
    expected = {
        b"/srv/drop": "ext4",
        b"/mnt/nas": "nfs4",
        b"/mnt/nas/a/b": "nfs4",
        b"/mnt/nas2": "ext4",
        b"/mnt/nas/scratch/x": "xfs",
        b"/mnt/two words/x": "cifs",
        b"/mnt/local/x": "fuse.sshfs",
        b"/mnt/usb/x": "fuseblk",
    }
    kinds = {path: mounts.file_system(path, mounts=str(table)) for path in expected}
    assert kinds == expected
    blind = {path for path in expected if mounts.misses_inotify(path, mounts=str(table))}
    assert blind == {b"/mnt/nas", b"/mnt/nas/a/b", b"/mnt/two words/x", b"/mnt/local/x"}


def test_what_shows_the_state_of_the_system_is_recognized_by_its_kind(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes(TABLE)
    assert mounts.system_devices(mounts=str(table)) == {os.makedev(0, minor) for minor in (5, 7, 8)}
    table.write_bytes(b"36 22 0:5 / /dev rw - tmpfs tmpfs rw\n37 36 0:6 / /dev/shm rw - tmpfs shm rw\n")
    assert mounts.system_devices(mounts=str(table)) == {os.makedev(0, 5)}, "as containers have it"
    table.write_bytes(b"36 22 8:1 /box/dev /dev rw - ext4 /dev/sda1 rw\n")
    assert mounts.system_devices(mounts=str(table)) == set(), "a folder of a disk that keeps files too"


def test_a_folder_of_the_system_is_known_by_any_path(tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("/proc/sys")
    assert mounts.shows_the_system(b"/proc")
    assert mounts.shows_the_system(os.fsencode(tmp_path / "alias"))
    assert not mounts.shows_the_system(os.fsencode(tmp_path))
    assert not mounts.shows_the_system(b"/proc/self/cwd")


def test_without_a_table_nothing_is_blind(tmp_path: Path) -> None:
    assert mounts.file_system(b"/srv", mounts=str(tmp_path / "none")) == ""
    assert not mounts.misses_inotify(b"/srv", mounts=str(tmp_path / "none"))
    assert not mounts.system_devices(mounts=str(tmp_path / "none"))


def test_what_is_mounted_and_what_should_be(tmp_path: Path) -> None:
    table, fstab = tmp_path / "mountinfo", tmp_path / "fstab"
    table.write_bytes(
        b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        b"23 22 0:5 / /proc rw - proc proc rw\n"
        b"24 22 0:6 / /mnt/auto rw - autofs systemd-1 rw\n"
        b"25 22 8:2 / /mnt/two\\040words rw - ext4 /dev/sdb1 rw\n"
    )
    assert mounts.points(mounts=str(table)) == {b"/", b"/mnt/two words"}
    assert mounts.points(mounts=str(tmp_path / "none")) == set()
    fstab.write_bytes(
        b"# a comment\nUUID=1 / ext4 defaults 0 1\n\nUUID=2 none swap sw 0 0\n"
        b"nas:/x /mnt/my\\040nas/ nfs nofail 0 0\n"
    )
    assert mounts.expected(fstab=str(fstab)) == {b"/", b"/mnt/my nas"}
    assert mounts.expected(fstab=str(tmp_path / "none")) == set()
    assert mounts.is_within(b"/mnt/nas/a", b"/mnt/nas")
    assert mounts.is_within(b"/mnt/nas", b"/mnt/nas")
    assert mounts.is_within(b"/a", b"/")
    assert not mounts.is_within(b"/mnt/nas-2/a", b"/mnt/nas")
