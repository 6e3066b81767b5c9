"""Putting ladders in their place, with real files."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import m3u8
import pytest

import tiny_media
from tqstudio.engine import outputs
from tqstudio.engine.media.check import digests
from tqstudio.engine.media.plan.file_names import (
    IFRAMES_NAME,
    INIT_NAME,
    PLAYLIST_NAME,
    POSTER_NAME,
    segment_name,
)
from tqstudio.engine.outputs import Place
from tqstudio.engine.outputs.generation import rows_of
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow
from tqstudio.errors import ErrorCode, TqError

from .ladders import Bench, put_in_place

Rows = tuple[PublishedRow, ...]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "out", "holiday")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "out" / ".tqstudio" / "uuid")


def publish(place: Place, bench: Bench, number: int = 1, **more: Any) -> Rows:
    return put_in_place(bench.work_dir, place, number, bench.manifest(**more))


def first(place: Place, bench: Bench) -> Rows:
    for name in ("720p", "360p", "audio-en"):
        bench.rendition(name, f"one-{name}")
    rows = publish(place, bench)
    bench.made.clear()
    return rows


def second(place: Place, bench: Bench, kept: Rows) -> Rows:
    """The next generation, with the lowest quality made again."""
    bench.rendition("360p", "two")
    return put_in_place(bench.work_dir, place, 2, bench.manifest(), kept, place.generation(1))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_ladder_is_published_and_can_be_read(place: Place, bench: Bench) -> None:
    rows = first(place, bench)
    assert [row.name for row in rows] == ["720p", "360p", "audio-en"]
    master = m3u8.load(str(place.master))
    assert master.is_variant
    assert sorted(p.uri for p in master.playlists) == ["v1/360p/index.m3u8", "v1/720p/index.m3u8"]
    for variant in master.playlists:
        info = variant.stream_info
        assert (info.bandwidth >= 120_000, info.average_bandwidth >= 100_000) == (True, True)
        assert info.resolution == (640, 360)
        assert info.codecs == "avc1.64001F,mp4a.40.2"
        assert round(info.frame_rate, 2) == 29.97
    [audio] = master.media
    assert (audio.type, audio.uri, audio.language, audio.default) == (
        "AUDIO",
        "v1/audio-en/index.m3u8",
        "en",
        "YES",
    )
    for playlist in [*(p.uri for p in master.playlists), audio.uri]:
        media = m3u8.load(str(place.folder / playlist))
        assert media.is_endlist
        assert [s.uri for s in media.segments] == [segment_name(k) for k in range(3)]
        assert media.segment_map[0].uri == INIT_NAME
        for segment in media.segments:
            assert ((place.folder / playlist).parent / segment.uri).stat().st_size > 0
    assert outputs.intact(place, 1, rows)
    assert [p.name for p in place.folder.iterdir() if p.name.startswith(".")] == []


def test_a_ladder_without_iframes_is_written_as_it_was(place: Place, bench: Bench) -> None:
    """Its playlists are compared byte by byte with what its rows give, and it must not be made again."""
    for name in ("360p", "audio-en"):
        bench.rendition(name, f"one-{name}")
    bench.made[1]["segments"][2]["duration_s"] = 7.0
    publish(place, bench)
    head = "#EXTM3U\n#EXT-X-VERSION:7\n"
    assert place.master.read_text() == (
        f"{head}#EXT-X-INDEPENDENT-SEGMENTS\n"
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="en",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,'
        'CHANNELS="2",URI="v1/audio-en/index.m3u8"\n'
        '#EXT-X-STREAM-INF:BANDWIDTH=240000,AVERAGE-BANDWIDTH=200000,CODECS="avc1.64001F,mp4a.40.2",'
        'RESOLUTION=640x360,FRAME-RATE=29.970,VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE,AUDIO="audio"\n'
        "v1/360p/index.m3u8\n"
    )
    for name, last, target in (("360p", 6, 6), ("audio-en", 7, 7)):
        assert (place.generation(1) / name / PLAYLIST_NAME).read_text() == (
            f"{head}#EXT-X-TARGETDURATION:{target}\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n"
            '#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI="init.mp4"\n'
            f"#EXTINF:6.000000,\nseg_00000.m4s\n#EXTINF:6.000000,\nseg_00001.m4s\n"
            f"#EXTINF:{last}.000000,\nseg_00002.m4s\n#EXT-X-ENDLIST\n"
        )
        assert not (place.generation(1) / name / IFRAMES_NAME).exists()


def test_the_playlists_of_a_ladder_with_iframes_share_the_target_duration(place: Place, bench: Bench) -> None:
    for name in ("360p", "audio-en"):
        bench.rendition(name, f"one-{name}", iframes=True)
    bench.made[1]["segments"][2]["duration_s"] = 7.0
    rows = publish(place, bench)
    assert outputs.intact(place, 1, rows)
    master = m3u8.load(str(place.master))
    assert [entry.uri for entry in master.iframe_playlists] == [f"v1/360p/{IFRAMES_NAME}"]
    for name in ("360p", "audio-en"):
        assert m3u8.load(str(place.generation(1) / name / PLAYLIST_NAME)).target_duration == 7
    iframes = m3u8.load(str(place.generation(1) / "360p" / IFRAMES_NAME))
    assert [(part.uri, part.byterange, part.duration) for part in iframes.segments] == [
        (file["name"], f"{file['size']}@0", 6.0) for file in bench.made[0]["segments"]
    ]


@pytest.mark.parametrize(("iframes", "language"), [(True, "en"), (False, None)])
def test_closed_captions_have_the_language_of_the_default_sound(
    place: Place, bench: Bench, iframes: bool, language: str | None
) -> None:
    for name in ("360p", "audio-en"):
        bench.rendition(name, f"one-{name}", iframes=iframes)
    bench.made[0]["role"] = "captions"
    assert outputs.intact(place, 1, publish(place, bench))
    [captions] = [each for each in m3u8.load(str(place.master)).media if each.type == "CLOSED-CAPTIONS"]
    assert captions.language == language


@pytest.mark.parametrize("name", [PLAYLIST_NAME, IFRAMES_NAME])
def test_a_playlist_that_was_edited_is_noticed(place: Place, bench: Bench, name: str) -> None:
    bench.rendition("360p", "one", iframes=True)
    rows = publish(place, bench)
    with (place.generation(1) / "360p" / name).open("a") as file:
        file.write("#")
    assert not outputs.intact(place, 1, rows)
    published = GenerationRow(1, "ladder", None, 0, rows)
    assert outputs.damaged(place, published, lambda: False) == {"360p"}


def test_qualities_of_an_earlier_version_are_kept_beside_those_with_iframes(
    place: Place, bench: Bench
) -> None:
    old = first(place, bench)
    bench.rendition("360p", "two", iframes=True)
    rows = put_in_place(bench.work_dir, place, 2, bench.manifest(), old, place.generation(1))
    assert outputs.intact(place, 2, rows)
    master = m3u8.load(str(place.master))
    assert [entry.uri for entry in master.iframe_playlists] == [f"v2/360p/{IFRAMES_NAME}"]
    outputs.undo(place, 2, rows, None)
    assert not place.generation(2).exists()


def test_segments_are_links_and_what_ffmpeg_may_overwrite_is_not(place: Place, bench: Bench) -> None:
    made = bench.rendition("360p", "one")
    publish(place, bench)
    store, out = bench.work_dir / made["folder"], place.generation(1) / "360p"
    assert (store / segment_name(0)).samefile(out / segment_name(0))
    assert not (store / INIT_NAME).samefile(out / INIT_NAME)
    (store / INIT_NAME).write_bytes(b"")
    assert (out / INIT_NAME).read_bytes() == tiny_media.init()


@pytest.mark.fault("The file system refuses hard links", "Files are copied", area="publishing")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP])
def test_where_links_are_refused_files_are_copied(
    place: Place, bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    made = bench.rendition("360p", "one")
    rows = publish(place, bench)
    store, out = bench.work_dir / made["folder"], place.generation(1) / "360p"
    assert (store / segment_name(0)).read_bytes() == (out / segment_name(0)).read_bytes()
    assert not (store / segment_name(0)).samefile(out / segment_name(0))
    assert outputs.intact(place, 1, rows)


def test_a_second_generation_keeps_what_is_unchanged(place: Place, bench: Bench) -> None:
    old = first(place, bench)
    before = tree(place.generation(1))
    kept = tuple(row for row in old if row.name != "360p")
    new = second(place, bench, kept)
    assert {row.name: row.settings_hash for row in new} == {
        "360p": "two",
        "720p": "one-720p",
        "audio-en": "one-audio-en",
    }
    assert tree(place.generation(1)) == before, "players in mid-stream keep playing"
    for row in kept:
        for name, *_ in row.files:
            old_file, new_file = (place.generation(n) / row.name / name for n in (1, 2))
            assert old_file.samefile(new_file)
    assert "v2/" in place.master.read_text()
    assert "v1/" not in place.master.read_text()
    assert outputs.intact(place, 2, new)
    assert not outputs.intact(place, 1, old), "the master no longer names it"
    outputs.remove(place, 1)
    assert outputs.intact(place, 2, new)
    assert sorted(p.name for p in place.folder.iterdir()) == ["master.m3u8", "v2"]


def test_what_is_made_again_wins_over_what_is_kept(place: Place, bench: Bench) -> None:
    new = second(place, bench, first(place, bench))
    assert [row.name for row in new].count("360p") == 1
    assert {row.name: row.settings_hash for row in new}["360p"] == "two"


@pytest.mark.fault(
    "A file of the result is missing or has another size",
    "`OUTPUT_INVALID`; not published",
    area="publishing",
)
@pytest.mark.parametrize("harm", ["gone", "short", "long", "no init", "short init"])
def test_a_result_that_is_not_whole_is_not_published(place: Place, bench: Bench, harm: str) -> None:
    first(place, bench)
    before = tree(place.folder)
    folder = bench.work_dir / bench.rendition("360p", "two")["folder"]
    match harm:
        case "gone":
            (folder / segment_name(1)).unlink()
        case "short":
            os.truncate(folder / segment_name(1), 3)
        case "long":
            with (folder / segment_name(1)).open("ab") as file:
                file.write(b"more")
        case "no init":
            (folder / INIT_NAME).unlink()
        case _:
            os.truncate(folder / INIT_NAME, 1)
    with pytest.raises(TqError) as caught:
        publish(place, bench, 2)
    assert caught.value.code is ErrorCode.OUTPUT_INVALID
    assert "360p/" in caught.value.message
    assert tree(place.folder) == before, "what plays keeps playing"


def test_a_kept_rendition_that_lost_a_file_is_not_published(place: Place, bench: Bench) -> None:
    old = first(place, bench)
    (place.generation(1) / "720p" / segment_name(0)).unlink()
    before = tree(place.folder)
    with pytest.raises(TqError) as caught:
        second(place, bench, old)
    assert caught.value.code is ErrorCode.OUTPUT_INVALID
    assert tree(place.folder) == before


@pytest.mark.parametrize("folder", ["../outside", "/etc", "segments/../../outside", "link"])
def test_a_folder_outside_the_store_is_refused(place: Place, bench: Bench, folder: str) -> None:
    made = bench.rendition("360p", "one")
    outside = bench.work_dir.parent / "outside"
    shutil.copytree(bench.work_dir / made["folder"], outside)
    (bench.work_dir / "link").symlink_to(outside)
    made["folder"] = folder
    with pytest.raises(TqError) as caught:
        publish(place, bench)
    assert caught.value.code is ErrorCode.OUTPUT_INVALID
    assert not place.master.exists()


@pytest.mark.parametrize("harm", ["segment", "init"])
def test_a_file_that_is_a_link_is_refused(place: Place, bench: Bench, tmp_path: Path, harm: str) -> None:
    """A link in the store would publish whatever it points to."""
    made = bench.rendition("360p", "one")
    file = bench.work_dir / made["folder"] / (segment_name(0) if harm == "segment" else INIT_NAME)
    secret = tmp_path / "secret"
    secret.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(secret)
    with pytest.raises(TqError) as caught:
        publish(place, bench)
    assert caught.value.code is ErrorCode.OUTPUT_INVALID


@pytest.mark.parametrize("poster", ["../../../secret", "/etc/hostname", "link.jpg"])
def test_a_poster_outside_the_store_is_not_taken(
    place: Place, bench: Bench, tmp_path: Path, poster: str
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    bench.rendition("360p", "one")
    (bench.work_dir / "link.jpg").symlink_to(tmp_path / "secret")
    publish(place, bench, poster=poster)
    assert not (place.generation(1) / POSTER_NAME).exists()


def test_the_poster_goes_along(place: Place, bench: Bench) -> None:
    bench.rendition("360p", "one")
    picture = b"\xff\xd8 picture \xff\xd9"
    (bench.work_dir / "poster.jpg").write_bytes(picture)
    publish(place, bench, poster="poster.jpg")
    assert (place.generation(1) / POSTER_NAME).read_bytes() == picture
    put_in_place(bench.work_dir, place, 2, bench.manifest(), kept_from=place.generation(1))
    assert (place.generation(2) / POSTER_NAME).read_bytes() == picture, "that of the generation before"


BOARD = {
    "storyboard.vtt": b"WEBVTT\n\n00:00:00.000 --> 00:00:18.000\nstoryboard-000.jpg#xywh=0,0,160,90\n",
    "storyboard-000.jpg": b"\xff\xd8 tiles \xff\xd9",
}


def storyboard_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("storyboard*")}


def store_board(work_dir: Path) -> Path:
    folder = work_dir / "segments" / "1" / "storyboard-key"
    folder.mkdir(parents=True)
    for name, content in BOARD.items():
        (folder / name).write_bytes(content)
    return folder


def test_the_storyboard_goes_along_if_it_is_to(place: Place, bench: Bench) -> None:
    bench.rendition("360p", "one")
    made = str(store_board(bench.work_dir).relative_to(bench.work_dir))
    publish(place, bench, storyboard=made)
    assert storyboard_of(place.generation(1)) == BOARD
    assert set(BOARD) < set(digests.read(place.generation(1) / digests.SUMS_NAME))
    for number, keep in ((2, True), (3, False)):
        manifest = bench.manifest(keep_storyboard=keep)
        put_in_place(bench.work_dir, place, number, manifest, kept_from=place.generation(1))
        assert storyboard_of(place.generation(number)) == (BOARD if keep else {})


@pytest.mark.parametrize("harm", ["outside", "link", "half", "sprite gone"])
def test_a_storyboard_that_is_not_whole_or_ours_is_not_taken(
    place: Place, bench: Bench, tmp_path: Path, harm: str
) -> None:
    bench.rendition("360p", "one")
    folder = store_board(bench.work_dir)
    sprite = folder / "storyboard-000.jpg"
    if harm == "outside":
        folder.rename(tmp_path / "running_jobs")
        folder.symlink_to(tmp_path / "running_jobs")
    elif harm == "half":
        sprite.write_bytes(BOARD[sprite.name][:-1])
    else:
        sprite.rename(tmp_path / "sprite")
    if harm == "link":
        sprite.symlink_to(tmp_path / "sprite")
    publish(place, bench, storyboard=str(folder.relative_to(bench.work_dir)))
    assert storyboard_of(place.generation(1)) == {}


PARTS = [{"start_s": 0.0, "end_s": 1.5, "title": "one", "language": "en"}]


def test_chapters_are_named_by_the_master_of_their_generation(place: Place, bench: Bench) -> None:
    bench.rendition("360p", "one")
    rows = publish(place, bench, chapters=PARTS)
    [data] = m3u8.load(str(place.master)).session_data
    assert (data.data_id, data.uri) == ("com.apple.hls.chapters", "v1/chapters.json")
    assert json.loads((place.folder / data.uri).read_bytes()) == [
        {"chapter": 1, "start-time": 0.0, "duration": 1.5, "titles": [{"language": "en", "title": "one"}]}
    ]
    cue = "WEBVTT\n\n1\n00:00:00.000 --> 00:00:01.500\none\n"
    assert (place.generation(1) / "chapters.vtt").read_text() == cue
    assert outputs.intact(place, 1, rows)
    before = tree(place.folder)
    later = put_in_place(bench.work_dir, place, 2, bench.manifest(), kept_from=place.generation(1))
    assert m3u8.load(str(place.master)).session_data == []
    assert outputs.intact(place, 2, later)
    outputs.undo(place, 2, later, recorded(rows))
    assert tree(place.folder) == before
    (place.generation(1) / "chapters.json").unlink()
    assert not outputs.intact(place, 1, rows)


@pytest.mark.fault("The poster is cut short", "It is not published", area="publishing")
def test_half_a_poster_is_not_taken(place: Place, bench: Bench) -> None:
    bench.rendition("360p", "one")
    (bench.work_dir / "poster.jpg").write_bytes(b"\xff\xd8 half a pict")
    publish(place, bench, poster="poster.jpg")
    assert not (place.generation(1) / POSTER_NAME).exists()


def test_a_folder_that_is_there_is_not_written_over(place: Place, bench: Bench) -> None:
    place.generation(1).mkdir(parents=True)
    (place.generation(1) / "diary").write_bytes(b"dear diary")
    assert outputs.first_free(place, 1) == 2
    bench.rendition("360p", "one")
    with pytest.raises(OSError, match="not empty"):
        publish(place, bench)
    assert tree(place.folder) == {"v1/diary": b"dear diary"}, "nor is it taken for ours and removed"


def test_what_a_killed_publish_left_is_swept(place: Place, bench: Bench) -> None:
    rows = first(place, bench)
    before = tree(place.folder)
    for left in (place.building(7), place.building(2)):
        left.mkdir()
        (left / "part").write_bytes(b"part")
    place.next_master.write_bytes(b"#EXT")
    (place.folder / ".mine").touch()
    outputs.sweep(place)
    assert tree(place.folder) == before | {".mine": b""}
    assert outputs.intact(place, 1, rows)


# Taking it back


def recorded(rows: Rows) -> GenerationRow:
    return GenerationRow(1, "ladder", None, 0, rows)


@pytest.mark.parametrize("steps", range(4))
def test_whatever_step_was_the_last_it_is_undone(place: Place, bench: Bench, steps: int) -> None:
    old = first(place, bench)
    before = tree(place.folder)
    bench.rendition("360p", "two")
    manifest = bench.manifest()
    rows = rows_of(manifest, old)
    if steps > 0:
        outputs.build(bench.work_dir, place, 2, manifest, rows, place.generation(1))
    if steps > 1:
        outputs.rename_to_final(place, 2)
    if steps > 2:
        outputs.set_current(place, 2, rows)
    for _ in range(2):
        outputs.undo(place, 2, rows, recorded(old))
        assert tree(place.folder) == before
        assert outputs.intact(place, 1, old)


def test_undoing_a_first_ladder_leaves_none(place: Place, bench: Bench) -> None:
    rows = first(place, bench)
    outputs.undo(place, 1, rows, None)
    assert tree(place.folder) == {}


@pytest.mark.fault("Deleting an old generation is interrupted", "It continues later", area="publishing")
@pytest.mark.parametrize("half", ["v1 is gone", "the trash is half gone"])
def test_a_removal_that_was_ended_continues(place: Place, bench: Bench, half: str) -> None:
    new = second(place, bench, first(place, bench))
    place.generation(1).rename(place.trash(1))
    if half == "the trash is half gone":
        shutil.rmtree(place.trash(1) / "720p")
    outputs.remove(place, 1)
    outputs.remove(place, 1)
    assert sorted(p.name for p in place.folder.iterdir()) == ["master.m3u8", "v2"]
    assert outputs.intact(place, 2, new)


# The master


def test_the_master_is_replaced_in_one_step(
    place: Place, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every call that changes the folder a player finds a master whose generation is complete."""
    old = first(place, bench)
    seen: list[str] = []

    def look() -> None:
        text = place.master.read_text()
        number = 1 if "v1/" in text else 2
        seen.append(f"v{number}")
        for playlist in m3u8.loads(text).playlists:
            for segment in m3u8.load(str(place.folder / playlist.uri)).segments:
                assert ((place.folder / playlist.uri).parent / segment.uri).exists()

    for name in ("rename", "replace"):
        original = getattr(Path, name)

        def watched(self: Path, target: Path, original: Any = original) -> Any:
            look()
            result = original(self, target)
            look()
            return result

        monkeypatch.setattr(Path, name, watched)
    second(place, bench, old)
    assert seen == ["v1", "v1", "v1", "v2"]


