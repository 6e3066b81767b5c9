"""Apple's rules: a package that keeps all of them, and for each rule one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tqstudio.engine.media.check import apple

MASTER = """\
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="English",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="audio/index.m3u8"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="English (description)",LANGUAGE="en",AUTOSELECT=YES,CHARACTERISTICS="public.accessibility.describes-video",CHANNELS="2",URI="audio-2/index.m3u8"
#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="German",LANGUAGE="de-AT",AUTOSELECT=YES,FORCED=YES,URI="sub/index.m3u8"
#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="German (captions)",LANGUAGE="de",AUTOSELECT=YES,CHARACTERISTICS="public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound",URI="sub-2/index.m3u8"
#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="Captions",INSTREAM-ID="CC1",LANGUAGE="en"
#EXT-X-STREAM-INF:BANDWIDTH=1128200,AVERAGE-BANDWIDTH=1128200,CODECS="avc1.64001E,mp4a.40.2,wvtt",RESOLUTION=854x480,FRAME-RATE=25.000,VIDEO-RANGE=SDR,CLOSED-CAPTIONS="cc",AUDIO="audio",SUBTITLES="subs"
480p/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=728200,AVERAGE-BANDWIDTH=728200,CODECS="avc1.64001E,mp4a.40.2,wvtt",RESOLUTION=640x360,FRAME-RATE=25.000,VIDEO-RANGE=SDR,CLOSED-CAPTIONS="cc",AUDIO="audio",SUBTITLES="subs"
360p/index.m3u8
#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=200000,CODECS="avc1.64001E",RESOLUTION=854x480,VIDEO-RANGE=SDR,URI="480p/iframes.m3u8"
#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=100000,CODECS="avc1.64001E",RESOLUTION=640x360,VIDEO-RANGE=SDR,URI="360p/iframes.m3u8"
"""  # noqa: E501
HEAD = """\
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:{target}
#EXT-X-PLAYLIST-TYPE:VOD
"""
MAP = '#EXT-X-MAP:URI="init.mp4"\n'
# Bytes of each of three segments of 6 s, and of each I-frame.
SIZES = {"480p": 750_000, "360p": 450_000, "audio": 96_000, "audio-2": 96_000, "sub": 150, "sub-2": 150}
IFRAMES = {"480p": 50_000, "360p": 25_000}
WEBVTT = b"WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"
OTHERS = ("audio/index.m3u8", "audio-2/index.m3u8", "480p/index.m3u8", "360p/index.m3u8")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A ladder of 18 s whose files have the right sizes."""
    (tmp_path / "master.m3u8").write_text(MASTER)
    for name, size in SIZES.items():
        folder = tmp_path / name
        folder.mkdir()
        kind = "vtt" if name.startswith("sub") else "m4s"
        segments = "".join(f"#EXTINF:6.000000,\nseg_{k}.{kind}\n" for k in range(3))
        text = HEAD.format(target=6) + ("" if kind == "vtt" else MAP) + segments + "#EXT-X-ENDLIST\n"
        (folder / "index.m3u8").write_text(text)
        for k in range(3):
            content = bytearray(WEBVTT.ljust(size, b"\n") if kind == "vtt" else bytes(size))
            for gop in range(3) if name in IFRAMES else ():
                content[gop * 100_000 + 4 : gop * 100_000 + 8] = b"moof"
            (folder / f"seg_{k}.{kind}").write_bytes(content)
    for name, size in IFRAMES.items():
        iframes = "".join(
            f"#EXTINF:2.000000,\n#EXT-X-BYTERANGE:{size}@{gop * 100_000}\nseg_{k}.m4s\n"
            for k in range(3)
            for gop in range(3)
        )
        text = HEAD.format(target=2) + MAP + "#EXT-X-I-FRAMES-ONLY\n" + iframes + "#EXT-X-ENDLIST\n"
        (tmp_path / name / "iframes.m3u8").write_text(text)
    return tmp_path


def outcomes(folder: Path) -> dict[str, str]:
    return {result.number: result.outcome.value for result in apple.check(folder / "master.m3u8")}


