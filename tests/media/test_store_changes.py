"""Who reads what a store names as changed has the same files as the store, at any time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.media.conftest import MakeClip, MakeEncode, leave, run_to_end

from tqstudio.engine.media.segments.store import SegmentStore


class Follower:
    """A copy of a folder that is told of each change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._copies: dict[Path, bytes] = {}

    def note_change(self, path: Path) -> None:
        """Read what is at a path and below it."""
        kept = {each: content for each, content in self._copies.items() if not each.is_relative_to(path)}
        self._copies = kept | _read([path, *path.rglob("*")])

    def require_equal(self) -> None:
        """Compare the copy with the folder."""
        assert self._copies == _read(self.folder.rglob("*"))


def _read(paths: Iterable[Path]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths if path.is_file()}


def test_an_encode_names_all_that_it_stores(clip: MakeClip, encode: MakeEncode, tmp_path: Path) -> None:
    source = clip("short-end.mp4", seconds=4.04)  # the rest is joined
    follower = Follower(tmp_path / "store")

    def compared() -> bool:
        follower.require_equal()
        return False

    first = encode(source, poster=False, storyboard=True, on_change=follower.note_change)
    run_to_end(first, compared)
    follower.require_equal()
    video = next(state for state in first.renditions if state.kind == "video")
    assert {path.suffix for path in follower.folder.rglob("*")} >= {".m4s", ".mp4", ".json", ".vtt", ".jpg"}

    leave(video.directory, 1, 1)
    (video.directory / "fragments/frag_00002.m4s").write_bytes(b"damaged")
    follower.note_change(video.directory)
    again = encode(source, poster=False, storyboard=True, on_change=follower.note_change)
    again.spec.mark_unseekable()
    run_to_end(again, compared)
    follower.require_equal()
    assert again.state == "done"


def test_a_store_names_what_it_removes(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "store")
    store = SegmentStore(follower.folder / "480p" / "key", follower.note_change)
    made = tmp_path / "made"
    made.mkdir()

    def write(name: str, content: bytes = b"12345") -> Path:
        (made / name).write_bytes(content)
        return made / name

    store.put_init(write("init.mp4"))
    for number in range(3):
        store.put(write(f"seg_0000{number}.m4s"))
        store.put_fragment(write(f"frag_0000{number}.m4s"))
    follower.require_equal()
    store.drop(store.fragment_path(1))
    store.drop(store.fragment_path(1))
    store.remove("seg_00002.m4s")
    follower.require_equal()
    store.put_init(write("init.mp4", b"other"))
    follower.require_equal()
    store.put_all(made)
    follower.require_equal()
    assert store.init_path.read_bytes() == b"other"
    store.discard()
    follower.require_equal()
    assert not store.root.exists()
