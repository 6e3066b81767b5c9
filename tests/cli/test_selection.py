"""Which files a command line means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tqstudio.cli.terminal.selection import SearchRules, rules, select
from tqstudio.errors import ErrorCode, TqError


def _touch(path: Path, size: int = 1, mtime: int = 0) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (mtime, mtime))
    return os.fsencode(path)


def _by(**more: object) -> SearchRules:
    given = {"recursive": False, "extensions": [], "limit": None, "order": "name"} | more
    return rules(**given)  # type: ignore[arg-type]


def test_folders_give_their_videos_in_name_order(tmp_path: Path) -> None:
    b, a = _touch(tmp_path / "b.mkv"), _touch(tmp_path / "a.MP4")
    _touch(tmp_path / "notes.txt")
    _touch(tmp_path / ".hidden.mp4")
    _touch(tmp_path / "half.mp4.part")
    deep = _touch(tmp_path / "deep" / "c.mp4")
    assert select([str(tmp_path)], _by()) == [a, b]
    assert select([str(tmp_path)], _by(recursive=True)) == [a, b, deep]


def test_what_may_be_meant_and_is_not_taken_is_reported(tmp_path: Path) -> None:
    _touch(tmp_path / "a.mp4")
    odd = _touch(tmp_path / "camera.xyz")
    deep = _touch(tmp_path / "deep" / "b.xyz")
    _touch(tmp_path / "a.srt")
    _touch(tmp_path / ".hidden.mp4")
    _touch(tmp_path / "half.mp4.part")
    _touch(tmp_path / "out" / "c.xyz")
    (tmp_path / "link.mp4").symlink_to("a.mp4")
    os.mkfifo(tmp_path / "pipe.mp4")
    reported: list[tuple[bytes, str]] = []
    by = _by(recursive=True, exclude=[str(tmp_path / "out")])
    select([str(tmp_path)], by, lambda path, why: reported.append((path, why)))
    named = dict(reported)
    assert set(named) == {odd, deep, os.fsencode(tmp_path / "link.mp4"), os.fsencode(tmp_path / "pipe.mp4")}
    assert "--ext" in named[odd]
    assert "link" in named[os.fsencode(tmp_path / "link.mp4")]
    reported.clear()
    select([str(tmp_path)], _by(extensions=["mp4"]), lambda path, why: reported.append((path, why)))
    assert os.fsencode(odd) not in dict(reported), "a user has named what is meant"


def test_bins_are_reported_once_and_taken_when_they_are_named(tmp_path: Path) -> None:
    film, deleted = _touch(tmp_path / "a/film.mp4"), _touch(tmp_path / "a/#recycle/old.mp4")
    for number in range(3):
        _touch(tmp_path / f"a/{number}/@eaDir/film.mp4/SYNOPHOTO_FILM_M.mp4")
    reported: list[bytes] = []
    by = _by(recursive=True)
    assert select([str(tmp_path)], by, lambda path, _: reported.append(path)) == [film]
    assert reported == [os.fsencode(tmp_path / "a/#recycle"), os.fsencode(tmp_path / "a/0/@eaDir")]
    assert select([str(tmp_path / "a/#recycle")], by) == [deleted]


@pytest.mark.parametrize("name", ["a.rm", "a.wtv", "a.ivf", "a.m2v", "a.h264", "a.dv"])
def test_what_ffmpeg_reads_is_taken(tmp_path: Path, name: str) -> None:
    named = _touch(tmp_path / name)
    assert select([str(tmp_path)], _by()) == [named]


def test_extensions_with_and_without_a_dot(tmp_path: Path) -> None:
    a, _, c = (_touch(tmp_path / name) for name in ("a.mp4", "b.mkv", "c.mxf"))
    assert select([str(tmp_path)], _by(extensions=["MP4", ".mxf"])) == [a, c]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    named = _touch(tmp_path / "recording.dat")
    assert select([str(tmp_path / "recording.dat")], _by()) == [named]


def test_a_path_is_taken_once(tmp_path: Path) -> None:
    a = _touch(tmp_path / "a.mp4")
    assert select(
        [str(tmp_path / "a.mp4"), str(tmp_path), f"{tmp_path}/../{tmp_path.name}/a.mp4"], _by()
    ) == [a]


def test_orders_and_limit(tmp_path: Path) -> None:
    big_old = _touch(tmp_path / "a.mp4", size=30, mtime=1)
    small_new = _touch(tmp_path / "b.mp4", size=10, mtime=3)
    middle = _touch(tmp_path / "c.mp4", size=20, mtime=2)
    assert select([str(tmp_path)], _by(order="size")) == [small_new, middle, big_old]
    assert select([str(tmp_path)], _by(order="mtime", limit=2)) == [big_old, middle]


def test_ladders_are_no_sources(tmp_path: Path) -> None:
    a = _touch(tmp_path / "a.mp4")
    _touch(tmp_path / "out" / "a" / "v1" / "720p" / "init.mp4")
    assert select([str(tmp_path)], _by(recursive=True, exclude=[str(tmp_path / "out")])) == [a]
    _touch(tmp_path / "older" / "v1" / "720p" / "init.mp4")
    _touch(tmp_path / "older" / "v1" / "720p" / "index.m3u8")
    _touch(tmp_path / "oldest" / ".owner")
    _touch(tmp_path / "oldest" / "master.m3u8")
    _touch(tmp_path / "oldest" / "v1" / "720p" / "damaged.mp4")
    assert select([str(tmp_path)], _by(recursive=True, exclude=[str(tmp_path / "out")])) == [a]


@pytest.mark.parametrize("folder", ["out", "out/a", "link"])
def test_an_output_is_no_input(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "out").mkdir()
    named = _touch(tmp_path / folder / "a.mp4")
    by = _by(exclude=[str(tmp_path / "out")])
    with pytest.raises(TqError, match="cannot be both input and output") as refused:
        select([str(tmp_path / folder)], by)
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert "-o" in refused.value.hint
    assert select([os.fsdecode(named)], by) == [named], "a file that is named is always taken"


def test_names_are_bytes(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9 \n [red].mp4"
    with open(odd, "wb") as file:
        file.write(b"x")
    assert select([os.fsdecode(odd)], _by()) == [odd]
    assert select([str(tmp_path)], _by()) == [odd]


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores modes")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(TqError) as refused:
        select([str(tmp_path / "closed")], _by())
    assert refused.value.code is ErrorCode.PERMISSION


def test_a_folder_with_videos_below_only_says_how_to_reach_them(tmp_path: Path) -> None:
    _touch(tmp_path / "deep" / "a.mp4")
    with pytest.raises(TqError, match="-r") as refused:
        select([str(tmp_path)], _by())
    assert refused.value.code is ErrorCode.NO_MEDIA
