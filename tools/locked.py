"""Reads the lock: the packages that a user gets, pinned with their hashes.

Run as a program it prints their part of `requirements.lock`: `make wheelhouse` fetches them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
EXTRAS = ("alerts", "postgresql", "redis")
"""Those for users; the packages of `dev` stay here."""
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)[^\n]*\n(?: +--hash=[^\n]*\n?)*", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """A package of the lock; its hashes are those of every file, of which one is installed."""

    name: str
    version: str
    text: str

    @property
    def hashes(self) -> list[str]:
        return re.findall(r"--hash=sha256:([0-9a-f]{64})", self.text)


def for_users(lock: Path = LOCK) -> list[Package]:
    """Every package that tqstudio or one of its extras needs here."""
    known = {
        canonicalize_name(found[1]): Package(found[1], found[2], found[0].rstrip("\n"))
        for found in _ENTRY.finditer(lock.read_text())
    }
    return [known[name] for name in sorted(_needed() & known.keys())]


def _needed() -> set[str]:
    seen: set[tuple[str, str]] = set()
    left = [("tqstudio", extra) for extra in ("", *EXTRAS)]
    while left:
        name, extra = each = left.pop()
        if each in seen:
            continue
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # another platform's
        seen.add(each)
        for requirement in map(Requirement, needs):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                left += [(canonicalize_name(requirement.name), of) for of in ("", *requirement.extras)]
    return {name for name, _ in seen} - {"tqstudio"}


if __name__ == "__main__":
    print("\n".join(package.text for package in for_users()))
