"""An ext4 file system in a file, that can lose its power, or hang."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

# linux/fs: EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32), and the flag that lets not even the journal be written.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("=I", 2)
# FIFREEZE and FITHAW, _IOWR('X', 119 and 120, int).
_FREEZE, _THAW = 0xC0045877, 0xC0045878
_SIZE_BYTES = 512 * 1024 * 1024
_WAIT_S = 30.0


class CannotCut(Exception):
    """This machine, or this user, cannot make file systems that lose their power; says why."""


class Volume:
    """A file system of its own, mounted at `root`.

    Args:
        folder: holds the image and the mount point; a short path.
        options: of mount. `commit=300` keeps the kernel from making things durable by itself.

    Raises:
        CannotCut: no such file system can be made and mounted here.
    """

    def __init__(self, folder: Path, options: str = "defaults") -> None:
        self.root = folder / "d"
        self._image, self._options = folder / "image", options
        self._mounted = False
        if os.geteuid() != 0:
            raise CannotCut("mounting a file system needs root")
        for program in ("mkfs.ext4", "mount", "umount"):
            if shutil.which(program) is None:
                raise CannotCut(f"there is no {program}")
        self.root.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(_SIZE_BYTES)
        _run("mkfs.ext4", "-q", "-F", self._image)
        try:
            self._mount()
            self.cut()
            self.recover()
        except BaseException:
            self.release()
            raise

    def _mount(self) -> None:
        # The loop device goes by itself with the mount.
        _run("mount", "-t", "ext4", "-o", f"loop,{self._options}", self._image, self.root)
        self._mounted = True

    def cut(self) -> None:
        """From here on nothing reaches the disk, and what had not is lost."""
        try:
            self._control(_SHUTDOWN, _NO_LOG_FLUSH)
        except OSError as error:
            raise CannotCut(f"the file system cannot be shut down: {error.strerror}") from error

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """In here whoever writes waits, and cannot even be killed: as with a disk that does not answer."""
        self._control(_FREEZE, bytes(4))
        try:
            yield
        finally:
            self._control(_THAW, bytes(4))

    def _control(self, request: int, argument: bytes) -> None:
        descriptor = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, request, argument)
        finally:
            os.close(descriptor)

    def recover(self) -> None:
        """Mount it again, as a machine that boots does. No process may be using it."""
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                _run("umount", self.root)
                break
            except CannotCut:
                # A process that was killed holds it until it is collected.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._mounted = False
        self._mount()

    def listing(self) -> dict[str, int]:
        """Every file with its size, as whoever runs now sees them."""
        found = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                with contextlib.suppress(OSError):
                    path = os.path.join(folder, name)
                    found[path] = os.lstat(path).st_size
        return found

    def release(self) -> None:
        """Leave no mount, no loop device, no image behind. May be called at any time, and twice."""
        if self._mounted or os.path.ismount(self.root):
            subprocess.run(["umount", "--lazy", self.root], check=False, capture_output=True)
            self._mounted = False
        self._image.unlink(missing_ok=True)


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotCut(f"{words[0]} fails: {done.stderr.strip()}")