def test_a_package_that_keeps_all_rules(package: Path) -> None:
    found = outcomes(package)
    assert {number: outcome for number, outcome in found.items() if outcome != "pass"} == {"6.2": "note"}
    assert apple.violation(apple.check(package / "master.m3u8")) is None


def test_a_short_rest_may_have_joined_the_last_key_frame(package: Path) -> None:
    for playlist in package.glob("*/iframes.m3u8"):
        before, found, after = playlist.read_text().rpartition("EXTINF:2.000000")
        playlist.write_text(f"{before}{found.replace('2.000000', '2.480000')}{after}")
    assert outcomes(package)["1.13"] == "pass"


SOUND = """\
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-STREAM-INF:BANDWIDTH=128000,AVERAGE-BANDWIDTH=128000,CODECS="mp4a.40.2"
audio/index.m3u8
"""


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ("", "", {}),
        ("BANDWIDTH=128000,A", "BANDWIDTH=100000,A", {"1.27": "fail", "9.13": "fail"}),
        (",AVERAGE-BANDWIDTH=128000", "", {"9.14": "fail"}),
        ("mp4a.40.2", "mp4a.40.34", {"2.2": "fail", "2.3": "fail"}),
        ("mp4a.40.2", "mp4a.40.5", {"2.4": "warn"}),
        # What names another codec, or none, is not sound alone: rules on pictures apply.
        ("mp4a.40.2", "vp09.00", {"1.1": "warn", "6.1": "warn", "9.2": "warn", "9.15": "warn"}),
        (',CODECS="mp4a.40.2"', "", {"1.1": "warn", "6.1": "warn", "9.1": "warn", "9.2": "warn"}),
    ],
)
def test_rules_on_pictures_do_not_apply_to_sound_alone(
    package: Path, old: str, new: str, broken: dict[str, str]
) -> None:
    (package / "master.m3u8").write_text(SOUND.replace(old, new) if old else SOUND)
    found = {number: outcome for number, outcome in outcomes(package).items() if outcome in ("warn", "fail")}
    assert found.items() >= broken.items()
    assert "vp09" in new or not new or set(found) == set(broken)


@dataclass(frozen=True)
class Edit:
    """A text that is replaced in a playlist, once or everywhere."""

    old: str
    new: str
    file: str = "master.m3u8"
    times: int = -1

    def __call__(self, folder: Path) -> None:
        path = folder / self.file
        text = path.read_text()
        assert self.old in text, "the edit changes something"
        path.write_text(text.replace(self.old, self.new, self.times))


def renamed(quality: str, suffix: str) -> Callable[[Path], None]:
    """The segments of a quality get another suffix."""

    def rename(folder: Path) -> None:
        for path in sorted((folder / quality).glob("seg_*")):
            path.rename(path.with_suffix(suffix))
        for playlist in (folder / quality).glob("*.m3u8"):
            text = playlist.read_text()
            playlist.write_text(text.replace(".m4s", suffix).replace(".vtt", suffix))

    return rename


def shortened(file: str) -> Callable[[Path], None]:
    """A playlist of one segment of 3 s."""

    def shorten(folder: Path) -> None:
        head = HEAD.format(target=3) + MAP
        (folder / file).write_text(head + "#EXTINF:3.000000,\nseg_0.m4s\n#EXT-X-ENDLIST\n")

    return shorten


def resized(quality: str, *sizes: int) -> Callable[[Path], None]:
    def resize(folder: Path) -> None:
        for path, size in zip(sorted((folder / quality).glob("seg_*")), sizes, strict=True):
            path.write_bytes(path.read_bytes()[:size].ljust(size, b"\0"))

    return resize


AVC, HEVC = "avc1.64001E", "hvc1.2.4.L93.B0"
DESCRIPTION = ',LANGUAGE="en",AUTOSELECT=YES,CHARACTERISTICS="public.accessibility.describes-video"'
CAPTIONS = ',LANGUAGE="de",AUTOSELECT=YES,CHARACTERISTICS="public.accessibility.transcribes-spoken-dialog'
CC = '#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="Captions",INSTREAM-ID="CC1",LANGUAGE="en"\n'
ENGLISH = 'NAME="English",LANGUAGE="en"'
IFRAME_LINES = MASTER[MASTER.index("#EXT-X-I-FRAME") :]
LINES_360P = MASTER[MASTER.index("#EXT-X-STREAM-INF:BANDWIDTH=728200") : MASTER.index("#EXT-X-I-FRAME")]
SHORT_END = "#EXTINF:5.950000,\nseg_2.m4s\n#EXTINF:0.050000,\nseg_2"
TARGETS = tuple(Edit("DURATION:6", "DURATION:8", file) for file in OTHERS)

