"""Renditions that another video published are linked into the store, if every byte of them is right."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.media.check import digests
from tqstudio.engine.media.encode.ladder_encode import LadderEncode
from tqstudio.engine.media.encode.values import Duplicate
from tqstudio.engine.media.plan.file_names import INIT_NAME

from .conftest import MakeClip, MakeEncode, run_to_end

VIDEO = 5


def _check() -> None:
    """No reason to stop."""


@pytest.fixture
def source(clip: MakeClip, tmp_path: Path) -> Path:
    """A video with a file of subtitles."""
    path = Path(shutil.copyfile(clip("a.mp4"), tmp_path / "a.mp4"))
    path.with_suffix(".en.srt").write_text("1\n00:00:01,000 --> 00:00:03,500\nHello\n")
    return path


@pytest.fixture
def duplicate(source: Path, encode: MakeEncode, tmp_path: Path) -> Duplicate:
    """What another video published of this source."""
    made = encode(source, store_root=tmp_path / "of-another")
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    folder = tmp_path / "v1"
    for state in made.renditions:
        shutil.copytree(state.directory, folder / state.name)
        (folder / state.name / "complete.json").unlink()
    _list(folder)
    return Duplicate(
        VIDEO, folder, {each.name: (each.settings_hash, each.stream_key) for each in made.renditions}
    )


def _list(folder: Path) -> None:
    """Write the digests of what is there."""
    sums = {str(path.relative_to(folder)): digests.of_file(path) for path in sorted(folder.glob("*/*"))}
    (folder / digests.SUMS_NAME).write_text(digests.text_of(sums))


def _linked(encode: LadderEncode, duplicate: Duplicate) -> set[str]:
    """Take over what the duplicate has; the names of what was linked."""
    encode.look_up()
    encode.take_over(duplicate, _check)
    return {state.name for state in encode.renditions if state.duplicate == VIDEO}


def test_segments_are_linked_and_nothing_is_encoded(
    source: Path, encode: MakeEncode, duplicate: Duplicate
) -> None:
    made = encode(source, poster=False)
    assert _linked(made, duplicate) == set(duplicate.keys) == {"144p", "90p", "audio-und", "sub-en"}
    run_to_end(made)
    assert (made.state, made.runs, made.notes) == ("done", [], [])
    for state in made.renditions:
        assert (state.status, state.stream_key) == ("completed", duplicate.keys[state.name][1])
        assert state.check is not None
        for segment in state.check.segments:
            assert (state.directory / segment.name).samefile(duplicate.folder / state.name / segment.name)
        if state.kind != "subtitles":
            # ffmpeg would write into it, if the stream were continued.
            assert not (state.directory / INIT_NAME).samefile(duplicate.folder / state.name / INIT_NAME)

    shutil.rmtree(duplicate.folder)
    again = encode(source, poster=False)
    again.look_up()
    assert {state.duplicate for state in again.renditions} == {VIDEO}, "the store remembers"
    os.utime(source, ns=(5, 5))
    another = encode(source, poster=False)
    assert _linked(another, duplicate) == set(duplicate.keys), (
        "an earlier attempt linked them under the duplicate's key"
    )


def test_where_links_are_refused_files_are_copied(
    source: Path, encode: MakeEncode, duplicate: Duplicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    made = encode(source, poster=False)
    assert _linked(made, duplicate) == set(duplicate.keys)
    for state in made.renditions:
        for path in state.directory.glob("seg_*"):
            assert not path.samefile(duplicate.folder / state.name / path.name)
            assert path.read_bytes() == (duplicate.folder / state.name / path.name).read_bytes()


def _cut(path: Path) -> None:
    for later in sorted(path.parent.glob("seg_*"))[1:]:
        later.unlink()
    _list(path.parent.parent)


def _change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.more
@pytest.mark.parametrize("name", ["144p", "audio-und", "sub-en"])
@pytest.mark.parametrize("damage", [Path.unlink, _change, _cut])
def test_what_is_not_whole_is_left_to_the_encode(
    source: Path, encode: MakeEncode, duplicate: Duplicate, name: str, damage: Callable[[Path], None]
) -> None:
    damage(max((duplicate.folder / name).glob("seg_*")))
    made = encode(source, poster=False)
    assert _linked(made, duplicate) == duplicate.keys.keys() - {name}
    [note] = made.notes
    assert note.startswith(f"{name} cannot be linked from video {VIDEO}: ")
    assert not list((made.spec.store_root / name).glob("*")), "nothing of it is in the store"
    assert (duplicate.folder / "90p" / INIT_NAME).exists()
    run_to_end(made)
    assert (made.state, made.error) == ("done", None)
    assert {state.name for state in made.renditions if state.duplicate is None} == {name}


@pytest.mark.parametrize("sums", [None, "what is this?"])
def test_without_digests_nothing_is_linked(
    source: Path, encode: MakeEncode, duplicate: Duplicate, sums: str | None
) -> None:
    path = duplicate.folder / digests.SUMS_NAME
    path.unlink() if sums is None else path.write_text(sums)
    made = encode(source, poster=False)
    assert _linked(made, duplicate) == set()
    assert len(made.notes) == len(duplicate.keys)


def test_only_what_is_missing_and_has_the_same_settings(
    source: Path, encode: MakeEncode, duplicate: Duplicate
) -> None:
    other = {name: ("other settings", key) for name, (_, key) in duplicate.keys.items() if name == "90p"}
    duplicate = Duplicate(VIDEO, duplicate.folder, duplicate.keys | other)  # type: ignore[operator]
    made = encode(source, poster=False)
    assert _linked(made, duplicate) == duplicate.keys.keys() - {"90p"}
    run_to_end(made)
    assert [run.label for run in made.runs] == ["video-90p"]
    later = Duplicate(VIDEO + 1, duplicate.folder, duplicate.keys)
    assert _linked(made, later) == duplicate.keys.keys() - {"90p"}, "what is complete stays as it is"


def test_a_request_to_stop_is_obeyed_between_two_files(
    source: Path, encode: MakeEncode, duplicate: Duplicate
) -> None:
    class Stop(Exception):
        pass

    checks = itertools.count()

    def check() -> None:
        if next(checks) == 2:
            raise Stop

    made = encode(source, poster=False)
    made.look_up()
    with pytest.raises(Stop):
        made.take_over(duplicate, check)
    assert not list(made.spec.store_root.glob("*/*"))
