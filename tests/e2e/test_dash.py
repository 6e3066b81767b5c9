"""An MPD of DASH is published over the same segments, if the profile asks for it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import av
import pytest

from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.engine.media.ffmpeg.binary import locate

from .conftest import MakeClip
from .studio import Studio, published_marks

Copy = Callable[[Path, str], Path]


@pytest.fixture
def ladder(shared: Studio, clip: MakeClip, copy: Copy, request: pytest.FixtureRequest) -> tuple[Path, int]:
    """The folder of a ladder with DASH, and its job."""
    source = copy(clip(seconds=12), f"{request.node.name}.mp4")
    source.with_suffix(".de.srt").write_text("1\n00:00:05,500 --> 00:00:06,500\nTom & <b>Anna</b>\n")
    job = shared.add(source, overrides={"dash": "true"})
    return Path(shared.done(job)["video_view"]["generation"]["master"]).parent, job


def frames_of(mpd: Path, stream: str) -> int:
    """Pictures or samples of sound that ffmpeg decodes by an MPD."""
    # Its demuxer reads no whole file of WebVTT.
    silent = mpd.with_name("without-text.mpd")
    silent.write_text(
        re.sub(
            r'<AdaptationSet id="\d+" contentType="text".*?</AdaptationSet>',
            "",
            mpd.read_text(),
            flags=re.DOTALL,
        )
    )
    command = [locate().path, "-v", "error", "-nostdin", "-i", str(silent), "-map", stream]
    raw = subprocess.run([*command, "-f", "framemd5", "-"], check=True, capture_output=True, timeout=60)
    assert not raw.stderr
    return sum(not line.startswith(b"#") for line in raw.stdout.splitlines())


def test_ffmpeg_plays_all_of_it(ladder: tuple[Path, int]) -> None:
    folder, _ = ladder
    for mpd in (folder / "manifest.mpd", folder / "v1/manifest.mpd"):
        assert [frames_of(mpd, f"0:v:{number}") for number in range(3)] == [300] * 3
        assert frames_of(mpd, "0:a:0") == pytest.approx(12 * 48000 / 1024, abs=2)
    assert (folder / "v1/sub-de.vtt").read_text() == (
        "WEBVTT\n\n00:00:05.500 --> 00:00:06.500\nTom &amp; <b>Anna</b>\n\n"
    )


def test_tiles_show_what_the_storyboard_shows(ladder: tuple[Path, int]) -> None:
    folder, _ = ladder
    group = next(
        each
        for each in ElementTree.parse(folder / "v1/manifest.mpd").getroot().iter()
        if each.get("contentType") == "image"
    )
    [template], [shown] = group.findall("{*}SegmentTemplate"), group.findall("{*}Representation")
    [tile] = shown.findall("{*}EssentialProperty")
    assert tile.get("schemeIdUri") == "http://dashif.org/guidelines/thumbnail_tile"
    columns, rows = map(int, str(tile.get("value")).split("x"))
    size = int(shown.get("width", "")), int(shown.get("height", ""))
    sprite_s = int(template.get("duration", "")) / int(template.get("timescale", ""))
    cues = re.findall(
        r"(\S+) --> \S+\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", (folder / "v1/storyboard.vtt").read_text()
    )
    assert len(cues) == 12
    for begin, name, *place in cues:
        at_s = sum(float(part) * 60**n for n, part in enumerate(reversed(begin.split(":")))) + 0.01
        sprite, number = int(at_s // sprite_s), int(at_s % sprite_s / (sprite_s / columns / rows))
        width, height = size[0] // columns, size[1] // rows
        assert template.get("media", "").replace("$Number%03d$", f"{sprite:03}") == name
        assert list(map(int, place)) == [number % columns * width, number // columns * height, width, height]
        with av.open(str(folder / "v1" / name)) as container:
            picture = next(container.decode(video=0))
        assert (picture.width, picture.height) == size


def test_the_key_is_changed_without_an_encode(shared: Studio, ladder: tuple[Path, int]) -> None:
    folder, first = ladder
    marks = published_marks(shared.job(first))
    source = Path(shared.video_of(first)["path"])
    assert shared.offer(source, overrides={"dash": "true"})[0]["decision"] == "cached"
    for number, wanted in ((2, "false"), (3, "true")):
        [offered] = shared.offer(source, overrides={"dash": wanted})
        assert (offered["decision"], offered["reason"]) == ("changed", "settings")
        done = shared.done(offered["job"])
        assert [attempt["argv"] for attempt in done["attempts_log"]] == [[]]
        assert published_marks(done) == marks
        assert (folder / "manifest.mpd").exists() is (wanted == "true")
        assert (folder / f"v{number}/manifest.mpd").exists() is (wanted == "true")
    assert frames_of(folder / "manifest.mpd", "0:v:0") == 300


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "manifest.mpd").unlink(),
        lambda folder: (folder / "v1/manifest.mpd").unlink(),
        lambda folder: (folder / "v1/sub-de.vtt").unlink(),
        lambda folder: edit(folder / "manifest.mpd", b"v1/", b"v2/"),
        lambda folder: both(folder, b' r="', b' r="1'),
        lambda folder: both(folder, b'timescale="', b'timescale="1'),
        lambda folder: both(folder, b'presentationTimeOffset="', b'presentationTimeOffset="1'),
        lambda folder: both(folder, b' t="', b' t="x'),
        lambda folder: both(folder, b'<Representation id="180p"', b'<Representation id="181p"'),
        lambda folder: both(folder, b"</MPD>", b""),
        lambda folder: (folder / "v1/storyboard.vtt").unlink(),
    ],
    ids=["top", "own", "text", "other", "count", "scale", "offset", "number", "name", "half", "tiles"],
)
def test_harm_is_found_and_repaired(
    shared: Studio, ladder: tuple[Path, int], harm: Callable[[Path], None]
) -> None:
    folder, job = ladder
    assert verify_ladder(folder / "master.m3u8", every_byte=True).ok
    harm(folder)
    assert not verify_ladder(folder / "master.m3u8").ok
    [offered] = shared.offer(Path(shared.video_of(job)["path"]), overrides={"dash": "true"})
    assert offered["decision"] == "changed"
    shared.done(offered["job"])
    assert verify_ladder(folder / "master.m3u8", every_byte=True).ok
    assert (folder / "manifest.mpd").exists()


def edit(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.unlink()
    path.write_bytes(content.replace(old, new))


def both(folder: Path, old: bytes, new: bytes) -> None:
    for path in (folder / "manifest.mpd", folder / "v1/manifest.mpd"):
        edit(path, old, new)
