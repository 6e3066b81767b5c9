"""Buckets that are named oddly, configured wrongly or do not answer."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from obstore.store import LocalStore

from object_storage import BUCKET, Asked, ObjectStorage, object_storage, pass_on
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.wings.buckets import bucket
from tqstudio.wings.buckets.bucket import Bucket
from tqstudio.wings.uploads.fetches import Fetches
from tqstudio.wings.uploads.part import Uploads
from tqstudio.wings.uploads.store import UploadRow


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def storage(home: Home) -> Iterator[ObjectStorage]:
    with object_storage() as storage:
        storage.configure(home)
        yield storage


def _refusal(home: Home, url: str = f"s3://{BUCKET}") -> TqError:
    with pytest.raises(TqError) as caught:
        asyncio.run(Bucket(home, url).check())
    return caught.value


def test_each_prefix_is_a_place_of_its_own(home: Home, storage: ObjectStorage) -> None:
    names = ["film #1", "film #2", "ü?x=2", "100% [a]{b}^`|<>", "a&b+c=d;e", "x:y@z,$!'()"]
    for name in names:
        asyncio.run(Bucket(home, f"s3://{BUCKET}/{name}").put("v1/a.m4s", name.encode(), is_final=True))
    assert sorted(storage.names()) == sorted(f"{name}/v1/a.m4s" for name in names)
    for name in names:
        place = Bucket(home, f"s3://{BUCKET}/{name}")
        assert asyncio.run(place.get("v1/a.m4s")) == name.encode()
        asyncio.run(place.remove(["v1/a.m4s"]))
    assert not storage.names()


def test_a_file_may_be_larger_than_a_request(home: Home, storage: ObjectStorage, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(random.Random(7).randbytes(20 * 1024**2))
    place = Bucket(home, f"s3://{BUCKET}/vod")
    with path.open("rb") as file:
        asyncio.run(place.put_file("v1/film.mp4", file, path.stat().st_size))
    stored, about = storage.get("vod/v1/film.mp4")
    assert stored == path.read_bytes()
    assert (about["content-type"], about["cache-control"]) == ("video/mp4", "public, max-age=86400")
    assert [asked.method for asked in storage.asked].count("PUT") == 3
    assert asyncio.run(place.digest("v1/film.mp4")) == blake3(stored).hexdigest()
    assert asyncio.run(place.digest("v1/other.mp4")) is None


@pytest.mark.usefixtures("storage")
def test_all_are_removed_though_some_are_gone(home: Home, tmp_path: Path) -> None:
    """Where each is removed by a request of its own, as at Google: S3 has one for all, and hides it."""
    names = [f"v1/seg_{number:05d}.m4s" for number in range(40)]
    for name in names[3:]:
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    place = Bucket(home, f"s3://{BUCKET}/vod")
    place._store = LocalStore(tmp_path / "store")
    asyncio.run(place.remove(names))
    assert not list((tmp_path / "store").rglob("*.m4s"))


def test_checks_at_the_same_time_leave_each_other_alone(home: Home, storage: ObjectStorage) -> None:
    def check_too(asked: Asked) -> None:
        if asked.method == "GET":
            storage.watch = pass_on
            asyncio.run(Bucket(home, f"s3://{BUCKET}/vod").check())

    storage.watch = check_too
    asyncio.run(Bucket(home, f"s3://{BUCKET}/vod").check())
    assert storage.watch is pass_on
    assert not storage.names()


def _configure(home: Home, endpoint: str) -> None:
    ObjectStorage("", endpoint).configure(home)


def test_a_server_that_never_answers_is_given_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_PATIENCE_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        _configure(home, f"http://127.0.0.1:{silent.getsockname()[1]}")
        error = _refusal(home)
    assert error.code is ErrorCode.UPSTREAM
    assert "gives no answer" in error.message


def test_an_error_says_why_and_what_to_do(home: Home) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        _configure(home, f"http://127.0.0.1:{closed.getsockname()[1]}")
        error = _refusal(home)
    assert error.code is ErrorCode.UPSTREAM
    assert "Connection refused" in error.message
    assert str(home.bucket_settings) in error.hint
    _configure(home, "minio.local:9000")
    error = _refusal(home)
    assert error.code is ErrorCode.BAD_CONFIG
    assert "does not begin with https://" in error.message


def test_a_value_of_the_wrong_key_is_not_shown(home: Home) -> None:
    home.root.mkdir()
    home.bucket_settings.touch(0o600)
    home.bucket_settings.write_text(f'["s3://{BUCKET}"]\nregion = "x"\nskip_signature = "open-sesame-4711"\n')
    error = _refusal(home)
    assert error.code is ErrorCode.BAD_CONFIG
    assert "open-sesame-4711" not in str(error)


@pytest.mark.usefixtures("storage")
def test_a_fault_in_fetching_one_source_is_its_own(home: Home) -> None:
    class Faulty(Uploads):
        def __init__(self) -> None:
            pass

        async def append(self, *_: object) -> UploadRow:  # type: ignore[override]
            raise ZeroDivisionError

    place = Bucket(home, f"s3://{BUCKET}")
    asyncio.run(place.put("film.mp4", b"film", is_final=True))
    size, version = asyncio.run(place.examine("film.mp4"))
    fetches = Fetches(home, Database(home.database), Faulty(), 60)
    row = UploadRow("one", size, 0, "", "user", 1, None, None, f"s3://{BUCKET}/film.mp4", version)
    asyncio.run(fetches._fetch(row))
    problem = fetches.problem("one")
    assert problem is not None
    assert problem.code is ErrorCode.INTERNAL
    assert "ZeroDivisionError" in problem.message
