"""Quick and full hashes of a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blake3 import blake3

from tqstudio.engine.media.source.fingerprint import SAMPLE_BYTES, Stopped, full_hash, quick_hash
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
    with pytest.raises(Stopped):
        full_hash(os.fsencode(path), stop=lambda: True)


def test_a_missing_file_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(TqError) as caught:
        quick_hash(os.fsencode(tmp_path / "none.mp4"))
    assert caught.value.code == ErrorCode.SOURCE_MISSING
