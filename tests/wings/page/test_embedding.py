"""`tqstudio embed`: a player page beside ladders, which nothing else of tqstudio minds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.wings.page import embedding
from waiting import until

from .conftest import Film

NAMES = ("index.html", "player.js")


def test_a_page_is_written_and_written_again(film: Film, planted: Path) -> None:
    answer = film.studio("embed", planted)
    assert answer.out == f"{planted}/index.html\n"
    page, script = ((planted / name).read_text() for name in NAMES)
    assert "<style>:root" in page
    assert "function play(" in script
    assert ("hls.js\n" in script and "Apache" in script) is embedding.has_hls_js()
    (planted / "player.js").write_text("of another version")
    assert film.studio("embed", planted).code == 0
    assert (planted / "player.js").read_text() == script
    assert not [*planted.glob(".*-next")]
    assert verify_ladder(planted / "master.m3u8", every_byte=True).ok


def test_beside_each_ladder_of_a_folder(film: Film, planted: Path, tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        shutil.copytree(planted, tmp_path / "out" / name)
    (tmp_path / "out" / "film").mkdir()
    (tmp_path / "out" / "link").symlink_to(planted)
    pages = film.studio("embed", tmp_path / "out", "--json").json()["pages"]
    assert pages == [f"{tmp_path}/out/{name}/index.html" for name in ("a", "b/c")]
    assert not (planted / "index.html").exists()


@pytest.mark.parametrize("given", ["nothing", "empty", "foreign", "s3://films/vod"])
def test_a_folder_that_is_no_ladder_of_ours_is_refused(film: Film, tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "master.m3u8").write_text("#EXTM3U\n")
    answer = film.studio("embed", given if ":" in given else tmp_path / given)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert not [*tmp_path.rglob("*.html")]


@pytest.mark.parametrize("name", NAMES)
def test_files_of_other_people_stay(planted: Path, name: str) -> None:
    (planted / name).write_text("mine")
    with pytest.raises(TqError, match="has another"):
        embedding.write(planted)
    assert (planted / name).read_text() == "mine"
    (planted / name).unlink()
    (planted / name).symlink_to(planted / "master.m3u8")
    with pytest.raises(TqError):
        embedding.write(planted)
    assert (planted / "master.m3u8").read_text().startswith("#EXTM3U")


@pytest.mark.parametrize("name", ["index.html", "player.js"])
def test_nothing_is_written_where_one_of_several_is_refused(
    film: Film, planted: Path, tmp_path: Path, name: str
) -> None:
    for each in "ab":
        shutil.copytree(planted, tmp_path / each)
    (tmp_path / "b" / name).mkdir()
    answer = film.studio("embed", tmp_path)
    assert answer.code == 4
    assert f"{tmp_path}/b has another index.html or player.js" in answer.err
    assert not (tmp_path / "a" / name).exists()


def test_errors_name_the_folder_and_no_descriptor(film: Film, planted: Path, tmp_path: Path) -> None:
    ladder = tmp_path / "a"
    shutil.copytree(planted, ladder)
    (ladder / ".player.js-next").mkdir()
    answer = film.studio("embed", tmp_path)
    assert f"{ladder} cannot be written to: " in answer.err
    (ladder / ".owner").unlink()
    (ladder / ".owner").mkdir()
    answer = film.studio("embed", tmp_path)
    assert f"{ladder}/.owner cannot be read: " in answer.err


@pytest.mark.slow
def test_a_new_version_keeps_it_and_deletion_takes_it_along(film: Film, tmp_path: Path) -> None:
    studio = film.studio
    source = Path(shutil.copyfile(film.source, tmp_path / "again.mkv"))
    job = studio.done(studio.add(source))
    folder, video = Path(job["video_view"]["generation"]["master"]).parent, job["video_view"]["id"]
    embedding.write(folder)
    page = (folder / "index.html").read_bytes()
    studio.done(studio.do("retranscode", job["id"])["new_job"])
    assert (folder / "v2").is_dir()
    assert (folder / "index.html").read_bytes() == page
    assert verify_ladder(folder / "master.m3u8").ok
    studio.client.send(calls.delete_video(video))
    until(lambda: not folder.exists(), "the ladder is gone, with its page")
    studio.client.send(calls.undelete_video(video))
    until(lambda: (folder / "index.html").is_file(), "it is back, with its page")
    studio.client.send(calls.delete_video(video))
