"""A ladder that another machine made is compared with its source, and refused if it is short or damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.probing import ladder_check
from tqstudio.engine.probing.ladder_views import LadderRequest
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import encode as encoded

from .conftest import MakeClip, MakeEncode, run_to_end

SECONDS = 5.2
Request = Callable[..., LadderRequest]


@pytest.fixture
def made(clip: MakeClip, encode: MakeEncode) -> LadderEncode:
    """A ladder of three segments, the last of them short."""
    made = encode(clip("received.mp4", seconds=SECONDS))
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    return made


@pytest.fixture
def request_of(made: LadderEncode, tmp_path: Path) -> Request:
    def request(source: Path | None = None, **changes: object) -> LadderRequest:
        path = made.spec.source if source is None else os.fsencode(source)
        streams = [
            {"name": each.name, "kind": each.kind, "folder": str(each.directory.relative_to(tmp_path))}
            for each in made.renditions
        ]
        values = {
            "source_b64": encoded(path),
            "profile": made.spec.profile.to_json(),
            "work_dir_b64": encoded(tmp_path),
            "unseekable": False,
            "streams": streams,
        }
        return LadderRequest(**(values | changes))  # type: ignore[typeddict-item]

    return request


def _refusal(request: LadderRequest, segment: int = 0) -> TqError:
    with pytest.raises(TqError) as refused:
        ladder_check.examine(request, lambda count: min(segment, count - 1))
    assert refused.value.code is ErrorCode.OUTPUT_INVALID
    return refused.value


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_a_right_ladder_passes_whichever_segment_is_decoded(segment: int, request_of: Request) -> None:
    found = ladder_check.examine(request_of(), lambda count: min(segment, count - 1))
    assert {name: view["width"] for name, view in found.items()} == {"144p": 256, "90p": 160, "audio-und": 0}
    assert len({view["listing"] for view in found.values()}) == 3


def test_a_right_ladder_passes_without_its_source(request_of: Request) -> None:
    assert ladder_check.examine(request_of(source_b64=None)).keys() == {"144p", "90p", "audio-und"}


def test_a_ladder_of_its_first_segments_is_refused(made: LadderEncode, request_of: Request) -> None:
    """What one worker reported: the first segment of each stream, published as 6 of 9.64 s."""
    for stream in made.renditions:
        for path in sorted(stream.directory.glob("*.m4s"))[1:]:
            path.unlink()
    assert "the source has 5.2 s of video, but 2.0 s were encoded" in _refusal(request_of()).message


def test_sound_that_ends_early_is_refused(made: LadderEncode, request_of: Request) -> None:
    [sound] = [each for each in made.renditions if each.kind == "audio"]
    for path in sorted(sound.directory.glob("*.m4s"))[1:]:
        path.unlink()
    assert "before the video" in _refusal(request_of()).message


@pytest.mark.parametrize("name", ["144p", "90p", "audio-und"])
def test_random_bytes_in_a_whole_box_are_refused(name: str, made: LadderEncode, request_of: Request) -> None:
    """Sizes, times and counts are right; only what the pictures or the sound are made of is not."""
    [stream] = [each for each in made.renditions if each.name == name]
    path = stream.directory / "seg_00001.m4s"
    content = bytearray(path.read_bytes())
    at = content.index(b"mdat") + 4
    size = int.from_bytes(content[at - 8 : at - 4], "big")
    content[at : at - 8 + size] = os.urandom(size - 8)
    path.write_bytes(content)
    error = _refusal(request_of(), segment=1)
    assert name in error.message
    assert "seg_00001.m4s" in error.message


def test_the_ladder_of_a_shorter_source_is_refused(
    clip: MakeClip, request_of: Request, tmp_path: Path
) -> None:
    longer = tmp_path / "longer.mp4"
    shutil.copyfile(clip("longer.mp4", seconds=9), longer)
    assert "the source has 9.0 s of video, but 5.2 s were encoded" in _refusal(request_of(longer)).message