@pytest.mark.fault(
    "The output may not be written", "`PUBLISH_FAILED`, retried; the old ladder plays", area="publishing"
)
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ErrorCode.DISK_LOW),
        (errno.EDQUOT, ErrorCode.DISK_LOW),
        (errno.EROFS, ErrorCode.OUTPUT_UNAVAILABLE),
        (errno.EIO, ErrorCode.OUTPUT_UNAVAILABLE),
        (errno.ENOENT, ErrorCode.PUBLISH_FAILED),
        (errno.EACCES, ErrorCode.PUBLISH_FAILED),
    ],
)
def test_an_output_that_cannot_be_written(place: Place, number: int, code: ErrorCode) -> None:
    error = outputs.unwritable(place, OSError(number, os.strerror(number)))
    assert error.code is code
    assert str(place.folder) in error.message


@pytest.mark.parametrize(
    "harm",
    [
        *("segment gone", "segment short", "segment a hole", "segment twice", "segment elsewhere"),
        *("playlist gone", "playlist edited", "playlist shorter", "init empty", "init other"),
        *("master gone", "master other", "master edited"),
    ],
)
def test_what_no_longer_plays_is_not_intact(place: Place, bench: Bench, harm: str) -> None:
    rows = first(place, bench)
    folder = place.generation(1) / "360p"
    match harm:
        case "segment gone":
            (folder / segment_name(2)).unlink()
        case "segment short":
            file = folder / segment_name(2)
            file.unlink()
            file.write_bytes(b"x")
        case "segment a hole":
            file = folder / segment_name(2)
            size = file.stat().st_size
            file.unlink()
            file.write_bytes(bytes(size))
        case "segment twice":
            (folder / segment_name(2)).unlink()
            shutil.copy(folder / segment_name(1), folder / segment_name(2))
        case "segment elsewhere":
            # Not one byte more or less, and its boxes are whole.
            file = folder / segment_name(2)
            found = file.read_bytes()
            file.unlink()
            file.write_bytes(tiny_media.segment(7, found.rpartition(b"mdat")[2]))
            assert file.stat().st_size == len(found)
        case "playlist edited":
            playlist = folder / PLAYLIST_NAME
            playlist.write_text(playlist.read_text().replace(segment_name(1), segment_name(9)))
        case "playlist shorter":
            playlist = folder / PLAYLIST_NAME
            playlist.write_text(playlist.read_text().replace(f"#EXTINF:6.000000,\n{segment_name(2)}\n", ""))
        case "init other":
            (folder / INIT_NAME).write_bytes(tiny_media.init(width=320))
        case "master edited":
            text = place.master.read_text()
            place.master.write_text(text.replace("v1/360p/", "v1/361p/"))
        case "playlist gone":
            (folder / PLAYLIST_NAME).unlink()
        case "init empty":
            os.truncate(folder / INIT_NAME, 0)
        case "master gone":
            place.master.unlink()
        case _:
            place.master.write_text("#EXTM3U\nv11/360p/index.m3u8\n")
    assert not outputs.intact(place, 1, rows)


