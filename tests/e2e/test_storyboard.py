"""The storyboard of a video is published with every generation of its ladder, unless it is dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.check.ladder import verify_ladder

from .conftest import MakeClip
from .studio import Studio

Copy = Callable[[Path, str], Path]


def storyboard_of(generation: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in generation.glob("storyboard*")}


@pytest.mark.slow
def test_it_is_kept_dropped_and_made_again(shared: Studio, clip: MakeClip, copy: Copy) -> None:
    source = copy(clip(seconds=2), "running_jobs.mp4")
    source.with_suffix(".srt").write_text("1\n00:00:00,500 --> 00:00:01,500\nhello\n")
    job = shared.add(source)
    shared.done(job)
    folder = Path(shared.video_of(job)["generation"]["master"]).parent
    first = storyboard_of(folder / "v1")
    assert set(first) == {"storyboard.vtt", "storyboard-000.jpg"}

    shared.done(shared.do("retranscode", job, renditions=["audio-und"])["new_job"])
    assert storyboard_of(folder / "v2") == first

    dropped = {"renditions": ["180p"], "drop": ["storyboard", "subtitles"]}
    shared.done(shared.do("retranscode", job, **dropped)["new_job"])
    assert storyboard_of(folder / "v3") == {}
    assert [path.name for path in (folder / "v3").glob("sub-*")] == []
    [unchanged] = shared.offer(source)
    assert unchanged["decision"] == "cached"

    shared.done(shared.do("retranscode", job, renditions=["120p"])["new_job"])
    assert set(storyboard_of(folder / "v4")) == set(first)
    verified = shared("verify", "--full", folder)
    assert verified.code == 0, verified.out


@pytest.mark.more
def test_verify_looks_at_it(shared: Studio, clip: MakeClip, copy: Copy) -> None:
    job = shared.add(copy(clip(seconds=2), "harmed.mp4"))
    shared.done(job)
    folder = Path(shared.video_of(job)["generation"]["master"]).parent
    text, sprite = folder / "v1/storyboard.vtt", folder / "v1/storyboard-000.jpg"
    cues, picture = text.read_bytes(), sprite.read_bytes()
    harms: list[tuple[Path, bytes | None]] = [
        (sprite, picture[:-1]),
        (sprite, None),
        (text, cues.replace(b"00:00.000 -->", b"00:00.500 -->")),
        (text, cues[: cues.rindex(b"\n\n")]),
        (text, cues.replace(b"storyboard-000", b"../../../picture")),
        (sprite, picture[:600] + bytes(8) + picture[608:]),
    ]
    found = []
    for path, content in harms:
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        found.append([verify_ladder(folder / "master.m3u8", every_byte=every).ok for every in (False, True)])
        text.write_bytes(cues)
        sprite.write_bytes(picture)
    assert found == [[False, False]] * 5 + [[True, False]]
    assert verify_ladder(folder / "master.m3u8", every_byte=True).ok
