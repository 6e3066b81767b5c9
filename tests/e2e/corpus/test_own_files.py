"""Publishes files of one's own whole, or refuses them: `make corpus MEDIA=folder`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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

MEDIA = Path(os.environ.get("MEDIA") or os.devnull)
FILES = sorted(path for path in MEDIA.rglob("*") if path.is_file()) if MEDIA.is_dir() else []


@pytest.fixture(scope="module")
def studio(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A supervisor in whose drop folder each file lies in a folder of its own, as names may be alike."""
    root = tmp_path_factory.mktemp("own")
    for number, path in enumerate(FILES):
        (root / f"in/{number}").mkdir(parents=True)
        shutil.copyfile(path, root / f"in/{number}/{path.name}")
    made = Studio(root / "studio", ffmpeg, workers=2).up()
    rules = {"output_b64": encode(made.out), "profile": "tiny", "patterns": ["*"], "audio": "encode"}
    made.client.send(calls.add_folder(encode(root / "in"), recursive=True, duplicates="encode", **rules))
    yield made
    made.down()


@pytest.mark.corpus
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(len(FILES)), ids=[path.name for path in FILES])
def test_a_file_is_published_whole_or_refused(studio: Studio, number: int) -> None:
    def ended() -> Any:
        jobs = studio.client.send(calls.jobs(limit=500))["jobs"]
        found = [job for job in jobs if Path(job["path"]).parent.name == str(number)]
        return studio.job(found[0]["id"]) if found and found[0]["status"] in ("done", "failed") else None

    job = until(ended, f"the job of {FILES[number]} has ended", 3600)
    if job["status"] == "failed":
        assert job["error"]["code"] not in ("INTERNAL", "ENCODER_EXIT", "OUTPUT_INVALID"), job["error"]
        pytest.xfail(f"refused: {job['error']['code']}: {job['error']['message']}")
    master = Path(job["video_view"]["generation"]["master"])
    report = verify_ladder(master, every_byte=True)
    assert report.ok, report
    assert not [each for each in rules_of(master) if each.outcome == "fail"]
    codes = {warning["code"] for warning in job["warnings"]}
    sounds, seconds = _source(FILES[number])
    playlist = m3u8.load(str(master))
    if not codes & {"AUDIO_LEFT_OUT", "AUDIO_UNREADABLE"} and playlist.media:
        names = {medium.name for medium in playlist.media if medium.type == "AUDIO"}
        assert len(names) == sounds
    if not codes & {"SOURCE_DAMAGED", "SOURCE_INCOMPLETE"}:
        for entry in playlist.playlists:
            index = m3u8.load(str(master.parent / entry.uri))
            assert sum(segment.duration for segment in index.segments) == pytest.approx(seconds, abs=0.25)


def _source(path: Path) -> tuple[int, float]:
    """The number of audio tracks of a source, and how long its pictures and sound last."""
    with av.open(str(path)) as media:
        times = [
            (float(packet.pts * packet.time_base), float((packet.duration or 0) * packet.time_base))
            for packet in media.demux()
            if packet.pts is not None and packet.time_base and packet.stream.type in ("video", "audio")
        ]
        begins = min(at for at, _ in times)
        return len(media.streams.audio), max(at + lasts for at, lasts in times) - begins
