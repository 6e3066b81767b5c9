"""A whole video in one file, from the segments of its ladder: compared with its source by PyAV."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from e2e.conftest import MakeClip, MakeStudio
from e2e.studio import Studio, published_marks
from tqstudio.engine.media.check import whole_file
from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.engine.media.segments import boxes
from waiting import until

FPS, FRAMES = Fraction(30000, 1001), 240
ONSET_S = 3.0
"""When the first sound begins to be heard."""
_SOUND_FRAME_S = 1024 / 48000
PARTS = ";FFMETADATA1\n" + "".join(
    f"[CHAPTER]\nTIMEBASE=1/10\nSTART={start}\nEND={end}\ntitle={title}\n"
    for start, end, title in ((0, 30, "one"), (30, 80, r"zwei \= 2\; \#"))
)
SPOKEN = "1\n00:00:01,500 --> 00:00:02,750\nTom & <i>Anna</i>\n\n2\n00:00:05,000 --> 00:00:07,000\nFin\n"


@pytest.fixture(scope="session")
def film(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """B-frames, two sounds of which the default is the second, one that begins late, subtitles, chapters."""
    folder = tmp_path_factory.mktemp("film")
    (folder / "parts.txt").write_text(PARTS)
    (folder / "fr.srt").write_text(SPOKEN)
    seconds = float(FRAMES / FPS)
    command = [
        *(ffmpeg, "-v", "error", "-nostdin"),
        *("-f", "lavfi", "-i", f"testsrc2=s=320x180:r={FPS}:d={seconds}"),
        *("-itsoffset", "2", "-f", "lavfi", "-i", f"sine=660:r=48000:d={seconds - 2}"),
        *("-f", "lavfi", "-i", f"aevalsrc=if(gte(t\\,{ONSET_S})\\,0.5*sin(2*PI*440*t)):s=44100:d={seconds}"),
        *("-i", str(folder / "fr.srt"), "-i", str(folder / "parts.txt")),
        *("-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map_chapters", "4"),
        *("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-g", "60", "-c:a", "flac", "-c:s", "srt"),
        *("-metadata:s:a:0", "language=ger", "-metadata:s:a:0", "title=Später", "-disposition:a:0", "0"),
        *("-metadata:s:a:1", "language=eng", "-disposition:a:1", "default"),
        *("-metadata:s:s:0", "language=fre", str(folder / "film.mkv")),
    ]
    subprocess.run(command, check=True, timeout=60)
    return folder / "film.mkv"


@dataclass(frozen=True)
class Track:
    """A track as a player finds it; times in seconds from the start of the file."""

    kind: str
    codec: str
    language: str
    default: bool
    frames: int
    """Decoded pictures, samples of sound, or lines."""
    start_s: float
    end_s: float


def tracks_of(path: Path) -> list[Track]:
    """Decode all tracks of a file."""
    found = []
    with av.open(str(path)) as container:
        streams = [(each.index, each.type) for each in container.streams if each.type != "data"]
    for index, kind in streams:
        with av.open(str(path)) as container:
            stream: Any = container.streams[index]
            frames = 0
            times: list[tuple[float, float]] = []
            for packet in container.demux(stream):
                if kind == "subtitle":
                    if packet.pts is not None and packet.size > 2:
                        at = float(packet.pts * stream.time_base)
                        times.append((at, at + float((packet.duration or 0) * stream.time_base)))
                        frames += 1
                    continue
                for frame in packet.decode():
                    at = float(frame.pts * frame.time_base)
                    long = frame.samples / frame.sample_rate if kind == "audio" else float(1 / FPS)
                    frames += frame.samples if kind == "audio" else 1
                    times.append((at, at + long))
            found.append(
                Track(
                    kind,
                    stream.codec_context.name,
                    stream.language or "",
                    bool(stream.disposition & av.stream.Disposition.default),
                    frames,
                    min(start for start, _ in times),
                    max(end for _, end in times),
                )
            )
    return found


def chapters_of(path: Path) -> list[tuple[float, float, str]]:
    with av.open(str(path)) as container:
        return [
            (
                float(each["start"] * (each["time_base"] or 1)),
                float(each["end"] * (each["time_base"] or 1)),
                each["metadata"]["title"],
            )
            for each in container.chapters()
        ]


def onset_of(path: Path, track: int) -> float:
    """When a sound is first heard, in seconds."""
    plain = av.AudioResampler(format="s16", layout="mono")
    with av.open(str(path)) as container:
        for frame in container.decode(container.streams.audio[track]):
            for part in plain.resample(frame):
                samples = memoryview(bytes(part.planes[0])[: 2 * part.samples]).cast("h")
                for number, value in enumerate(samples):
                    if abs(value) > 1500:
                        return float(frame.pts * frame.time_base) + number / frame.sample_rate
    raise AssertionError("silence")


def packets_of(path: Path, kind: str, track: int = 0) -> list[bytes]:
    """The bytes of all packets of a track."""
    with av.open(str(path)) as container:
        stream = getattr(container.streams, kind)[track]
        return [bytes(packet) for packet in container.demux(stream) if packet.size]


def files_of(studio: Studio, job: int) -> list[Path]:
    return [Path(each["path"]) for each in studio.video_of(job)["generation"]["files"]]


def made(studio: Studio, source: Path, files: Sequence[str], **overrides: str) -> int:
    """Encode a source with these files; returns its job, which is done without a warning."""
    job = studio.add(source, overrides={"files": json.dumps(files), **overrides})
    assert not studio.done(job)["warnings"]
    return job


def require_verified(studio: Studio, job: int) -> None:
    report = verify_ladder(Path(studio.video_of(job)["generation"]["master"]), every_byte=True)
    assert report.ok, report


def test_an_mp4_has_all_of_its_source(shared: Studio, film: Path, tmp_path: Path) -> None:
    source = Path(shutil.copyfile(film, tmp_path / "My film.mkv"))
    job = made(shared, source, ["mp4", "m4a", "mp4:90p"])
    slug = shared.video_of(job)["slug"]
    small, m4a, mp4 = files_of(shared, job)
    assert [path.name for path in (mp4, m4a, small)] == [f"{slug}.mp4", f"{slug}.m4a", f"{slug}-90p.mp4"]
    assert mp4.parent == Path(shared.video_of(job)["generation"]["master"]).parent / "v1"

    pictures, late, sound, text = tracks_of(source)
    video, english, german, french = tracks_of(mp4)
    assert (video.frames, video.codec) == (pictures.frames, "h264")
    assert (video.start_s, video.end_s) == pytest.approx((pictures.start_s, pictures.end_s), abs=0.001)
    # The source's default sound is first, and players begin with it.
    assert [(each.language, each.default) for each in (english, german)] == [("eng", True), ("deu", False)]
    # The late one begins with silence, as in the ladder.
    assert (late.start_s, sound.start_s) == (2, 0)
    for ours, its in ((english, sound), (german, late)):
        assert ours.start_s == pytest.approx(0, abs=_SOUND_FRAME_S)
        assert ours.end_s == pytest.approx(min(its.end_s, pictures.end_s), abs=2 * _SOUND_FRAME_S)
    assert (french.language, french.codec, french.default) == ("fra", "mov_text", False)
    assert french.frames == text.frames == 2
    assert (french.start_s, french.end_s) == pytest.approx((1.5, 7.0), abs=0.002)
    assert onset_of(mp4, 0) == pytest.approx(onset_of(source, 1), abs=0.002)
    assert onset_of(mp4, 1) == pytest.approx(onset_of(source, 0), abs=0.002)
    assert chapters_of(mp4) == [
        (pytest.approx(start, abs=0.002), pytest.approx(min(end, pictures.end_s), abs=0.002), title)
        for start, end, title in chapters_of(source)
    ]
    assert chapters_of(mp4)[1][2] == "zwei = 2; #"
    with av.open(str(mp4)) as container:
        assert container.metadata["title"] == "My film"
        assert "Später" in container.streams.audio[1].metadata.values()
        assert (container.streams.video[0].width, container.streams.video[0].height) == (320, 180)
    with av.open(str(small)) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (160, 90)
    assert [(each.kind, each.language) for each in tracks_of(m4a)] == [("audio", "eng"), ("audio", "deu")]
    assert tracks_of(m4a)[0] == english
    assert [title for *_, title in chapters_of(m4a)] == ["one", "zwei = 2; #"]
    for path in (mp4, m4a, small):
        with path.open("rb") as file:
            kinds = [kind for kind, *_ in boxes.top_level(file, path.stat().st_size)]
        assert kinds.index(b"moov") < kinds.index(b"mdat"), "it plays before all of it has arrived"
    require_verified(shared, job)


def test_no_packet_is_encoded_again(shared: Studio, film: Path, tmp_path: Path) -> None:
    job = made(shared, Path(shutil.copyfile(film, tmp_path / "same.mkv")), ["mp4"])
    [mp4] = files_of(shared, job)
    for kind, folder in (("video", "180p"), ("audio", "audio-en")):
        assert packets_of(mp4, kind) == packets_of(mp4.parent / folder / "index.m3u8", kind)
    shown = shared("job", "show", str(job))
    assert str(mp4) in shown.out


@pytest.mark.slow
def test_a_file_that_is_asked_for_later_costs_no_encode(
    shared: Studio, clip: MakeClip, tmp_path: Path
) -> None:
    source = Path(shutil.copyfile(clip(), tmp_path / "later.mp4"))
    job = shared.add(source)
    shared.done(job)
    before = published_marks(shared.job(job))
    assert not files_of(shared, job)
    asked = {"overrides": {"files": '["mp4"]'}}
    [result] = shared.offer(source, **asked)
    assert (result["decision"], result["reason"]) == ("changed", "settings")
    done = shared.done(result["job"])
    assert not [argv for attempt in done["attempts_log"] for argv in attempt["argv"]]
    assert {row["reason"] for row in done["renditions"]} <= {"kept", "above source"}
    assert published_marks(done) == before
    [mp4] = files_of(shared, result["job"])
    assert mp4.parent.name == "v2"
    assert tracks_of(mp4)[0].frames == 100
    assert shared.offer(source, **asked)[0]["decision"] == "cached"
    # Of a quality that is made again, the other generation has its own file.
    again = shared.do("retranscode", result["job"], renditions=["180p"])["new_job"]
    shared.done(again)
    [mp4] = files_of(shared, again)
    assert mp4.parent.name == "v3"
    assert tracks_of(mp4)[0].frames == 100
    require_verified(shared, again)
    [result] = shared.offer(source)
    assert result["decision"] == "changed"
    shared.done(result["job"])
    assert not files_of(shared, result["job"])
    require_verified(shared, result["job"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made_of", "files", "reason"),
    [
        ({"channels": 0}, ["mp4", "m4a"], ("m4a", "no sound")),
        ({"video": False}, ["mp4", "m4a"], ("mp4", "no pictures")),
        ({}, ["mp4", "mp4:360p"], ("mp4:360p", "its quality is not made")),
    ],
)
def test_what_a_source_cannot_have_is_shown_as_skipped(
    shared: Studio,
    clip: MakeClip,
    tmp_path: Path,
    made_of: dict[str, Any],
    files: list[str],
    reason: tuple[str, str],
) -> None:
    source = Path(shutil.copyfile(clip(**made_of), tmp_path / "part.mp4"))
    job = made(shared, source, files)
    assert reason in [
        (row["name"], row["reason"]) for row in shared.job(job)["renditions"] if row["status"] == "skipped"
    ]
    [path] = files_of(shared, job)
    assert tracks_of(path)
    assert shared.offer(source, overrides={"files": json.dumps(files)})[0]["decision"] == "cached"
    planned = json.loads(shared("plan", source, "--profile", "tiny", "--json", "--set", f"files={files}").out)
    assert reason in [(each["name"], each["reason"]) for each in planned["skipped"]]
    [ours] = [each for each in planned["renditions"] if each["kind"] == "file"]
    assert path.stat().st_size <= ours["max_bytes"]
    assert planned["max_bytes"] == sum(each["max_bytes"] for each in planned["renditions"])


@pytest.mark.slow
@pytest.mark.parametrize(("codec", "tag"), [("hevc", "hvc1"), ("av1", "av01")])
def test_other_codecs(shared: Studio, film: Path, tmp_path: Path, codec: str, tag: str) -> None:
    source = Path(shutil.copyfile(film, tmp_path / f"{codec}.mkv"))
    rungs = f'[{{ short_side = 180, maxrate_kbps = 400, codec = "{codec}" }}]'
    job = made(shared, source, ["mp4"], rungs=rungs, preset='"ultrafast"')
    [mp4] = files_of(shared, job)
    with av.open(str(mp4)) as container:
        assert container.streams.video[0].codec_context.codec_tag == tag
    video, *_ = tracks_of(mp4)
    assert (video.frames, video.start_s) == (FRAMES, 0)
    require_verified(shared, job)


@pytest.mark.slow
def test_a_damaged_file_is_found_and_made_again(shared: Studio, clip: MakeClip, tmp_path: Path) -> None:
    source = Path(shutil.copyfile(clip(), tmp_path / "hurt.mp4"))
    job = made(shared, source, ["mp4"])
    marks = published_marks(shared.job(job))
    overrides = {"overrides": {"files": '["mp4"]'}}
    for harm, full in (("missing", False), ("short", False), ("changed", True)):
        [mp4] = files_of(shared, job)
        master = Path(shared.video_of(job)["generation"]["master"])
        whole = mp4.read_bytes()
        if harm == "missing":
            mp4.unlink()
        elif harm == "short":
            mp4.write_bytes(whole[:-100])
        else:
            mp4.write_bytes(whole[:-100] + bytes(100))
        assert verify_ladder(master).ok is full
        found = verify_ladder(master, every_byte=True)
        assert found.error is not None
        assert mp4.name in found.error.message
        more = {"verify_full": True} if full else {}
        [result] = shared.offer(source, **overrides, **more)
        assert (result["decision"], result["reason"]) == ("changed", "ladder"), harm
        job = result["job"]
        assert published_marks(shared.done(job)) == marks
        require_verified(shared, job)


def test_a_file_with_other_pictures_than_its_ladder_is_damaged(
    shared: Studio, clip: MakeClip, tmp_path: Path
) -> None:
    [mp4] = files_of(shared, made(shared, Path(shutil.copyfile(clip(), tmp_path / "c.mp4")), ["mp4"]))
    size = mp4.stat().st_size
    with mp4.open("rb") as file:
        begin, length = next(place for kind, *place in boxes.top_level(file, size) if kind == b"moov")
        sounds = {each.samples for each in boxes.whole_tracks(file, size)[1:]}
    assert whole_file.damage(mp4, {100}, sounds) == ""
    assert "100 samples instead of 99" in whole_file.damage(mp4, {99}, sounds)
    assert whole_file.damage(mp4, {100}, {1})
    headless = tmp_path / "headless.mp4"
    headless.write_bytes(mp4.read_bytes()[:begin] + mp4.read_bytes()[begin + length :])
    assert "damaged" in whole_file.damage(headless, {100}, sounds)


WRAPPER = """#!/bin/sh
case "$*" in *faststart*)
    [ -e {flag} ] && {{ echo "No room: {words}" >&2; exit {status}; }} ;;
