"""An MPD of DASH is published over the same segments, if the profile asks for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import av
import pytest

from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.engine.media.ffmpeg.binary import locate

from .conftest import MakeClip
from .studio import Studio, published_marks


@dataclass(frozen=True)
class Ladder:
    """A ladder with DASH, the job that made it, and its source."""

    studio: Studio
    job: int
    source: Path

    @property
    def folder(self) -> Path:
        return Path(self.studio.video_of(self.job)["generation"]["master"]).parent

    @property
    def own(self) -> Path:
        """The folder of its current generation."""
        return self.folder / self.named.decode()

    @property
    def named(self) -> bytes:
        return b"v%d" % self.number

    @property
    def number(self) -> int:
        return int(self.studio.video_of(self.job)["generation"]["number"])


@pytest.fixture(scope="module")
def lasting(one_for_all: Studio, clip: MakeClip, tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    source = tmp_path_factory.mktemp("dash") / "dash.mp4"
    shutil.copyfile(clip(seconds=12), source)
    source.with_suffix(".de.srt").write_text("1\n00:00:05,500 --> 00:00:06,500\nTom & <b>Anna</b>\n")
    job = one_for_all.add(source, overrides={"dash": "true"})
    one_for_all.done(job)
    return Ladder(one_for_all, job, source)


@pytest.fixture
def ladder(shared: Studio, lasting: Ladder) -> Ladder:
    """The same for all tests; whatever they do to it, they leave it whole."""
    assert shared is lasting.studio
    return lasting


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


@pytest.mark.slow
def test_ffmpeg_plays_all_of_it(ladder: Ladder) -> None:
    for mpd in (ladder.folder / "manifest.mpd", ladder.own / "manifest.mpd"):
        assert [frames_of(mpd, f"0:v:{number}") for number in range(3)] == [300] * 3
        assert frames_of(mpd, "0:a:0") == pytest.approx(12 * 48000 / 1024, abs=2)
    assert (ladder.own / "sub-de.vtt").read_text() == (
        "WEBVTT\n\n00:00:05.500 --> 00:00:06.500\nTom &amp; <b>Anna</b>\n\n"
    )


@pytest.mark.slow
def test_tiles_show_what_the_storyboard_shows(ladder: Ladder) -> None:
    own = ladder.own
    group = next(
        each
        for each in ElementTree.parse(own / "manifest.mpd").getroot().iter()
        if each.get("contentType") == "image"
    )
    [template], [shown] = group.findall("{*}SegmentTemplate"), group.findall("{*}Representation")
    [tile] = shown.findall("{*}EssentialProperty")
    assert tile.get("schemeIdUri") == "http://dashif.org/guidelines/thumbnail_tile"
    columns, rows = map(int, str(tile.get("value")).split("x"))
    size = int(shown.get("width", "")), int(shown.get("height", ""))
    sprite_s = int(template.get("duration", "")) / int(template.get("timescale", ""))
    cues = re.findall(
        r"(\S+) --> \S+\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", (own / "storyboard.vtt").read_text()
    )
    assert len(cues) == 12
    for begin, name, *place in cues:
        at_s = sum(float(part) * 60**n for n, part in enumerate(reversed(begin.split(":")))) + 0.01
        sprite, number = int(at_s // sprite_s), int(at_s % sprite_s / (sprite_s / columns / rows))
        width, height = size[0] // columns, size[1] // rows
        assert template.get("media", "").replace("$Number%03d$", f"{sprite:03}") == name
        assert list(map(int, place)) == [number % columns * width, number // columns * height, width, height]
        with av.open(str(own / name)) as container:
            picture = next(container.decode(video=0))
        assert (picture.width, picture.height) == size


def test_the_key_is_changed_without_an_encode(shared: Studio, ladder: Ladder) -> None:
    folder, before = ladder.folder, ladder.number
    marks = published_marks(shared.job(ladder.job))
    assert shared.offer(ladder.source, overrides={"dash": "true"})[0]["decision"] == "cached"
    for number, wanted in ((before + 1, "false"), (before + 2, "true")):
        [offered] = shared.offer(ladder.source, overrides={"dash": wanted})
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
        lambda ladder: (ladder.folder / "manifest.mpd").unlink(),
        lambda ladder: (ladder.own / "manifest.mpd").unlink(),
        lambda ladder: (ladder.own / "sub-de.vtt").unlink(),
        lambda ladder: edit(ladder.folder / "manifest.mpd", b"%b/" % ladder.named, b"%b1/" % ladder.named),
        lambda ladder: both(ladder, b' r="', b' r="1'),
        lambda ladder: both(ladder, b'timescale="', b'timescale="1'),
        lambda ladder: both(ladder, b'presentationTimeOffset="', b'presentationTimeOffset="1'),
        lambda ladder: both(ladder, b' t="', b' t="x'),
        lambda ladder: both(ladder, b'<Representation id="180p"', b'<Representation id="181p"'),
        lambda ladder: both(ladder, b"</MPD>", b""),
        lambda ladder: (ladder.own / "storyboard.vtt").unlink(),
    ],
    ids=["top", "own", "text", "other", "count", "scale", "offset", "number", "name", "half", "tiles"],
)
def test_harm_is_found_and_repaired(shared: Studio, ladder: Ladder, harm: Callable[[Ladder], None]) -> None:
    master = ladder.folder / "master.m3u8"
    assert verify_ladder(master, every_byte=True).ok
    harm(ladder)
    assert not verify_ladder(master).ok
    [offered] = shared.offer(ladder.source, overrides={"dash": "true"})
    assert offered["decision"] == "changed"
    shared.done(offered["job"])
    assert verify_ladder(master, every_byte=True).ok
    assert (ladder.folder / "manifest.mpd").exists()


def edit(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.unlink()
    path.write_bytes(content.replace(old, new))


def both(ladder: Ladder, old: bytes, new: bytes) -> None:
    for path in (ladder.folder / "manifest.mpd", ladder.own / "manifest.mpd"):
        edit(path, old, new)
