"""BLAKE3 digests of what is published: they tell a file that was changed since from one that was not.

Every generation carries them as `BLAKE3SUMS`, which `b3sum --check` reads too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

SUMS_NAME = "BLAKE3SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\\\n]+)")


def of_file(path: Path) -> str:
    """64 hex digits over every byte, at memory speed when cached.

    Raises:
        OSError: as of the file system.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, blake3).hexdigest()  # type: ignore[arg-type]


def text_of(sums: Mapping[str, str]) -> str:
    """The lines of a `BLAKE3SUMS`.

    Args:
        sums: digest by path within the folder that holds the file.
    """
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def read(path: Path) -> dict[str, str]:
    """The digests in a `BLAKE3SUMS`, by path.

    Raises:
        OSError: as of the file system; FileNotFoundError where an earlier tqstudio published.
        ValueError: a line is none of ours.
    """
    sums = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"{path.name} has a line that is no digest and name: {line[:80]}")
        sums[found[2]] = found[1]
    return sums
