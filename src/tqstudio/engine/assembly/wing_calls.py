"""Bundles the wings of a supervisor, and what the core calls of them, which it does not know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tqstudio.engine.outputs.publisher import MakeFiles
from tqstudio.engine.parts.dormant import Dormant
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.protocol.requests import Manifest

T = TypeVar("T", bound=Part)

CheckResult = Callable[[LeaseToken, Manifest], Awaitable[None]]
"""Raises `TqError` if a result must not be published."""


class CheckBucket(Protocol):
    """Checks that the bucket of an output can be used."""

    async def __call__(self, output_root: bytes, *, must_answer: bool = True) -> None:
        """Check it.

        Args:
            must_answer: if not, a bucket that is out of order passes: ladders are uploaded later.

        Raises:
            TqError: why it cannot be used.
        """


@dataclass(frozen=True)
class Wings:
    """The wings of a supervisor."""

    parts: Sequence[Dormant]
    """In the order in which they start."""
    check_bucket: CheckBucket
    require_received: CheckResult
    """Checks that all of a result has arrived from another machine, before its worker is answered."""
    require_valid: CheckResult
    """Checks a result of which parts have arrived from another machine, before it is published."""
    make_files: MakeFiles
    restore_deleted: Callable[[int, str], Awaitable[None]]
    """Brings back a deleted video whose source an actor adds again."""
    undelete: Callable[[int, str], Awaitable[None]]
    """Brings back a deleted video for an actor; raises `TqError` if that cannot be."""

    async def part(self, kind: type[T]) -> T:
        """Return the part of a class, which a request needs: it has started."""
        found = next(each for each in self.parts if isinstance(each.part, kind))
        await found.wake()
        assert isinstance(found.part, kind)
        return found.part