esac
exec {ffmpeg} "$@" {more}
"""


@pytest.mark.slow
def test_a_file_that_cannot_be_made_is_a_warning_and_is_tried_again(
    make_studio: MakeStudio, clip: MakeClip, ffmpeg: str, tmp_path: Path
) -> None:
    script, flag = tmp_path / "ffmpeg", tmp_path / "fails"
    script.write_text(WRAPPER.format(flag=flag, words="Invalid argument", status=1, ffmpeg=ffmpeg, more=""))
    script.chmod(0o755)
    studio = make_studio(real_ffmpeg=script).up()
    source = Path(shutil.copyfile(clip(), tmp_path / "broken.mp4"))
    flag.touch()
    job = studio.add(source, overrides={"files": '["mp4"]'})
    [warning] = studio.done(job)["warnings"]
    assert warning["code"] == "FILE_MISSING"
    assert "Invalid argument" in warning["text"]
    assert not files_of(studio, job)
    require_verified(studio, job)
    flag.unlink()
    [result] = studio.offer(source, overrides={"files": '["mp4"]'})
    assert not studio.done(result["job"])["warnings"]
    assert len(files_of(studio, result["job"])) == 1


@pytest.mark.fault(
    "The disk is full while a file of the whole video is made",
    "The publish is rolled back; the job waits for space, and then encodes nothing again",
    area="disks",
)
@pytest.mark.slow
def test_a_full_disk_holds_the_job_and_costs_no_attempt(
    make_studio: MakeStudio, clip: MakeClip, ffmpeg: str, tmp_path: Path
) -> None:
    script, flag = tmp_path / "ffmpeg", tmp_path / "full"
    words = "No space left on device"
    script.write_text(WRAPPER.format(flag=flag, words=words, status=228, ffmpeg=ffmpeg, more=""))
    script.chmod(0o755)
    studio = make_studio(real_ffmpeg=script).up()
    flag.touch()
    source = Path(shutil.copyfile(clip(), tmp_path / "full.mp4"))
    job = studio.add(source, overrides={"files": '["mp4"]'})
    until(lambda: (studio.job(job)["error"] or {}).get("code") == "DISK_LOW", "the job waits for space")
    marks = {path.stat().st_mtime_ns for path in studio.out.rglob("*.m4s")}
    assert marks
    assert not list(studio.out.rglob("full.mp4"))
    flag.unlink()
    done = studio.done(job)
    assert done["attempts"] == 0
    assert {path.stat().st_mtime_ns for path in studio.out.rglob("v1/*/*.m4s")} == marks
    assert len(files_of(studio, job)) == 1


@pytest.mark.fault(
    "The supervisor is killed while a file of the whole video is made, or before it is published",
    "No part of it has its name; the next publish makes it again, of the same segments",
    area="publishing",
)
@pytest.mark.slow
def test_killed_while_it_is_made(make_studio: MakeStudio, clip: MakeClip, tmp_path: Path) -> None:
    studio = make_studio()
    for number, point in enumerate(("publish.files_made", "publish.built", "publish.renamed")):
        studio.fail_point = point
        studio.up()
        source = Path(shutil.copyfile(clip(), tmp_path / f"killed-{number}.mp4"))
        job = studio.add(source, overrides={"files": '["mp4"]'})
        studio.died()
        named = list(studio.out.glob(f"killed-{number}/v*/*.mp4"))
        assert bool(named) is (point == "publish.renamed")
        marks = {
            path.stat().st_mtime_ns for path in studio.out.rglob(f"killed-{number}/.v1-building/*/*.m4s")
        }
        studio.up()
        done = studio.done(job)
        assert marks <= {path.stat().st_mtime_ns for path in studio.out.rglob(f"killed-{number}/v1/*/*.m4s")}
        assert (done["attempts"], done["crashes"]) == (0, 0)
        [mp4] = files_of(studio, job)
        assert tracks_of(mp4)[0].frames == 100
        assert {entry.name for entry in mp4.parent.parent.iterdir()} == {".owner", "master.m3u8", "v1"}
        require_verified(studio, job)
        studio.down()


@pytest.mark.slow
def test_it_goes_with_its_generation(make_studio: MakeStudio, clip: MakeClip, tmp_path: Path) -> None:
    studio = make_studio(keep_old_s=0.5).up()
    source = Path(shutil.copyfile(clip(), tmp_path / "gone.mp4"))
    job = made(studio, source, ["mp4"])
    [first] = files_of(studio, job)
    again = studio.do("retranscode", job)["new_job"]
    studio.done(again)
    [second] = files_of(studio, again)
    until(lambda: not first.exists(), "the replaced file is removed")
    assert second.is_file()
    video = studio.video_of(job)["id"]
    assert studio("video", "delete", str(video), "--yes").code == 0
    until(lambda: not second.exists(), "the deleted one is gone")
