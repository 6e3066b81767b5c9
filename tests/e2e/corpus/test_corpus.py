"""All sources of the corpus are dropped into one folder, and their ladders are compared with the chart."""

from __future__ import annotations

import html
import io
import re
from array import array
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import m3u8
import pytest

from tqstudio.engine.media.check.apple import check as rules_of
from tqstudio.engine.media.check.ladder import verify_ladder
from tqstudio.paths import encode
from tqstudio.protocol import calls
from waiting import until

from ..studio import Studio
from . import chart
from .cases import CASES, CUES, Case

pytestmark = pytest.mark.xdist_group("corpus")
"""One supervisor makes all of them."""


class Corpus:
    """A supervisor and its drop folder."""

    def __init__(self, studio: Studio, ffmpeg: str, root: Path) -> None:
        self._studio, self._ffmpeg, self._root = studio, ffmpeg, root
        (root / "in").mkdir()
        folder = encode(root / "in")
        studio.client.send(
            calls.add_folder(
                folder, output_b64=encode(studio.out), profile="tiny", patterns=["*"], audio="encode"
            )
        )

    def drop(self, case: Case) -> None:
        case.make(self._ffmpeg, self._root / case.name)
        (self._root / case.name).rename(self._root / "in" / case.name)

    def outcome(self, case: Case) -> Any:
        """The job of a case, when it has ended."""

        def there() -> Any:
            jobs = self._studio.client.send(calls.jobs(limit=500))["jobs"]
            job = next((job for job in jobs if job["name"] == case.name), None)
            return self._studio.job(job["id"]) if job and job["status"] in ("done", "failed") else None

        return until(there, f"the job of {case.name} has ended")


@pytest.fixture(scope="module")
def corpus(
    ffmpeg: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Corpus]:
    """All sources that tests are selected for, in the queue of one supervisor."""
    root = tmp_path_factory.mktemp("corpus")
    studio = Studio(root / "studio", ffmpeg, workers=2).up()
    made = Corpus(studio, ffmpeg, root)
    for item in request.session.items:
        if item.fspath == request.fspath and isinstance(item, pytest.Function):
            made.drop(item.callspec.params["case"])
    yield made
    studio.down()


# The first one waits until all sources are made.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case.quick else pytest.mark.corpus) for case in CASES],
)
def test_what_comes_out_is_what_went_in(corpus: Corpus, case: Case) -> None:
    job = corpus.outcome(case)
    if case.code or job["status"] == "failed":
        assert (job["error"] or {}).get("code", "published") == case.code, job["error"]
        return
    assert {warning["code"] for warning in job["warnings"]} == case.warnings
    master = Path(job["video_view"]["generation"]["master"])
    report = verify_ladder(master, every_byte=True)
    assert report.ok, report
    assert not [each for each in rules_of(master) if each.outcome == "fail"]
    playlist = m3u8.load(str(master))
    qualities = [master.parent / entry.uri for entry in playlist.playlists]
    for index in qualities:
        if case.pictures:
            _look(index, case)
        else:
            _listen(index, 0, case, zero=0)
    if not case.pictures:
        return
    zero = float(_times(qualities[0])[0]) + case.held / Fraction(case.published_rate or case.rate)
    sounds = [medium for medium in playlist.media if medium.type == "AUDIO"]
    assert [sound.language for sound in sounds] == list(case.languages)
    for track, sound in enumerate(sounds):
        _listen(master.parent / sound.uri, track, case, zero)
    texts = [medium for medium in playlist.media if medium.type == "SUBTITLES"]
    assert [text.language for text in texts] == (["de"] if case.text else [])
    for text in texts:
        assert _cues(master.parent / text.uri, zero) == [
            (pytest.approx(begin, abs=0.02), pytest.approx(end, abs=0.02), words)
            for begin, end, words in CUES
        ]


def _look(index: Path, case: Case) -> None:
    """Compare all pictures of a quality with those that were drawn."""
    rate = Fraction(case.published_rate or case.rate)
    with _opened(index) as media:
        stream = media.streams.video[0]
        pictures = list(media.decode(stream))
        shape = stream.width / stream.height * (stream.sample_aspect_ratio or 1)
        smaller = min(stream.width, stream.height)
    assert shape == pytest.approx(case.shape, rel=2 / smaller)
    times = _times(index)
    assert all(abs(later - earlier - 1 / rate) < 1 / rate / 50 for earlier, later in pairwise(times))
    first, last = (round(at_s * Fraction(case.rate)) for at_s in (case.from_s, case.seconds))
    shown = list(range(first, last, case.every))
    expected = [first] * case.held + shown
    numbers = [chart.number_of(picture) for picture in pictures]
    # The last picture is shown until the sound ends, whose last packet may be longer.
    expected += expected[-1:] * min(len(numbers) - len(expected), 2 + round(case.sound_late_s * rate))
    assert len(numbers) == len(expected)
    assert all(abs(seen - meant) <= case.near for seen, meant in zip(numbers, expected, strict=True)), numbers
    for picture in (pictures[0], pictures[len(pictures) // 2], pictures[-1]) if case.colours else ():
        above = abs(chart.number_of(picture, 0.03) - chart.number_of(picture))
        assert above <= case.near, "cut off, or bordered"
        for seen, meant in zip(chart.colours_of(picture), chart.COLOURS, strict=True):
            assert all(abs(one - other) <= case.colours for one, other in zip(seen, meant, strict=True)), (
                f"{seen} instead of {meant}"
            )


def _listen(index: Path, track: int, case: Case, zero: float) -> None:
    """Find the beep of a track where it was, relative to the pictures."""
    samples = array("h")
    with _opened(index) as media:
        resampler = av.AudioResampler("s16", "mono", 48000)
        begins = None
        for frame in media.decode(audio=0):
            begins = frame.time if begins is None else begins
            for part in resampler.resample(frame):
                samples.frombytes(bytes(part.planes[0])[: 2 * part.samples])
    at, heard = chart.beep_of(samples, 48000)
    assert heard == track, "it is another track"
    begins = begins or 0 if case.pictures else 0
    assert begins + at - zero == pytest.approx(chart.BEEP_S - case.from_s + case.sound_late_s, abs=0.03)


def _times(index: Path) -> list[Fraction]:
    """When each picture of a quality is shown, on the clock of its segments."""
    with _opened(index) as media:
        return [picture.pts * picture.time_base for picture in media.decode(video=0)]


def _cues(index: Path, zero: float) -> list[tuple[float, float, str]]:
    """The cues of subtitles, whose segments repeat those that last longer."""
    found = {}
    for segment in m3u8.load(str(index)).segments:
        text = (index.parent / segment.uri).read_text()
        mapped = re.search(r"X-TIMESTAMP-MAP=(?=.*MPEGTS:(\d+))(?=.*LOCAL:([\d:.]+))", text)
        assert mapped
        offset = int(mapped[1]) / 90_000 - _seconds(mapped[2]) - zero
        for begin, end, words in re.findall(r"([\d:.]+) --> ([\d:.]+).*\n(.+)", text):
            found[begin] = (_seconds(begin) + offset, _seconds(end) + offset, html.unescape(words))
    return list(found.values())


def _seconds(clock: str) -> float:
    return sum(float(part) * 60**power for power, part in enumerate(reversed(clock.split(":"))))


def _opened(index: Path) -> Any:
    playlist = m3u8.load(str(index))
    names = [playlist.segment_map[0].uri, *(segment.uri for segment in playlist.segments)]
    return av.open(io.BytesIO(b"".join((index.parent / name).read_bytes() for name in names)))
