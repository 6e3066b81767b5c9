"""File names as bytes: which are videos, how they are shown, how they travel."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio import paths as sources
from tqstudio import source_files
from tqstudio.errors import ErrorCode, TqError

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls, formats, surrogates, private and unassigned characters, and separators of lines."""

paths = st.binary(min_size=1).filter(lambda path: b"\0" not in path)


@given(paths)
def test_a_path_survives_the_way_through_a_message(path: bytes) -> None:
    assert sources.decode(sources.encode(path)) == path
    assert sources.decode(sources.encode(os.fsdecode(path))) == path


@given(st.text())
def test_what_is_no_path_is_refused(text: str) -> None:
    try:
        decoded = sources.decode(text)
    except ValueError:
        return
    assert decoded
    assert b"\0" not in decoded


@pytest.mark.parametrize("text", ["", "a", "!!!!", "AA==", "L3gAeQ==", "é", "L3g\n"])
def test_texts_that_are_no_paths(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text of base64's own errors is not ours
        sources.decode(text)


@given(paths)
def test_every_path_can_be_shown_on_one_line(path: bytes) -> None:
    shown = sources.display(path)
    assert shown.encode("utf-8")
    assert len(shown.splitlines()) == 1
    assert {unicodedata.category(c) for c in shown if c not in "\u200c\u200d"}.isdisjoint(UNSEEN)


@given(st.text().filter(lambda text: text and "\0" not in text))
def test_a_path_that_is_text_is_data_as_it_is(text: str) -> None:
    assert sources.data(text.encode()) == text
    assert sources.data(text) == text


@pytest.mark.parametrize("typed", ["s3:/films/vod", "GS:/films", "file:/srv/vod"])
def test_an_address_with_one_slash_is_no_folder(typed: str) -> None:
    with pytest.raises(TqError) as refused:
        sources.absolute(typed)
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert f"write {typed.replace(':/', '://')}" in refused.value.hint
    assert sources.absolute(f"./{typed}") == os.path.abspath(typed)


def test_of_a_path_that_is_no_text_data_is_a_description() -> None:
    assert sources.data(b"/in/caf\xe9\n.mp4") == "/in/caf\\xe9\\n.mp4"
    assert sources.data(os.fsdecode(b"caf\xe9")) == "caf\\xe9"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/in/a b'c\"d.mp4", "/in/a b'c\"d.mp4"),
        ("/in/é.mp4".encode(), "/in/é.mp4"),
        ("/in/é\n.mp4".encode(), "/in/é\\n.mp4"),
        (b"/in/caf\xe9.mp4", "/in/caf\\xe9.mp4"),
        (b"/in/[red]x.mp4", "/in/[red]x.mp4"),
        (b"/in/\x1b[31m.mp4", "/in/\\x1b[31m.mp4"),
        ("/in/\u202egpj.mp4".encode(), "/in/\\u202egpj.mp4"),
        ("/in/東京\u3000旅行.mp4".encode(), "/in/東京\u3000旅行.mp4"),
        ("/in/3.05.10\u202fPM\u00a0.mp4".encode(), "/in/3.05.10\u202fPM\u00a0.mp4"),
        ("/in/می\u200cخواهم.mp4".encode(), "/in/می\u200cخواهم.mp4"),
        ("/in/👨\u200d👩\u200d👧.mp4".encode(), "/in/👨\u200d👩\u200d👧.mp4"),
        ("/in/\u3000\x1b.mp4".encode(), "/in/\u3000\\x1b.mp4"),
        ("/in/a\u200b\ufeff\u00ad\u2066\u061c.mp4".encode(), "/in/a\\u200b\\ufeff\\xad\\u2066\\u061c.mp4"),
        ("/in/a\u2028\x85\U000e0041.mp4".encode(), "/in/a\\u2028\\x85\\U000e0041.mp4"),
    ],
)
def test_how_names_are_shown(path: bytes, shown: str) -> None:
    assert sources.display(path) == shown


@pytest.mark.parametrize("name", [b"a.mp4", b"A.MKV", b"-y.mp4", b"%03d.mp4", b"a.part.mp4", b"\xff.webm"])
def test_names_of_videos(name: bytes) -> None:
    assert source_files.is_video_name(name)


@pytest.mark.parametrize(
    "name",
    [
        b"a.txt",
        b"mp4",
        b".mp4",
        b".hidden.mp4",
        b"a.mp4.part",
        b"a.mp4~",
        b"a.MP4.CRDOWNLOAD",
        b"a.tmp",
        b"a.mp4.filepart",
        b"a",
    ],
)
def test_names_of_other_things(name: bytes) -> None:
    assert not source_files.is_video_name(name)


def test_a_walk_enters_folders_in_order_and_follows_no_links(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    for name in (
        b"b.mp4",
        b"a.mp4",
        b"sub/c.mkv",
        b"sub/deep/d.mov",
        b".hidden/e.mp4",
        b"caf\xe9.mp4",
        b"n.txt",
    ):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"video")
    os.symlink(os.path.join(root, b"a.mp4"), os.path.join(root, b"link.mp4"))
    os.symlink(os.path.join(root, b"sub"), os.path.join(root, b"linked"))
    os.mkfifo(os.path.join(root, b"fifo.mp4"))

    def found(*, recursive: bool) -> list[bytes]:
        return [os.path.relpath(path, root) for path in source_files.walk(root, recursive=recursive)]

    assert found(recursive=False) == [b"a.mp4", b"b.mp4", b"caf\xe9.mp4"]
    assert found(recursive=True) == [b"a.mp4", b"b.mp4", b"caf\xe9.mp4", b"sub/c.mkv", b"sub/deep/d.mov"]
    assert list(source_files.walk(root + b"/nowhere", recursive=True)) == []


