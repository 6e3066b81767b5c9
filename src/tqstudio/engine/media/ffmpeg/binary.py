"""Which ffmpeg is used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from blake3 import blake3

from tqstudio.engine.files import errnos
from tqstudio.errors import ErrorCode, TqError

_VERSION = re.compile(r"^ffmpeg version (?:n|N-)?(\S+)")
_VERSION_TIMEOUT_S = 20.0
"""Far more than it takes, also on a machine that is busy many times over; less than a start is waited for, so
that one which hangs is named."""
_TRIES = 3
"""To ask again when it was killed: whoever is short of memory kills what has just begun, too."""


@dataclass(frozen=True, slots=True)
class FFmpeg:
    """An ffmpeg program that answered `-version`."""

    path: str
    """Absolute path of the program."""
    version: str
    """What it calls itself, such as `9.0.2` or `5.1.9-0+deb12u1`."""
    build: str
    """12 hex digits over all of `-version`: equal builds write segments that may be joined."""


def locate(configured: str | None = None) -> FFmpeg:
    """Find the ffmpeg to use: the configured one, else the newer of the system's and imageio-ffmpeg's.

    Args:
        configured: a path or a name on PATH from the settings; it wins, and is never replaced silently.

    Raises:
        TqError: FFMPEG_MISSING, when the configured one does not run or there is none at all; SYSTEM_LIMIT.
    """
    if configured:
        found = _ask(configured)
        if found is None:
            raise TqError(
                ErrorCode.FFMPEG_MISSING,
                f"the configured ffmpeg {configured!r} does not run",
                "set TQSTUDIO_FFMPEG to the path of a working ffmpeg, or unset it to use the shipped one",
            )
        return found
    candidates = [found for path in (shutil.which("ffmpeg"), _shipped()) if path and (found := _ask(path))]
    if not candidates:
        raise TqError(
            ErrorCode.FFMPEG_MISSING,
            "no ffmpeg was found on PATH, nor the one that comes with imageio-ffmpeg",
            "install ffmpeg, or set TQSTUDIO_FFMPEG to its path",
        )
    return max(candidates, key=lambda candidate: _ordering(candidate.version))


def _shipped() -> str | None:
    # Imported here: it looks for its binary while it is imported.
    try:
        import imageio_ffmpeg
    except ImportError:
        return None
    # The variable would make it answer with somebody else's ffmpeg.
    if os.environ.get("IMAGEIO_FFMPEG_EXE"):
        return str(os.environ["IMAGEIO_FFMPEG_EXE"])
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        return None


def _ask(path: str) -> FFmpeg | None:
    resolved = shutil.which(os.path.expanduser(path))
    if resolved is None:
        return None
    answer = _answer([resolved, "-version"])
    match = _VERSION.match(answer.decode(errors="replace")) if answer is not None else None
    if answer is None or match is None:
        return None
    return FFmpeg(os.path.abspath(resolved), match[1], blake3(answer).hexdigest()[:12])


def _answer(argv: list[str]) -> bytes | None:
    """What a program prints; None when it cannot."""
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
            if isinstance(error, OSError) and error.errno in errnos.LIMITS:
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
    """What an ffmpeg gets of our environment. It reads files of strangers: no setting of ours is for it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TQSTUDIO_")}


def _ordering(version: str) -> tuple[int, ...]:
    """`5.1.9-0+deb12u1` → (5, 1, 9). A build from git (`123456-gabc`) has no release number and sorts by what
    it has."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else (0,)