def test_nothing_published_is_not_intact(place: Place) -> None:
    assert not outputs.intact(place, 1, [])


# Whose folder it is


def test_a_free_folder_becomes_the_owners(place: Place) -> None:
    assert outputs.own(place, "uuid 1", None) == place
    assert outputs.own(place, "uuid 1", None) == place


@pytest.mark.fault(
    "A folder of someone else is in the way", "It is left alone; another name is used", area="publishing"
)
def test_a_folder_of_another_is_left_alone(place: Place) -> None:
    outputs.own(place, "uuid 1", None)
    second = outputs.own(place, "uuid 2", None)
    assert second.slug == "holiday-2"
    assert outputs.own(place, "uuid 3", 1).slug == "holiday-3"
    assert outputs.own(place, "uuid 2", None) == second


def test_a_users_folder_is_left_alone(place: Place) -> None:
    place.folder.mkdir(parents=True)
    (place.folder / "diary.txt").write_text("dear diary")
    assert outputs.own(place, "uuid 1", None).slug == "holiday-2"
    assert tree(place.folder) == {"diary.txt": b"dear diary"}


def test_a_folder_whose_note_was_lost_is_known_by_its_generation(place: Place) -> None:
    place.generation(3).mkdir(parents=True)
    assert outputs.own(place, "uuid 1", 3) == place


