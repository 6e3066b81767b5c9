"""Compares a ladder in a bucket with its local copy, from which it was uploaded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tqstudio.engine import outputs
from tqstudio.engine.outputs import Place
from tqstudio.wings.buckets import local_copy
from tqstudio.wings.buckets.bucket import Bucket

_AT_ONCE = 4
"""Files that are examined at the same time."""


async def differences(bucket: Bucket, place: Place, *, every_byte: bool) -> list[str]:
    """Find the files of a published ladder that its bucket lacks, or has otherwise; master playlists first.

    Args:
        every_byte: read all files and compare their digests; else only the sizes of files that are here too.

    Raises:
        TqError: as of `Bucket.get`.
        OSError: of the local copy.
    """
    number = outputs.named(place)
    if number is None:
        return []
    ladder = await asyncio.to_thread(local_copy.ladder, place, number)
    wrong = [name for name, content in ladder.masters.items() if await bucket.get(name) != content]
    names, folder = list(ladder.sums), f"v{number}"
    if every_byte:

        async def has_same(name: str) -> bool:
            return await bucket.digest(f"{folder}/{name}") == ladder.sums[name]

        different = await _failing(names, has_same)
    else:
        sizes = await asyncio.to_thread(local_copy.sizes, place, number, names)
        different = await other_sizes(bucket, folder, names, sizes)
    return [*wrong, *(f"{folder}/{name}" for name in different)]


async def other_sizes(
    bucket: Bucket, folder: str, names: Sequence[str], sizes: Mapping[str, int]
) -> list[str]:
    """Find the files that a bucket lacks, or has with another size, where one is known."""

    async def is_there(name: str) -> bool:
        size = await bucket.size(f"{folder}/{name}")
        return size is not None and size == sizes.get(name, size)

    return await _failing(names, is_there)


async def _failing(names: Sequence[str], holds: Callable[[str], Awaitable[bool]]) -> list[str]:
    failing: list[str] = []
    for start in range(0, len(names), _AT_ONCE):
        portion = names[start : start + _AT_ONCE]
        held = await asyncio.gather(*map(holds, portion))
        failing += [name for name, is_held in zip(portion, held, strict=True) if not is_held]
    return failing