def _published(folder: Path) -> None:
    """A ladder as it lies on disk, as far as names go."""
    quality = folder / "v1" / "240p"
    quality.mkdir(parents=True)
    for path in (folder / ".owner", folder / "master.m3u8", folder / "v1/poster.jpg"):
        path.touch()
    for name in ("index.m3u8", "init.mp4", "seg_00000.m4s"):
        (quality / name).touch()


def test_ladders_are_no_sources_and_videos_beside_them_are(tmp_path: Path) -> None:
    _published(tmp_path / "out/film")
    (tmp_path / "out/film/v1/extra.mp4").touch()
    (tmp_path / "out/.tqstudio/u/segments/1/240p").mkdir(parents=True)
    (tmp_path / "out/.tqstudio/u/segments/1/240p/init.mp4").touch()
    # Qualities that lost what stands around them, and what another program wrote.
    (tmp_path / "part").mkdir()
    os.rename(tmp_path / "out/film/v1/240p", tmp_path / "part/240p")
    for name in ("half/init.mp4", "half/chunk_7.m4s", "half/film.mp4", "own/init.mp4", "own/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    found = source_files.walk(os.fsencode(tmp_path), recursive=True)
    assert [os.path.relpath(path, os.fsencode(tmp_path)) for path in found] == [
        b"half/film.mp4",
        b"own/init.mp4",
    ]


def test_a_folder_that_is_named_is_looked_into_though_a_ladder_lies_in_it(tmp_path: Path) -> None:
    _published(tmp_path)
    (tmp_path / "a.mp4").touch()
    assert list(source_files.walk(os.fsencode(tmp_path), recursive=True)) == [os.fsencode(tmp_path / "a.mp4")]


def test_a_walk_enters_no_bin_and_names_it(tmp_path: Path) -> None:
    for name in ("#recycle/a.mp4", "@eaDir/b.mp4/SYNOPHOTO_FILM_M.mp4", "c.mp4.!qB", "d.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    skipped: list[bytes] = []
    found = list(source_files.walk(os.fsencode(tmp_path), recursive=True, skipped=skipped.append))
    assert found == [os.fsencode(tmp_path / "d.mp4")]
    assert skipped == [os.fsencode(tmp_path / "#recycle"), os.fsencode(tmp_path / "@eaDir")]
    inside = source_files.walk(os.fsencode(tmp_path / "#recycle"), recursive=True)
    assert list(inside) == [os.fsencode(tmp_path / "#recycle/a.mp4")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (b"Holiday/VIDEO_TS/VTS_01_1.VOB", b"Holiday VTS_01_1.VOB"),
        (b"Holiday/vts_02_3.vob", b"Holiday vts_02_3.vob"),
        (b"a/Alps/PRIVATE/AVCHD/BDMV/STREAM/00000.MTS", b"Alps 00000.MTS"),
        (b"Alps/BDMV/STREAM/00001.m2ts", b"Alps 00001.m2ts"),
        (b"Alps/DCIM/100CANON/MVI_0001.MP4", b"Alps MVI_0001.MP4"),
        (b"Alps/DCIM/100GOPRO/GX010001.MP4", b"Alps GX010001.MP4"),
        (b"Alps/M4ROOT/CLIP/C0001.MP4", b"Alps C0001.MP4"),
        (b"Alps/IMG_0001.MOV", b"Alps IMG_0001.MOV"),
        (b"caf\xe9/DJI_20240102030405_0001_D.MP4", b"DJI_20240102030405_0001_D.MP4"),
        (b"caf\xe9/DJI_0001.MP4", b"caf\xe9 DJI_0001.MP4"),
        (b"IMG_0001.MOV", b"IMG_0001.MOV"),
        (b"VIDEO_TS/VTS_01_1.VOB", b"VTS_01_1.VOB"),
        (b"Films/Holiday.mp4", b"Holiday.mp4"),
        (b"Films/2012.mp4", b"2012.mp4"),
        (b"Films/Part 0001.mp4", b"Part 0001.mp4"),
    ],
)
def test_parts_of_discs_and_cameras_are_named_by_their_folder(path: bytes, name: bytes) -> None:
    assert source_files.film_name(b"/in/" + path, b"/in") == name


def test_without_a_drop_folder_what_is_around_a_disc_or_card_names_its_parts() -> None:
    assert source_files.film_name(b"/media/Holiday/VIDEO_TS/VTS_01_1.VOB") == b"Holiday VTS_01_1.VOB"
    assert source_files.film_name(b"/media/EOS/DCIM/100CANON/MVI_0001.MP4") == b"EOS MVI_0001.MP4"
    assert source_files.film_name(b"/home/u/Videos/MVI_0001.MP4") == b"MVI_0001.MP4"
    for path in (b"VTS_01_1.VOB", b"/VTS_01_1.VOB", b"/VIDEO_TS/VTS_01_1.VOB"):
        assert source_files.film_name(path) == b"VTS_01_1.VOB"
