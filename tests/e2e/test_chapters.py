"""The chapters of a video are published with every generation of its ladder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import av
import m3u8
import pytest

from .conftest import MakeClip
from .studio import Studio

PARTS = ";FFMETADATA1\n" + "".join(
    f"[CHAPTER]\nTIMEBASE=1/10\nSTART={start}\nEND={end}\ntitle={title}\n"
    for start, end, title in ((0, 7, "one"), (7, 20, "two"))
)


@pytest.mark.slow
def test_chapters_stay_in_every_generation(
    shared: Studio, clip: MakeClip, ffmpeg: str, tmp_path: Path
) -> None:
    named, source = tmp_path / "parts.txt", tmp_path / "parts.mkv"
    named.write_text(PARTS)
    inputs = ("-i", str(clip(seconds=2)), "-i", str(named), "-map", "0", "-map_metadata", "1")
    subprocess.run([ffmpeg, "-v", "error", *inputs, "-c", "copy", str(source)], check=True, timeout=60)
    with av.open(str(source)) as container:
        own = [
            (
                float(each["start"] * (each["time_base"] or 1)),
                float((each["end"] - each["start"]) * (each["time_base"] or 1)),
                each["metadata"]["title"],
            )
            for each in container.chapters()
        ]
    assert len(own) == 2
    job = shared.add(source)
    shared.done(job)
    shared.done(shared.do("retranscode", job, renditions=["90p"])["new_job"])
    master = Path(shared.video_of(job)["generation"]["master"])
    [data] = m3u8.load(str(master)).session_data
    assert (data.data_id, data.uri) == ("com.apple.hls.chapters", "v2/chapters.json")
    for generation in ("v1", "v2"):
        found = [
            (each["start-time"], each["duration"], each["titles"][0]["title"])
            for each in json.loads((master.parent / generation / "chapters.json").read_bytes())
        ]
        assert [title for *_, title in found] == [title for *_, title in own]
        assert [times for *times, _ in found] == [pytest.approx(times, abs=0.002) for *times, _ in own]
    verified = shared("verify", "--full", master)
    assert verified.code == 0, verified.out