CASES: list[tuple[str, str, tuple[Callable[[Path], None], ...]]] = [
    ("1.1", "fail", (Edit(AVC, "vp09.00.10.08", times=1),)),
    ("1.2", "fail", (renamed("480p", ".webm"),)),
    ("1.3a", "warn", (Edit(AVC, "avc1.64002A"),)),
    ("1.3b", "fail", (Edit(AVC, "avc1.64003C", times=1),)),
    ("1.3b", "fail", (Edit(AVC, "avc1.6E001E", times=1),)),
    ("1.4", "warn", (Edit(AVC, "avc1.4D001E", times=1),)),
    ("1.5", "fail", (Edit(AVC, HEVC), renamed("480p", ".ts"))),
    ("1.6a", "warn", (Edit(AVC, "hvc1.2.4.H120.B0"),)),
    ("1.6b", "fail", (Edit(AVC, "hvc1.2.4.L156.B0", times=1),)),
    ("1.10", "warn", (Edit("avc1", "avc3", times=1),)),
    ("1.11", "warn", (Edit(AVC, "avc1.640029", times=1),)),
    ("1.12", "warn", (Edit(AVC, HEVC),)),
    ("1.13", "warn", (Edit("EXTINF:2.0", "EXTINF:2.1", "480p/iframes.m3u8", 1),)),
    ("1.18", "note", (Edit("FRAME-RATE=25.000", "FRAME-RATE=22.000"),)),
    ("1.19", "fail", (Edit("FRAME-RATE=25.000", "FRAME-RATE=61.000", times=1),)),
    ("1.20", "warn", (Edit("25.000,VIDEO-RANGE=SDR", "50.000,VIDEO-RANGE=PQ", times=1),)),
    ("1.23", "warn", (Edit(AVC, HEVC, times=1),)),
    ("1.24", "fail", (Edit("25.000,VIDEO-RANGE=SDR", "25.000,VIDEO-RANGE=HLG"),)),
    ("1.26", "fail", (Edit("AVERAGE-BANDWIDTH=1128200", "AVERAGE-BANDWIDTH=1260000"),)),
    ("1.27", "fail", (Edit("INF:BANDWIDTH=1128200", "INF:BANDWIDTH=1260000"),)),
    ("1.30", "warn", (resized("480p", 450_000, 4_500_000, 450_000),)),
    ("1.32", "warn", (resized("360p", 1_500_000, 1_500_000, 1_500_000),)),
    ("1.33", "warn", (Edit("RESOLUTION=640x360", "RESOLUTION=640x480", times=1),)),
    (
        "1.34",
        "warn",
        (Edit("RESOLUTION=854x480", "RESOLUTION=3840x2160", times=1), Edit("=1128200", "=15000001")),
    ),
    ("1.37", "fail", (Edit(AVC, "av01.0.19M.08", times=1),)),
    ("1.39", "fail", (Edit(AVC, "av01.0.08M.08"), renamed("480p", ".ts"))),
    ("2.2", "fail", (Edit("mp4a.40.2", "mp4a.40.34"),)),
    ("2.3", "fail", (Edit("mp4a.40.2", "ec-3"),)),
    ("2.3", "note", (Edit('CHANNELS="2"', 'CHANNELS="1"'),)),
    ("2.4", "warn", (Edit("mp4a.40.2", "mp4a.40.5"),)),
    ("2.5", "fail", (Edit("mp4a.40.2", "mp4a.40.34"), Edit('CHANNELS="2"', 'CHANNELS="6"'))),
    ("2.6", "note", (Edit("mp4a.40.2", "mp4a.40.2,ec-3"),)),
    ("2.13", "fail", (Edit(DESCRIPTION, DESCRIPTION.replace("YES", "NO")),)),
    ("2.14", "warn", (Edit("English (description)", "English 2"),)),
    ("2.27", "note", (Edit(DESCRIPTION, DESCRIPTION.removeprefix(',LANGUAGE="en"')),)),
    (
        "4.1",
        "note",
        (Edit(CC, ""), Edit("public.accessibility.transcribes-spoken-dialog,", ""), Edit("music", "")),
    ),
    ("4.4", "fail", (Edit(CC, ""),)),
    ("4.4", "note", (Edit('"CC1",LANGUAGE="en"', '"CC1"'),)),
    ("4.5", "fail", (Edit(",public.accessibility.describes-music-and-sound", ""),)),
    ("4.6", "fail", (Edit(CAPTIONS, CAPTIONS.replace("YES", "NO")),)),
    ("4.7", "note", (Edit(',LANGUAGE="de-AT"', ""),)),
    ("5.2", "fail", (renamed("sub", ".txt"),)),
    ("5.3", "fail", (lambda folder: (folder / "sub" / "seg_0.vtt").write_bytes(b"WEBVTT\n".ljust(150)),)),
    ("5.10", "note", (Edit(",wvtt", ""),)),
    ("5.10", "warn", (Edit(",wvtt", ""), renamed("sub", ".m4s"))),
    ("5.11", "warn", (Edit('LANGUAGE="de-AT",AUTOSELECT=YES', 'LANGUAGE="de-AT",AUTOSELECT=NO'),)),
    ("6.1", "warn", (Edit(IFRAME_LINES, ""),)),
    ("6.2", "note", ()),
    ("6.6", "warn", (Edit(IFRAME_LINES.splitlines()[1], ""),)),
    ("6.8", "fail", (Edit("#EXT-X-I-FRAMES-ONLY\n", "", "480p/iframes.m3u8"),)),
    ("6.9", "fail", (Edit("BANDWIDTH=200000", "BANDWIDTH=199000"),)),
    ("6.9", "fail", (Edit("BANDWIDTH=200000", "BANDWIDTH=230000"),)),
    ("6.10", "fail", (Edit("50000@0", "50000@8", "480p/iframes.m3u8", 1),)),
    ("6.10", "fail", (lambda folder: (folder / "360p" / "seg_2.m4s").write_bytes(bytes(450_000)),)),
    ("6.14", "warn", (Edit(f'CODECS="{AVC}"', f'CODECS="{HEVC}"'),)),
    (
        "6.15",
        "warn",
        (Edit("VIDEO-RANGE=SDR,CLOSED", "VIDEO-RANGE=PQ,CLOSED"), Edit("=SDR,URI", "=PQ,URI", times=1)),
    ),
    ("6.16", "fail", (Edit("VIDEO-RANGE=SDR,URI", "VIDEO-RANGE=PQ,URI"),)),
    ("7.5", "warn", TARGETS),
    ("7.5", "note", tuple(shortened(file) for file in OTHERS)),
    ("7.6", "warn", (Edit("EXTINF:6.0", "EXTINF:4.0", "480p/index.m3u8", 1),)),
    ("7.7", "fail", (Edit("EXTINF:6.0", "EXTINF:6.6", "sub/index.m3u8", 1),)),
    ("8.2", "fail", TARGETS[:1]),
    ("8.3", "fail", (Edit("EXTINF:6.000000", "EXTINF:5.960000", "360p/index.m3u8", 1),)),
    ("8.3", "note", (Edit("EXTINF:6.000000", "EXTINF:5.800000", "audio/index.m3u8", 1),)),
    ("8.6", "fail", (Edit("#EXT-X-PLAYLIST-TYPE:VOD\n", "", "audio/index.m3u8"),)),
    ("8.7", "note", (Edit("EXTINF:6.000000", "EXTINF:5.000000", "sub/index.m3u8", 1),)),
    ("8.7", "fail", (Edit("EXTINF:2.000000", "EXTINF:1.900000", "480p/iframes.m3u8", 1),)),
    ("8.9", "fail", (Edit('AUDIO="audio"', 'AUDIO="other"', times=1),)),
    ("8.9", "fail", (Edit('SUBTITLES="subs"', 'SUBTITLES="other"', times=1),)),
    ("8.10", "note", (Edit(ENGLISH, 'NAME="English"'),)),
    ("8.15", "fail", (Edit("#EXTINF", "#EXT-X-DISCONTINUITY\n#EXTINF", "audio/index.m3u8", 1),)),
    ("8.20", "fail", (Edit(MAP, "", "480p/index.m3u8"),)),
    ("8.22", "warn", (Edit("EXTINF:6.0", "EXTINF:5.8", "audio/index.m3u8", 1),)),
    ("8.22", "warn", (Edit("#EXTINF:6.000000,\nseg_2.m4s\n", "", "audio/index.m3u8"),)),
    ("8.22", "pass", (Edit("#EXTINF:6.000000,\nseg_2", SHORT_END, "audio/index.m3u8"),)),
    ("9.1", "fail", (Edit(f'CODECS="{AVC},mp4a.40.2,wvtt",', "", times=1),)),
    ("9.2", "fail", (Edit("RESOLUTION=854x480,FRAME", "FRAME"),)),
    ("9.3", "fail", (Edit(f'CODECS="{AVC}",RESOLUTION=854', "RESOLUTION=854"),)),
    ("9.4", "fail", (Edit("RESOLUTION=854x480,VIDEO", "VIDEO"),)),
    ("9.5", "warn", (Edit(',AUDIO="audio"', "", times=1),)),
    ("9.9", "note", (Edit(LINES_360P, ""),)),
    ("9.10", "warn", (Edit("RESOLUTION=854x480", "RESOLUTION=1280x720"),)),
    ("9.11", "warn", (Edit("#EXT-X-INDEPENDENT-SEGMENTS\n", ""),)),
    ("9.12", "fail", (Edit("#EXT-X-INDEPENDENT-SEGMENTS\n", ""),)),
    ("9.13", "fail", (Edit("INF:BANDWIDTH=1128200", "INF:BANDWIDTH=1126000"),)),
    ("9.14", "fail", (Edit("AVERAGE-BANDWIDTH=1128200,", ""),)),
    ("9.15", "fail", (Edit("FRAME-RATE=25.000,", "", times=1),)),
    (
        "9.16",
        "fail",
        (Edit("25.000,VIDEO-RANGE=SDR", "25.000,VIDEO-RANGE=PQ", times=1), Edit(",VIDEO-RANGE=SDR", "")),
    ),
    ("9.17", "warn", (Edit(ENGLISH, ENGLISH + ',CHARACTERISTICS="a,b"'),)),
    ("9.19", "fail", (Edit("FRAME-RATE", "SCORE=1.0,FRAME-RATE", times=1),)),
    ("RFC 5646", "fail", (Edit('LANGUAGE="de-AT"', 'LANGUAGE="german"'),)),
]


