"""The store: what is in it is never replaced, and only a checked whole is called complete."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from tqstudio.engine.media.segments.checked import CheckedSegment, IFrame, RenditionCheck
from tqstudio.engine.media.segments.store import COMPLETE_NAME, Complete, SegmentStore

CHECK = RenditionCheck(
    frames=60,
    start_s=10.0,
    duration_s=2.4,
    width=64,
    height=64,
    codecs="avc1.64000A",
    segments=(
        CheckedSegment("seg_00000.m4s", 5, 1.0, 25, (IFrame(0, 4, 1.0),)),
        CheckedSegment("seg_00001.m4s", 5, 1.4, 35),
    ),
    peak_bps=40,
    avg_bps=40,
)


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(tmp_path / "store" / "480p" / "key")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def write(scratch: Path, name: str, content: bytes = b"12345") -> Path:
    path = scratch / name
    path.write_bytes(content)
    return path


def test_a_segment_is_moved_in(store: SegmentStore, scratch: Path) -> None:
    path = write(scratch, "seg_00000.m4s")
    assert store.put(path)
    assert not path.exists()
    assert (store.root / "seg_00000.m4s").read_bytes() == b"12345"
    assert store.listing() == ("seg_00000.m4s",)


def test_a_late_mover_changes_nothing(store: SegmentStore, scratch: Path) -> None:
    store.put(write(scratch, "seg_00000.m4s"))
    late = write(scratch, "seg_00000.m4s", b"other")
    assert not store.put(late)
    assert not late.exists()
    assert (store.root / "seg_00000.m4s").read_bytes() == b"12345"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_file_systems_without_links(
    store: SegmentStore, scratch: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    assert store.put(write(scratch, "seg_00000.m4s"))
    assert not store.put(write(scratch, "seg_00000.m4s", b"other"))
    assert (store.root / "seg_00000.m4s").read_bytes() == b"12345"
    assert list(scratch.iterdir()) == []


def test_a_full_disk_is_reported(store: SegmentStore, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    path = write(scratch, "seg_00000.m4s")
    with pytest.raises(OSError, match="No space"):
        store.put(path)
    assert path.exists()


def test_another_init_drops_what_it_cannot_continue(store: SegmentStore, scratch: Path) -> None:
    assert store.put_init(write(scratch, "init.mp4", b"one"))
    store.put(write(scratch, "seg_00000.m4s"))
    assert store.put_init(write(scratch, "init.mp4", b"one"))
    assert store.listing()
    assert not store.put_init(write(scratch, "init.mp4", b"two"))
    assert store.listing() == ()
    assert store.init_path.read_bytes() == b"two"


def test_complete_needs_every_file(store: SegmentStore, scratch: Path) -> None:
    assert store.completed() is None
    store.put_init(write(scratch, "init.mp4", b"one"))
    for name in ("seg_00000.m4s", "seg_00001.m4s"):
        store.put(write(scratch, name))
    store.mark_complete(Complete("libx264", CHECK))
    assert store.completed() == Complete("libx264", CHECK)
    (store.root / "seg_00001.m4s").write_bytes(b"1234")
    assert store.completed() is None


def test_a_record_of_an_earlier_version_lists_no_iframes(store: SegmentStore, scratch: Path) -> None:
    store.put_init(write(scratch, "init.mp4", b"one"))
    for name in ("seg_00000.m4s", "seg_00001.m4s"):
        store.put(write(scratch, name))
    store.mark_complete(Complete("libx264", CHECK))
    record = json.loads((store.root / COMPLETE_NAME).read_bytes())
    for segment in record["check"]["segments"]:
        del segment["iframes"]
    (store.root / COMPLETE_NAME).write_text(json.dumps(record))
    completed = store.completed()
    assert completed is not None
    assert [segment.iframes for segment in completed.check.segments] == [(), ()]


def test_a_fragment_comes_while_another_worker_tidies_up(store: SegmentStore, scratch: Path) -> None:
    """Whenever that is, nothing fails, and nothing is left of it in the end."""
    for number in range(2):
        store.put(write(scratch, f"seg_0000{number}.m4s"))
    store.put_init(write(scratch, "init.mp4", b"init"))
    store.mark_complete(Complete("libx264", CHECK))
    enough = threading.Event()

    def tidy_up() -> None:
        while not enough.is_set():
            store.mark_complete(Complete("libx264", CHECK))

    other = threading.Thread(target=tidy_up)
    other.start()
    try:
        stored = [store.put_fragment(write(scratch, f"frag_{n:05}.m4s")) for n in range(300)]
    finally:
        enough.set()
        other.join()
    assert list(scratch.glob("frag_*")) == []
    assert len(stored) == 300
    store.mark_complete(Complete("libx264", CHECK))
    assert not store.fragment_path(0).parent.exists()
    assert store.completed() is not None


def test_a_fragment_of_a_stream_that_is_gone_is_an_error(
    store: SegmentStore, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *_: shutil.rmtree(store.root))
    with pytest.raises(FileNotFoundError):
        store.put_fragment(write(scratch, "frag_00000.m4s"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"encoder": "x", "check": {"frames": 1}}'])
def test_a_damaged_record_proves_nothing(store: SegmentStore, content: bytes) -> None:
    store.root.mkdir(parents=True)
    (store.root / "complete.json").write_bytes(content)
    assert store.completed() is None


def test_discard_may_be_repeated(store: SegmentStore, scratch: Path) -> None:
    store.put(write(scratch, "seg_00000.m4s"))
    store.discard()
    store.discard()
    assert store.listing() == ()


def test_the_listing_ignores_other_files(store: SegmentStore, scratch: Path) -> None:
    store.put(write(scratch, "seg_00010.m4s"))
    for name in ("seg_00002.m4s.tmp", "complete.json", "seg_x.m4s"):
        (store.root / name).touch()
    assert store.listing() == ("seg_00010.m4s",)
