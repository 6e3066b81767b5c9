"""Quick and full hashes of a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blake3 import blake3

from tqstudio.engine.media.source.fingerprint import (
    SAMPLE_BYTES,
    HashingStopped,
    Original,
    full_hash,
    quick_hash,
)
from tqstudio.errors import ErrorCode, TqError

MIB = SAMPLE_BYTES


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def poke(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"x")


@pytest.mark.parametrize("offset", [0, MIB - 1, 40 * MIB - 1, 39 * MIB, (40 * MIB - MIB) // 2], ids=str)
def test_a_change_inside_a_sample_is_seen(tmp_path: Path, offset: int) -> None:
    path = sparse(tmp_path / "a", 40 * MIB)
    before = quick_hash(os.fsencode(path))
    poke(path, offset)
    assert quick_hash(os.fsencode(path)) != before


def test_a_change_of_size_is_seen_and_one_between_samples_only_by_the_full_hash(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a", 40 * MIB)
    quick, full = quick_hash(os.fsencode(path)), full_hash(os.fsencode(path))
    poke(path, 2 * MIB)
    assert quick_hash(os.fsencode(path)) == quick
    assert full_hash(os.fsencode(path)) != full
    os.truncate(path, 40 * MIB + 1)
    assert quick_hash(os.fsencode(path)) != quick


def test_small_files_are_hashed_whole(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a", 5 * MIB)
    before = quick_hash(os.fsencode(path))
    poke(path, 2 * MIB + 17)
    assert quick_hash(os.fsencode(path)) != before


def test_the_full_hash_is_blake3_of_the_bytes_and_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"tqstudio" * 1000)
    assert full_hash(os.fsencode(path)) == blake3(path.read_bytes()).hexdigest()
    with pytest.raises(HashingStopped):
        full_hash(os.fsencode(path), stop=lambda: True)


def test_a_missing_file_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(TqError) as caught:
        quick_hash(os.fsencode(tmp_path / "none.mp4"))
    assert caught.value.code == ErrorCode.SOURCE_MISSING


@pytest.mark.parametrize(
    ("mib", "at", "is_hashed", "times", "changed"),
    [
        (40, None, False, "ctime", False),
        (40, None, False, "mtime", True),
        (40, None, True, "mtime", False),
        (40, 2 * MIB, True, "mtime", False),
        (40, 0, True, "mtime", True),
        (40, 0, False, "ctime", True),
        (5, None, False, "mtime", False),
        (5, 2 * MIB, False, "ctime", True),
    ],
)
def test_a_touched_source_is_judged_by_its_samples_once_all_of_it_was_read(
    tmp_path: Path, mib: int, at: int | None, is_hashed: bool, times: str, changed: bool
) -> None:
    path = sparse(tmp_path / "a", mib * MIB)
    original = Original.of(os.fsencode(path))
    original.require_same()
    if is_hashed:
        original.note_hashed()
    if at is not None:
        poke(path, at)
    os.utime(path, ns=(1, 1) if times == "mtime" else (1, original.identity.mtime_ns))
    if not changed:
        original.require_same()
        return
    with pytest.raises(TqError) as caught:
        original.require_same()
    assert caught.value.code is ErrorCode.SOURCE_CHANGED


@pytest.mark.parametrize("replaced", [True, False])
def test_a_source_that_grows_or_is_replaced_has_changed(tmp_path: Path, replaced: bool) -> None:
    path = sparse(tmp_path / "a", MIB)
    original = Original.of(os.fsencode(path))
    if replaced:
        sparse(tmp_path / "b", MIB).rename(path)
    else:
        os.truncate(path, MIB + 1)
    with pytest.raises(TqError) as caught:
        original.require_same()
    assert caught.value.code is ErrorCode.SOURCE_CHANGED


def test_a_source_that_moved_in_time_while_it_was_hashed_counts_as_not_hashed(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a", 40 * MIB)
    original = Original.of(os.fsencode(path))
    os.utime(path, ns=(1, 1))
    original.note_hashed()
    assert not original.is_hashed
