"""Computes, writes and reads `BLAKE3SUMS`, the digests of published files.

Each generation has one; `b3sum --check` reads it too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

SUMS_NAME = "BLAKE3SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\\\n]+)")


def of_file(path: Path) -> str:
    """Hash a whole file: 64 hex digits."""
    with path.open("rb") as file:
        return of_open(file)


def of_open(file: BinaryIO) -> str:
    """Hash an open file from its present position on."""
    return hashlib.file_digest(file, blake3).hexdigest()  # type: ignore[arg-type]


def text_of(sums: Mapping[str, str]) -> str:
    """Format a `BLAKE3SUMS`: path relative to its folder → digest."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def read(path: Path) -> dict[str, str]:
    """Read a `BLAKE3SUMS`: path → digest; ValueError if a line is malformed.

    Ladders that early versions of tqstudio published have none (FileNotFoundError).
    """
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, str]:
    """Parse a `BLAKE3SUMS`: path → digest; ValueError if a line is malformed."""
    sums = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"{SUMS_NAME} has a malformed line: {line[:80]}")
        sums[found[2]] = found[1]
    return sums
