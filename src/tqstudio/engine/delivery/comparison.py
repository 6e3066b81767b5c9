"""Compares a ladder in a bucket with its local copy, from which it was uploaded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from blake3 import blake3

from tqstudio.engine import outputs
from tqstudio.engine.delivery import local_copy
from tqstudio.engine.delivery.bucket import Bucket
from tqstudio.engine.outputs import Place

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
    names = list(ladder.sums)
    sizes = await asyncio.to_thread(local_copy.sizes, place, number, names)
    for start in range(0, len(names), _AT_ONCE):
        portion = names[start : start + _AT_ONCE]
        folder = f"v{number}"
        if every_byte:
            same = await asyncio.gather(
                *(_has(bucket, f"{folder}/{name}", ladder.sums[name]) for name in portion)
            )
        else:
            same = await asyncio.gather(*(_is_there(bucket, folder, name, sizes) for name in portion))
        wrong += [f"{folder}/{name}" for name, is_same in zip(portion, same, strict=True) if not is_same]
    return wrong


async def _has(bucket: Bucket, name: str, digest: str) -> bool:
    content = await bucket.get(name)
    return content is not None and blake3(content).hexdigest() == digest


async def _is_there(bucket: Bucket, folder: str, name: str, sizes: Mapping[str, int]) -> bool:
    size = await bucket.size(f"{folder}/{name}")
    return size is not None and size == sizes.get(name, size)