@pytest.mark.parametrize("between", ["ladder", "link", "file"])
def test_a_ladder_is_never_put_into_another_one(tmp_path: Path, between: str) -> None:
    """A file `acme.mp4` beside the folder `acme`, in an output whose template contains the folder."""
    outer, inner = Place(tmp_path / "out", "acme"), Place(tmp_path / "out", "acme/v1")
    (tmp_path / "out").mkdir()
    if between == "ladder":
        assert outputs.own(outer, "uuid 1", None) == outer
    elif between == "link":
        outer.folder.symlink_to(tmp_path)
    else:
        outer.folder.write_bytes(b"of a person")
    beside = outputs.own(inner, "uuid 2", None)
    assert (beside.slug, (beside.folder / ".owner").read_text()) == ("acme-v1", "uuid 2")
    assert outputs.own(inner, "uuid 2", None) == beside
    assert outputs.own(inner, "uuid 3", None).slug == "acme-v1-2"


def test_a_folder_that_holds_ladders_becomes_none(tmp_path: Path) -> None:
    outer, inner = Place(tmp_path, "acme"), Place(tmp_path, "acme/2024/film")
    assert outputs.own(inner, "uuid 1", None) == inner
    assert outputs.own(inner, "uuid 2", None).slug == "acme/2024/film-2"
    assert outputs.own(outer, "uuid 3", None).slug == "acme-2"
    with inner.hold() as held:
        assert held.folder.samefile(tmp_path / "acme/2024/film")


@pytest.mark.fault(
    "It empties the `.owner` file of a new folder", "The folder is used again", area="power cuts"
)
def test_a_folder_whose_note_a_power_cut_emptied_has_no_owner(place: Place) -> None:
    place.folder.mkdir(parents=True)
    (place.folder / ".owner").touch()
    assert outputs.own(place, "uuid 1", None) == place
    assert tree(place.folder) == {".owner": b"uuid 1"}


def test_a_ladder_whose_note_is_empty_stays_another_ones(place: Place, bench: Bench) -> None:
    first(place, bench)
    (place.folder / ".owner").write_bytes(b"")
    assert outputs.own(place, "uuid 1", None).slug == "holiday-2"


def test_a_file_in_the_place_of_the_folder(place: Place) -> None:
    place.output_root.mkdir()
    place.folder.write_text("a file")
    assert outputs.own(place, "uuid 1", None).slug == "holiday-2"
    assert place.folder.read_text() == "a file"


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)