@pytest.mark.parametrize(
    ("number", "outcome", "edits"), CASES, ids=[f"{number} {outcome}" for number, outcome, _ in CASES]
)
def test_the_outcome_of_a_rule(
    package: Path, number: str, outcome: str, edits: tuple[Callable[[Path], None], ...]
) -> None:
    for edit in edits:
        edit(package)
    assert outcomes(package)[number] == outcome
    [result] = [each for each in apple.check(package / "master.m3u8") if each.number == number]
    assert bool(result.details) == (outcome != "pass")
    assert (apple.violation([result]) is not None) == (outcome == "fail")


def test_every_rule_has_a_case() -> None:
    numbers = [rule.number for rule in apple.RULES]
    assert {number for number, _, _ in CASES} == set(numbers)
    assert len(set(numbers)) == len(numbers)


def test_a_ladder_without_iframes_is_warned_about_only(package: Path) -> None:
    """It was published before there were any."""
    for edit in (Edit(IFRAME_LINES, ""), Edit("INF:BANDWIDTH=1128200", "INF:BANDWIDTH=9"), *TARGETS[:1]):
        edit(package)
    found = outcomes(package)
    assert "fail" not in found.values()
    assert {found[number] for number in ("6.1", "8.2", "1.27")} == {"warn"}
