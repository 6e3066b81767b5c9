"""A podcast becomes a ladder of bit rates with its cover, whatever happens to the worker meanwhile."""

from __future__ import annotations

import cmath
import os
import shutil
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import m3u8
import pytest

from harness import until_ended
from media.conftest import run_ffmpeg
from media.test_sound_alone import AAC_FRAME_S, BEEPS, RATE, SECONDS, SOUND, Heard, decoded
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeStudio
from .ladder import segments_of
from .studio import Studio
from .test_dash import frames_of

NAMES = ["160k", "128k", "64k"]
TONES = {"eng": 440, "fra": 1000, "ger": 2500}
"""In Hz: of each track of a book."""


@pytest.fixture
def podcast(ffmpeg: str, tmp_path: Path) -> Path:
    """An MP3 with a cover and two chapters."""
    cover, parts, path = tmp_path / "cover.png", tmp_path / "parts.txt", tmp_path / "podcast.mp3"
    run = FFmpeg(ffmpeg, "", "")
    run_ffmpeg(run, "-f", "lavfi", "-i", "testsrc2=s=320x320", "-frames:v", "1", str(cover))
    parts.write_text(
        ";FFMETADATA1\n"
        + "".join(f"[CHAPTER]\nTIMEBASE=1/1\nSTART={at}\nEND={at + 2}\ntitle=part {at}\n" for at in (0, 2))
    )
    inputs = (*SOUND, "-i", str(cover), "-i", str(parts), "-map", "0", "-map", "1", "-map_metadata", "2")
    run_ffmpeg(run, *inputs, "-c:v", "copy", "-disposition:v", "attached_pic", "-b:a", "160k", str(path))
    return path


def heard(index: Path) -> Heard:
    init, paths, _ = segments_of(index)
    return decoded(init + b"".join(path.read_bytes() for path in paths))


def picture(path: Path) -> bytes:
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        assert (frame.width, frame.height) == (320, 320)
        return bytes(frame.reformat(format="rgb24").planes[0])


def as_heard_before(studio: Studio, job: int, source: Path, names: list[str]) -> None:
    """Check what is published against the source, which ffmpeg's encoders have not made again."""
    generation = studio.video_of(job)["generation"]
    master, before = Path(generation["master"]), decoded(source)
    verified = studio("verify", "--full", "--json", master)
    assert verified.code == 0, verified.out
    assert '"fail"' not in verified.out
    variants = m3u8.load(str(master)).playlists
    assert [Path(variant.uri).parent.name for variant in variants] == names
    for variant in variants:
        info, now = variant.stream_info, heard(master.parent / variant.uri)
        assert (info.codecs, info.resolution, info.frame_rate) == ("mp4a.40.2", None, None)
        _, paths, playlist = segments_of(master.parent / variant.uri)
        sizes = [path.stat().st_size * 8 for path in paths]
        length = sum(part.duration for part in playlist.segments)
        assert info.average_bandwidth == pytest.approx(sum(sizes) / length, rel=0.01)
        peaks = [size / part.duration for size, part in zip(sizes, playlist.segments, strict=True)]
        assert info.bandwidth >= max(peaks[:-1]) * 0.999
        assert abs(now.ends - 10 - SECONDS) <= AAC_FRAME_S
        assert [at - 10 for at in now.beeps] == pytest.approx(BEEPS, abs=0.005)
        assert now.levels == pytest.approx(before.levels, abs=0.5)


@pytest.mark.slow
@pytest.mark.fault("A worker is killed in sound alone", "A new worker encodes it", area="resume")
def test_a_podcast_outlives_its_worker(make_studio: MakeStudio, podcast: Path) -> None:
    studio = make_studio().up()
    with studio.paced(1):
        job = studio.add(podcast)
        encoders = studio.running(job)
        os.kill(studio.worker()["pid"], signal.SIGKILL)
        until_ended(encoders)
        studio.wait(job, "pending", "in_progress")
    done = studio.done(job)
    assert (done["crashes"], done["attempts"], done["warnings"]) == (1, 0, [])
    assert [row["name"] for row in done["renditions"]] == NAMES
    assert {row["status"] for row in done["renditions"]} == {"completed"}
    assert (done["source"]["width"], done["source"]["fps"]) == (0, None)
    as_heard_before(studio, job, podcast, NAMES)
    generation = done["video_view"]["generation"]
    before, poster = picture(podcast), picture(Path(generation["poster"]))
    assert sum(abs(a - b) for a, b in zip(before, poster, strict=True)) / len(before) < 4
    assert (Path(generation["master"]).parent / "v1" / "chapters.json").is_file()
    assert not list((Path(generation["master"]).parent / "v1").glob("storyboard*"))
    assert studio.offer(podcast)[0]["decision"] == "cached"


@pytest.mark.more
def test_qualities_of_sound_are_encoded_again_and_dropped(shared: Studio, podcast: Path, ffmpeg: str) -> None:
    job = shared.add(podcast)
    shared.done(job)
    refused = shared.act("retranscode", job, renditions=["720p"])
    assert refused["error"]["code"] == "REFUSED"
    assert shared.act("retranscode", job, drop=NAMES)["error"]["code"] == "REFUSED"
    second = shared.do("retranscode", job, drop=["64k"])["new_job"]
    shared.done(second)
    as_heard_before(shared, job, podcast, NAMES[:-1])
    third = shared.do("retranscode", second, renditions=["64k"])["new_job"]
    shared.done(third)
    as_heard_before(shared, job, podcast, NAMES)
    generations = Path(shared.video_of(job)["generation"]["master"]).parent
    assert (generations / "v3" / "poster.jpg").is_file()
    run_ffmpeg(FFmpeg(ffmpeg, "", ""), *SOUND, "-b:a", "128k", str(podcast))
    shared.done(shared.add(podcast))
    as_heard_before(shared, job, podcast, ["128k", "64k"])
    assert not (generations / "v4" / "poster.jpg").exists(), "that was the cover of another podcast"


