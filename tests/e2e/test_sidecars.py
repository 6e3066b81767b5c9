"""Subtitle files beside a video are published with it, and taken along when they come later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import m3u8
import pytest

from .conftest import MakeClip, MakeStudio
from .studio import Studio
from .test_drop_folder import Drop

WORDS = "1\n00:00:00,500 --> 00:00:01,500\n{}\n"


def processed(studio: Studio, source: Path) -> Any:
    answer = studio(
        "process", "--input", source, "--output", studio.root / "out", "--profile", "tiny", "--json"
    )
    assert answer.code == 0, answer.err
    [video] = answer.last_line()["videos"]
    return video


def offered(video: Any) -> list[tuple[str, str, str | None]]:
    media = m3u8.load(video["master"]).media
    return [(each.name, each.language, each.forced) for each in media if each.type == "SUBTITLES"]


@pytest.mark.slow
def test_files_are_taken_along_when_they_come(make_studio: MakeStudio, clip: MakeClip, copy: Any) -> None:
    studio = make_studio().up()
    source: Path = copy(clip(seconds=2), "film.mp4")
    (source.parent / "film.de.srt").write_text(WORDS.format("hallo"))
    (source.parent / "film.it.srt").write_text("ciao")
    (source.parent / "film.es.srt").symlink_to(source.parent / "film.de.srt")
    video = processed(studio, source)
    left_out = [(each["code"], each["text"]) for each in video["warnings"]]
    assert [code for code, _ in left_out] == ["SUBTITLES_LEFT_OUT", "RENDITION_LEFT_OUT"]
    assert ["film.es.srt" in left_out[0][1], "film.it.srt" in left_out[1][1]] == [True, True]
    assert offered(video) == [("German", "de", None)]
    jobs = studio("job", "list", "--json").json()["jobs"]
    assert processed(studio, source)["warnings"] == video["warnings"]
    assert studio("job", "list", "--json").json()["jobs"] == jobs, "nothing has changed"
    (source.parent / "film.fr.forced.srt").write_text(WORDS.format("salut"))
    again = processed(studio, source)
    assert offered(again) == [("German", "de", None), ("French (forced)", "fr", "YES")]
    [newest] = {job["id"] for job in studio("job", "list", "--json").json()["jobs"]} - {jobs[0]["id"]}
    assert "finished: sub-fr; kept of the published ladder: " in studio("job", "log", str(newest)).out
    folder = Path(again["master"]).parent
    assert "salut" in (folder / "v2/sub-fr/seg_00000.vtt").read_text()
    assert "hallo" in (folder / "v2/sub-de/seg_00000.vtt").read_text()
    verified = studio("verify", "--full", studio.root / "out")
    assert verified.code == 0, verified.out
    (source.parent / "film.de.srt").unlink()
    assert offered(processed(studio, source)) == [("French (forced)", "fr", "YES")]


@pytest.mark.more
def test_a_drop_folder_takes_them_for_no_videos(
    make_studio: MakeStudio, clip: MakeClip, tmp_path: Path
) -> None:
    studio = make_studio().up()
    drop = Drop(studio, tmp_path / "in")
    (drop.path / "film.de.srt").write_text(WORDS.format("hallo"))
    drop.put(clip(seconds=2), "film.mp4")
    studio.done(drop.job())
    (drop.path / "film.fr.srt").write_text(WORDS.format("salut"))
    again = studio.do("retranscode", drop.job())["new_job"]
    studio.done(again)
    assert [job["id"] for job in drop.jobs()] == [drop.job(), again]
    assert drop.state()["skipped"] == []
    generation = studio.video_of(again)["generation"]
    assert [language for _, language, _ in offered(generation)] == ["de", "fr"]
