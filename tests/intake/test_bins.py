"""Bins, previews and unfinished downloads of NAS, desktops and other programs: none of it is a source."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tqstudio.engine.intake.rules import Choice, Rules
from waiting import until_true

from .conftest import World, put, scanner_of, watching

BINS = [
    *(
        "#recycle",
        "#Recycle",
        "@Recycle",
        "#snapshot",
        "@Recently-Snapshot",
        "Network Recycle Bin 1",
        "trashbox",
    ),
    *("@eaDir", "@Transcode", "@tmp", "files_trashbin", "files_versions", "Network Trash Folder"),
    *("$RECYCLE.BIN", "RECYCLER", "System Volume Information", "lost+found", "Temporary Items"),
    *("_UNPACK_Film", "_FAILED_Film", "_unpack", "Film.mp4.download", "a\nb.download"),
]
HIDDEN = [".Trash-1000", ".Trashes", ".recycle", ".@__thumb", ".stversions"]
FOLDERS = ["recycle", "Recycled", "snapshot", "eaDir", "#1", "unpack_it", "download", "lost", "recycle.bin"]


def _fill(root: Path) -> None:
    for name in (*BINS, *HIDDEN, *FOLDERS):
        (root / name / "deep").mkdir(parents=True)
        (root / name / "deep/film.mp4").write_bytes(b"video")


def test_of_bins_nothing_is_taken_and_each_has_a_line(tmp_path: Path) -> None:
    _fill(tmp_path)
    findings = scanner_of(tmp_path).everything()
    assert {Path(os.fsdecode(path)).relative_to(tmp_path).parts[0] for path in findings.files} == set(FOLDERS)
    assert {os.path.basename(os.fsdecode(path)) for path in findings.odd} == set(BINS)
    assert "bin" in findings.odd[os.fsencode(tmp_path / "#recycle")].message
    inside = [os.fsencode(tmp_path / name / "deep/film.mp4") for name in (*BINS, *FOLDERS)]
    assert set(scanner_of(tmp_path).part(inside).files) == set(findings.files)
    concerned = [path for path in inside if scanner_of(tmp_path).concerns(path, is_directory=False)]
    assert set(concerned) == set(findings.files)


def test_a_setting_takes_them(tmp_path: Path) -> None:
    _fill(tmp_path)
    scanner = scanner_of(tmp_path, Rules((), bins=True))
    inside = {os.fsencode(tmp_path / name / "deep/film.mp4") for name in (*BINS, *FOLDERS)}
    assert set(scanner.everything().files) == set(scanner.part(inside).files) == inside
    assert scanner.everything().odd == {}
    assert all(scanner.concerns(path, is_directory=False) for path in inside)


def test_a_drop_folder_takes_them_by_the_setting(world: World) -> None:
    (world.root / "#recycle").mkdir()
    put(world.root, b"#recycle/a.mp4")

    async def run() -> None:
        async with watching(world, include_temporary_files=True):
            await world.offered(b"#recycle/a.mp4")

    asyncio.run(run())


def test_previews_in_each_folder_have_one_line(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}/@eaDir").mkdir(parents=True)
    put(tmp_path, b"001/a.iso")
    odd = scanner_of(tmp_path).everything().odd
    assert sorted(odd) == [os.fsencode(tmp_path / "000/@eaDir"), os.fsencode(tmp_path / "001/a.iso")]


def test_an_excluded_bin_has_no_line_and_one_that_is_the_drop_folder_is_searched(tmp_path: Path) -> None:
    put(tmp_path, b"a.mp4")
    (tmp_path / "#recycle").mkdir()
    put(tmp_path, b"#recycle/b.mp4")
    assert scanner_of(tmp_path, Rules((), ("#recycle",))).everything().odd == {}
    found = scanner_of(tmp_path / "#recycle").everything().files
    assert list(found) == [os.fsencode(tmp_path / "#recycle/b.mp4")]


@pytest.mark.parametrize(
    "name",
    [
        *(b"film.mkv.!qB", b"film.mkv.!ut", b"film.mkv.!bt", b"film.mkv.bc!", b"film.mkv.!sync"),
        *(b"film.mp4.opdownload", b"film.mp4.download", b"film.mp4.fdmdownload", b"film.mp4@SynoEAStream"),
    ],
)
def test_names_of_unfinished_files_are_ignored_whatever_the_pattern(name: bytes) -> None:
    assert Rules(()).choose(name) is Rules(("film.*",)).choose(name) is Choice.IGNORE


def test_a_film_is_gone_when_it_is_deleted_into_a_bin_and_taken_when_it_is_unpacked(world: World) -> None:
    for name in ("#recycle", "_UNPACK_Film"):
        (world.root / name).mkdir()
    put(world.root, b"a.mp4")
    put(world.root, b"_UNPACK_Film/b.mp4")

    async def run() -> None:
        async with watching(world):
            await world.offered(b"a.mp4")
            os.rename(world.root / "a.mp4", world.root / "#recycle/a.mp4")
            await world.catch_up()
            os.rename(world.root / "_UNPACK_Film", world.root / "Film")
            await world.offered(b"Film/b.mp4")
            await until_true(lambda: set(world.skipped) == {"#recycle"})

    asyncio.run(run())
    assert world.names == [b"a.mp4", b"sentinel.mp4", b"Film/b.mp4"]