def tones_of(index: Path) -> set[int]:
    """The tones of a rendition, each by the number of its periods in a second."""
    part = heard(index).left[RATE : 2 * RATE]
    return {
        hertz
        for hertz in TONES.values()
        if abs(sum(sample * cmath.exp(2j * cmath.pi * hertz * n / RATE) for n, sample in enumerate(part)))
        > RATE / 100
    }


def groups_of(master: Path) -> dict[str, list[tuple[str, str, str, set[int]]]]:
    """The tracks in the group of each quality: language, name, whether it is the default, tones."""
    playlist = m3u8.load(str(master))
    for variant in playlist.playlists:
        media = [each for each in playlist.media if each.group_id == variant.stream_info.audio]
        assert [each.uri for each in media if each.default == "YES"] == [variant.uri]
        played = [segments_of(master.parent / each.uri) for each in media]
        rates = [max(p.stat().st_size * 8 / 2 for p in paths[:1]) for _, paths, _ in played]
        assert max(rates) * 0.999 <= variant.stream_info.bandwidth < max(rates) * 1.5
    return {
        Path(variant.uri).parent.name: [
            (each.language, each.name, each.default, tones_of(master.parent / each.uri))
            for each in playlist.media
            if each.group_id == variant.stream_info.audio
        ]
        for variant in playlist.playlists
    }


@pytest.mark.slow
def test_a_book_in_two_languages_has_both_in_each_quality(
    shared: Studio, ffmpeg: str, tmp_path: Path
) -> None:
    book = tmp_path / "book.mka"
    run_ffmpeg(
        FFmpeg(ffmpeg, "", ""),
        *(word for hertz in TONES.values() for word in ("-f", "lavfi", "-i", f"sine={hertz}:d=4")),
        *("-map", "0", "-map", "1", "-map", "2", "-c:a", "flac", "-disposition:a:2", "comment"),
        *(word for n, code in enumerate(TONES) for word in (f"-metadata:s:a:{n}", f"language={code}")),
        str(book),
    )
    overrides = {"dash": "true", "video.segment_s": "2"}
    job = shared.add(book, overrides=overrides)
    done = shared.done(job)
    assert done["warnings"] == []
    names = [row["name"] for row in done["renditions"]]
    master = Path(done["video_view"]["generation"]["master"])
    tracks = [
        ("en", "English", "YES", {440}),
        ("fr", "French", "NO", {1000}),
        ("de", "German (commentary)", "NO", {2500}),
    ]
    found = groups_of(master)
    assert list(found) == names
    assert [sorted(group) for group in found.values()] == [sorted(tracks)] * len(names)
    verified = shared("verify", "--full", "--json", master)
    assert (verified.code, '"fail"' in verified.out) == (0, False), verified.out
    described = ElementTree.parse(master.with_name("manifest.mpd")).getroot()
    sets = described.iter("{urn:mpeg:dash:schema:mpd:2011}AdaptationSet")
    assert [(each.get("lang"), len(each.findall("{*}Representation"))) for each in sets] == [
        (language, len(names)) for language in ("en", "de", "fr")
    ]
    for number in range(3 * len(names)):
        assert frames_of(master.with_name("manifest.mpd"), f"0:a:{number}") == pytest.approx(188, abs=2)
    # What one quality lacks is played in another one, because players expect all tracks in each group.
    lacking = shared.do("retranscode", job, drop=[f"audio-fr-{names[-1]}"])["new_job"]
    shared.done(lacking)
    assert [sorted(group) for group in groups_of(master).values()] == [sorted(tracks)] * len(names)
    assert not (master.parent / "v2" / f"audio-fr-{names[-1]}").exists()
    less = shared.do("retranscode", lacking, drop=names[:1])["new_job"]
    shared.done(less)
    assert list(groups_of(master)) == names[1:]
    assert not (master.parent / "v3" / f"audio-fr-{names[0]}").exists()


@pytest.mark.more
def test_a_drop_folder_takes_sound_by_its_rule(
    make_studio: MakeStudio, podcast: Path, ffmpeg: str, tmp_path: Path
) -> None:
    studio, drop = make_studio().up(), tmp_path / "drop"
    drop.mkdir()
    shutil.copyfile(podcast, drop / "song.mp3")
    run_ffmpeg(FFmpeg(ffmpeg, "", ""), "-i", str(podcast), "-vn", str(drop / "film.mp4"))
    watched = studio.client.send(calls.add_folder(encode(drop), output_b64=encode(studio.out)))

    def state() -> dict[str, Any]:
        (folder,) = studio.client.send(calls.folders())["folders"]
        return {each["name"]: each for each in folder["skipped"]}

    (skipped,) = until(
        lambda: [each for each in state().values() if each["name"] == "song.mp3"], "it is named"
    )
    assert (skipped["code"], "--audio encode" in skipped["hint"]) == ("NO_MEDIA", True)
    (row,) = until(lambda: studio.client.send(calls.jobs())["jobs"], "the film is queued")
    failed = studio.wait(row["id"], "failed")
    assert (failed["error"]["code"], "--audio encode" in failed["error"]["hint"]) == ("NO_MEDIA", True)
    studio.client.send(calls.edit_folder(watched["id"], audio="encode"))
    studio.do("retry", row["id"])
    until(lambda: studio.client.send(calls.jobs())["jobs"][1:], "the song is queued")
    for each in studio.client.send(calls.jobs())["jobs"]:
        studio.done(each["id"])
    assert not state()
