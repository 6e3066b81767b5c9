"""Finds the ffmpeg program to use and reads its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from blake3 import blake3

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError

_VERSION = re.compile(r"^ffmpeg version (?:n|N-)?(\S+)")
_VERSION_TIMEOUT_S = 20.0
"""Ample even on an overloaded machine; less than the start timeout, so that the error names a hanging
ffmpeg."""
_TRIES = 3
"""Attempts if it is killed: the OOM killer may choose a process that has just started."""


@dataclass(frozen=True, slots=True)
class FFmpeg:
    """A working ffmpeg program."""

    path: str
    """Absolute path of the program."""
    version: str
    """The version that it prints, such as `9.0.2` or `5.1.9-0+deb12u1`."""
    build: str
    """12 hex digits of a hash of the `-version` output: segments of equal builds may be joined."""

    @property
    def has_loopback(self) -> bool:
        """Whether it can decode in a run what that run encodes (`-dec`)."""
        return self.is_at_least(7, 1)

    def is_at_least(self, *version: int) -> bool:
        """Whether it has this version or a later one."""
        return _ordering(self.version) >= version


def locate(configured: str | None = None) -> FFmpeg:
    """Find the ffmpeg to use: the configured one, else the newer of the system's and imageio-ffmpeg's.

    Args:
        configured: a path or a name on PATH from the settings; if set, no other one is used.

    Raises:
        TqError: FFMPEG_MISSING if the configured one does not run, or none is found; SYSTEM_LIMIT.
    """
    if configured:
        found = _probe(configured)
        if found is None:
            raise TqError(
                ErrorCode.FFMPEG_MISSING,
                f"the configured ffmpeg {configured!r} does not run",
                "set TQSTUDIO_FFMPEG to the path of a working ffmpeg, or unset it to use the shipped one",
            )
        return found
    candidates = [found for path in (shutil.which("ffmpeg"), _shipped()) if path and (found := _probe(path))]
    if not candidates:
        raise TqError(
            ErrorCode.FFMPEG_MISSING,
            "no ffmpeg was found, neither on PATH nor in imageio-ffmpeg",
            "install ffmpeg, or set TQSTUDIO_FFMPEG to its path",
        )
    return max(candidates, key=lambda candidate: _ordering(candidate.version))


def _shipped() -> str | None:
    # Imported here, because the import searches for the binary.
    try:
        import imageio_ffmpeg
    except ImportError:
        return None
    # With this variable set, imageio-ffmpeg would return it without a check.
    if os.environ.get("IMAGEIO_FFMPEG_EXE"):
        return str(os.environ["IMAGEIO_FFMPEG_EXE"])
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        return None


def _probe(path: str) -> FFmpeg | None:
    resolved = shutil.which(os.path.expanduser(path))
    if resolved is None:
        return None
    output = _output_of([resolved, "-version"])
    match = _VERSION.match(output.decode(errors="replace")) if output is not None else None
    if output is None or match is None:
        return None
    return FFmpeg(os.path.abspath(resolved), match[1], blake3(output).hexdigest()[:12])


def _output_of(argv: list[str]) -> bytes | None:
    """The output of a program; None if it fails."""
    for _ in range(_TRIES):
        try:
            ended = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_TIMEOUT_S,
                check=False,
                env=environment(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            if isinstance(error, OSError) and error.errno in path_checks.LIMITS:
                raise TqError(
                    ErrorCode.SYSTEM_LIMIT, f"{argv[0]} cannot be started: {error.strerror}"
                ) from None
            return None
        if ended.returncode == 0:
            return ended.stdout
        if ended.returncode > 0:
            return None
    return None


def environment() -> dict[str, str]:
    """The environment of ffmpeg processes: without our settings, because ffmpeg parses untrusted files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TQSTUDIO_")}


def _ordering(version: str) -> tuple[int, ...]:
    """Parse `5.1.9-0+deb12u1` to (5, 1, 9), a build from git (`123456-gabc`) to (123456,)."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else (0,)
