"""The lowest quality has sound of its own, so that all of it fits a slow mobile network."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import av
import m3u8
import pytest

from media.conftest import run_ffmpeg
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.plan import profiles

from .ladder import segments_of
from .studio import Studio

LIMIT_BPS = 192_000
"""What Apple asks of one variant of apps in mobile networks, with its sound."""
SECONDS = 8


def peak_of(index: Path) -> float:
    """The largest bit rate of a segment of at least half the target duration."""
    _, paths, playlist = segments_of(index)
    return max(
        path.stat().st_size * 8 / part.duration
        for path, part in zip(paths, playlist.segments, strict=True)
        if part.duration >= playlist.target_duration / 2
    )


@pytest.mark.more
def test_the_lowest_quality_of_apple_fits_with_its_sound(shared: Studio, ffmpeg: str, tmp_path: Path) -> None:
    source = tmp_path / "film.mkv"
    run_ffmpeg(
        FFmpeg(ffmpeg, "", ""),
        *("-f", "lavfi", "-i", f"testsrc2=s=640x360:r=25:d={SECONDS},noise=alls=20:allf=t"),
        *(
            "-f",
            "lavfi",
            "-i",
            f"anoisesrc=r=48000:d={SECONDS}:a=0.3",
            "-f",
            "lavfi",
            "-i",
            f"sine=d={SECONDS}",
        ),
        *("-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "flac"),
        *("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger", str(source)),
    )
    rungs = [rung for rung in profiles.load("apple").rungs if not rung.codec][-2:]
    listed = ", ".join(
        f"{{ short_side = {rung.short_side}, maxrate_kbps = {rung.maxrate_kbps} }}" for rung in rungs
    )
    overrides = {"video.rungs": f"[{listed}]", "dash": "true"}
    job = shared.add(source, profile="apple", overrides=overrides)
    done = shared.done(job)
    assert [row["name"] for row in done["renditions"]] == ["360p", "234p"]
    master = Path(done["video_view"]["generation"]["master"])
    playlist = m3u8.load(str(master))
    played = {}
    for variant in playlist.playlists:
        group = [each for each in playlist.media if each.group_id == variant.stream_info.audio]
        names = [(each.language, each.default, Path(each.uri).parent.name) for each in group]
        played[Path(variant.uri).parent.name] = names
        sounds = max(peak_of(master.parent / each.uri) for each in group)
        needed = peak_of(master.parent / variant.uri) + sounds
        assert needed * 0.999 <= variant.stream_info.bandwidth <= needed * 1.1
    assert played == {
        "360p": [("en", "YES", "audio-en"), ("de", "NO", "audio-de")],
        "234p": [("en", "YES", "audio-en-low"), ("de", "NO", "audio-de-low")],
    }
    bandwidth = {Path(each.uri).parent.name: each.stream_info.bandwidth for each in playlist.playlists}
    assert bandwidth["234p"] <= LIMIT_BPS < bandwidth["360p"]
    init, paths, _ = segments_of(master.parent / "v1/audio-en-low/index.m3u8")
    whole = tmp_path / "low.mp4"
    whole.write_bytes(init + b"".join(path.read_bytes() for path in paths))
    with av.open(str(whole)) as container:
        heard = sum(frame.samples for frame in container.decode(audio=0))
    assert abs(heard / 48_000 - SECONDS) < 0.1
    verified = shared("verify", "--full", "--json", master)
    assert (verified.code, '"fail"' in verified.out) == (0, False), verified.out
    described = ElementTree.parse(master.with_name("manifest.mpd")).getroot()
    qualities = [
        [re.sub("^audio-", "", each.get("id", "")) for each in group.findall("{*}Representation")]
        for group in described.iter("{urn:mpeg:dash:schema:mpd:2011}AdaptationSet")
        if group.get("contentType") == "audio"
    ]
    assert qualities == [["en", "en-low"], ["de", "de-low"]]
    # One quality is offered with both.
    alone = shared.do("retranscode", job, drop=["234p"])["new_job"]
    shared.done(alone)
    groups = [each.stream_info.audio for each in m3u8.load(str(master)).playlists]
    assert groups == ["audio", "audio-low"]
    assert shared("verify", "--full", master).code == 0
