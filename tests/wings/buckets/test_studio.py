"""Ladders are copied to object storage: whatever happens, players find a whole one there, or none."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from blake3 import blake3

from e2e.conftest import MakeClip, MakeStudio
from e2e.studio import Studio
from object_storage import BUCKET, Asked, ObjectStorage, below, object_storage, pass_on
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.wings.buckets.bucket import Bucket
from waiting import until

URL = f"s3://{BUCKET}/vod"
_STEPS = ("delivery.uploading", "delivery.uploaded", "delivery.named")
_REMOVAL = ("delivery.unnamed", "delivery.removed")


@pytest.fixture
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as storage:
        yield storage


@pytest.fixture
def house(make_studio: MakeStudio, storage: ObjectStorage) -> Studio:
    """A studio that knows the bucket, and keeps replaced ladders for half a second."""
    house = make_studio(keep_old_s=0.5, output=URL)
    storage.configure(house.home)
    return house


def _copy(house: Studio) -> Path:
    return house.home.buckets / "s3" / BUCKET / "vod"


def _published(house: Studio, clip: MakeClip, **options: Any) -> int:
    """Encode a clip; return its job once its ladder is in the bucket."""
    job = house.add(clip(), output_b64=None, **options)
    house.done(job)
    _delivered(house, job)
    return job


def _delivered(house: Studio, job: int) -> Any:
    def there() -> Any:
        found = house.video_of(job)["delivery"]
        return found if found and found["state"] == "delivered" else None

    return until(there, f"the ladder of job {job} is in its bucket")


def _require_same(house: Studio, storage: ObjectStorage) -> None:
    """The bucket has the local copy, byte for byte, and nothing else.

    Replaced ladders are removed here later than there.
    """
    masters = [path.read_text() for path in _copy(house).rglob("master.m3u8")]
    current = {number for text in masters for number in re.findall(r"(v\d+)/", text)}
    local = {
        name: content
        for name, content in below(_copy(house)).items()
        if name.split("/")[1] in current or name.count("/") == 1
    }
    assert sorted(storage.names()) == sorted(f"vod/{name}" for name in local)
    for name, content in local.items():
        assert storage.get(f"vod/{name}")[0] == content, name


class Player:
    """Looks at each request whether the ladder that players see is whole."""

    def __init__(self, storage: ObjectStorage) -> None:
        self.seen = 0
        self.missing: list[str] = []
        self._storage = storage

    def __call__(self, asked: Asked) -> None:
        del asked
        there = set(self._storage.names())
        for master in (key for key in there if key.endswith("/master.m3u8")):
            self.seen += 1
            self.missing += sorted(self._storage.named_files(master) - there)


def test_a_ladder_is_copied_and_played(
    house: Studio, storage: ObjectStorage, clip: MakeClip, ffmpeg: str
) -> None:
    house.up()
    job = _published(house, clip, overrides={"dash": "true"})
    _require_same(house, storage)
    *files, mpd, master = [asked.key for asked in storage.asked if asked.method == "PUT"][1:]
    (slug,) = {key.split("/")[1] for key in files}
    assert (mpd, master) == (f"vod/{slug}/manifest.mpd", f"vod/{slug}/master.m3u8")
    assert files[0] == f"vod/{slug}/v1/BLAKE3SUMS"

    about = {key: storage.get(key)[1] for key in storage.names()}
    assert about[master]["content-type"] == "application/vnd.apple.mpegurl"
    assert about[master]["cache-control"] == "no-cache"
    segment = next(key for key in about if key.endswith(".m4s"))
    assert about[segment]["content-type"] == "video/mp4"
    assert about[segment]["cache-control"] == "public, max-age=86400"

    shown = house.video_of(job)["delivery"]
    assert shown["url"] == f"{URL}/{slug}"
    assert shown["files_done"] == shown["files"] == len(files)
    url = f"{storage.server}/{BUCKET}/{master}"
    words = (ffmpeg, "-v", "error", "-i", url, "-map", "0:v:0", "-f", "framemd5", "-")
    played = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    assert sum(not line.startswith("#") for line in played.stdout.splitlines()) == 100


@pytest.mark.slow
def test_a_retranscoded_ladder_is_whole_at_each_moment(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    job = _published(house, clip)
    storage.watch = player = Player(storage)
    again = house.do("retranscode", job)["new_job"]
    house.done(again)
    _delivered(house, again)
    until(lambda: not any("/v1/" in key for key in storage.names()), "the old one is removed")
    assert player.seen
    assert not player.missing
    _require_same(house, storage)


@pytest.mark.slow
def test_a_first_quality_is_replaced_by_the_whole(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    storage.watch = player = Player(storage)
    with house.paced(2):
        job = house.add(clip(seconds=12), output_b64=None, overrides={"first": "120p"})
        row = until(lambda: (row := house.job(job))["viewable"] and row, "the first quality plays")
        _delivered(house, job)
        assert house.job(job)["status"] == "in_progress"
        names = {name.split("/v1/")[1].split("/")[0] for name in storage.names() if "/v1/" in name}
        assert {"120p", "audio-und"} <= names
        assert not {"180p", "90p"} & names
    done = house.done(job)
    assert done["video_view"]["generation"]["number"] == row["video_view"]["generation"]["number"] + 1
    until(lambda: not any("/v1/" in key for key in storage.names()), "the first one is replaced")
    _delivered(house, job)
    assert player.seen
    assert not player.missing
    _require_same(house, storage)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        step if step == "delivery.uploading" else pytest.param(step, marks=pytest.mark.more)
        for step in (*_STEPS, *_REMOVAL)
    ],
)
def test_a_killed_supervisor_continues(
    house: Studio, storage: ObjectStorage, clip: MakeClip, step: str
) -> None:
    house.up()
    job = _published(house, clip)
    house.stop()
    storage.watch = player = Player(storage)
    house.fail_point = step
    house.start()
    house.do("retranscode", job)
    house.died()
    sent = [asked.key for asked in storage.asked if asked.method == "PUT" and "/v2/" in asked.key]
    storage.asked.clear()
    house.up()
    again = house.client.send(calls.jobs(sort="-number"))["jobs"][0]["id"]
    house.done(again)
    _delivered(house, again)
    until(lambda: not any("/v1/" in key for key in storage.names()), "the old one is removed")
    assert player.seen
    assert not player.missing
    if step in _STEPS[1:]:
        assert sent
        assert not [each.key for each in storage.asked if each.method == "PUT" and "/v2/" in each.key]
    _require_same(house, storage)


@pytest.mark.slow
def test_trouble_of_the_server_is_waited_out(house: Studio, storage: ObjectStorage, clip: MakeClip) -> None:
    """Every third object is refused, cut off or gets no answer; after that the server is gone for a while."""
    house.up()
    ways = ("refuse", "tear", "drop")
    disturbed: list[str] = []

    def disturb(asked: Asked) -> str | None:
        if asked.method != "PUT" or "/v1/" not in asked.key or asked.number % 3 or len(disturbed) >= 9:
            return None
        disturbed.append(ways[len(disturbed) % 3])
        return disturbed[-1]

    storage.disturb = disturb
    storage.watch = player = Player(storage)
    _published(house, clip)
    assert set(disturbed) == set(ways)
    assert not player.missing
    _require_same(house, storage)


@pytest.mark.more
def test_a_refused_ladder_says_why_until_it_is_taken(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    storage.disturb = lambda asked: "refuse" if "/v1/" in asked.key else None
    job = house.add(clip(), output_b64=None)
    house.done(job)

    def failing() -> Any:
        found = house.video_of(job)["delivery"]
        return found["problem"] and found

    found = until(failing, "the problem is shown")
    assert found["state"] == "waiting"
    assert "SlowDown: Please reduce your request rate." in found["problem"]["message"]
    assert found["problem"]["code"] == "UPSTREAM"
    assert not any(key.endswith("master.m3u8") for key in storage.names())
    storage.disturb = pass_on
    _delivered(house, job)
    _require_same(house, storage)


@pytest.mark.more
def test_a_file_is_added_while_the_bucket_is_out_of_order(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    storage.disturb = lambda asked: "refuse" if asked else None
    job = house.add(clip(), output_b64=None)
    drop = house.root / "drop"
    drop.mkdir()
    with pytest.raises(TqError) as refused:
        house.client.send(calls.add_folder(_b64(str(drop)), output_b64=None))
    assert refused.value.code == "UPSTREAM"
    storage.disturb = pass_on
    house.done(job)
    _delivered(house, job)
    _require_same(house, storage)


@pytest.mark.slow
def test_a_deleted_video_leaves_the_bucket_and_returns(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    job = _published(house, clip)
    video = house.video_of(job)["id"]
    storage.watch = player = Player(storage)
    house.client.send(calls.delete_video(video))
    until(lambda: not storage.names(), "the bucket is empty")
    house.client.send(calls.undelete_video(video))
    _delivered(house, job)
    assert not player.missing
    _require_same(house, storage)


@pytest.fixture
def sparing(make_studio: MakeStudio, storage: ObjectStorage) -> Studio:
    """A studio that keeps no segments of what is in the bucket, and replaced ladders for a minute."""
    house = make_studio(keep_old_s=60, output=URL, keep_bucket_copies="false")
    storage.configure(house.home)
    return house


def _segments(house: Studio) -> list[str]:
    return [name for name in below(_copy(house)) if name.endswith(".m4s")]


def _require_whole(storage: ObjectStorage) -> None:
    """All that the only master playlist of the bucket names is there, as the digests say."""
    [master] = [name for name in storage.names() if name.endswith("/master.m3u8")]
    assert storage.named_files(master) <= set(storage.names())
    folder = master.rpartition("/")[0]
    [number] = set(re.findall(r"(v\d+)/", storage.get(master)[0].decode()))
    sums = storage.get(f"{folder}/{number}/BLAKE3SUMS")[0].decode()
    for line in sums.splitlines():
        digest, name = line.split("  ")
        assert blake3(storage.get(f"{folder}/{number}/{name}")[0]).hexdigest() == digest, name


@pytest.mark.slow
def test_a_file_of_the_whole_video_goes_where_its_ladder_goes(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    sparing.up()
    files = {"files": '["mp4", "m4a"]'}
    job = _published(sparing, clip, overrides=files)
    slug = sparing.video_of(job)["slug"]
    names = [f"vod/{slug}/v1/{slug}.{kind}" for kind in ("m4a", "mp4")]
    assert set(names) <= set(storage.names())
    _require_whole(storage)
    assert [each["path"] for each in sparing.video_of(job)["generation"]["files"]] == [
        f"s3://{BUCKET}/{name}" for name in names
    ]
    assert not [name for name in below(_copy(sparing)) if name.endswith((".m4a", f"{slug}.mp4"))]
    assert sparing.offer(clip(), output_b64=None, overrides=files)[0]["decision"] == "cached"
    assert sparing("verify", "--full", URL).code == 0
    sparing("video", "delete", str(sparing.video_of(job)["id"]), "--yes")
    until(lambda: f"vod/{slug}/master.m3u8" not in storage.names(), "players no longer find it")


@pytest.mark.more
def test_segments_that_are_in_the_bucket_need_no_room_here(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    sparing.up()
    job = _published(sparing, clip)
    assert not _segments(sparing)
    _require_whole(storage)
    assert sparing.offer(clip(), output_b64=None)[0]["decision"] == "cached", "nothing is encoded again"
    master = next(_copy(sparing).glob("*/master.m3u8"))
    assert f"its segments are in {URL}/" in sparing("verify", str(master)).out
    assert f"master     {URL}/320x180-25-4s-2ch/master.m3u8" in sparing("job", "show", str(job)).out

    again = sparing.do("retranscode", job, renditions=["90p"])["new_job"]
    sparing.done(again)
    _delivered(sparing, again)
    assert not _segments(sparing)
    _require_whole(storage)


@pytest.mark.more
def test_a_deleted_video_without_segments_here_returns(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    sparing.up()
    job = _published(sparing, clip)
    video, whole = sparing.video_of(job)["id"], set(storage.names())
    sparing.client.send(calls.delete_video(video))
    until(lambda: not any(name.endswith("/master.m3u8") for name in storage.names()), "it is hidden")
    assert len(whole - set(storage.names())) == 1, "its files stay as long as it can be brought back"
    sparing.client.send(calls.undelete_video(video))
    _delivered(sparing, job)
    assert set(storage.names()) == whole
    _require_whole(storage)


@pytest.mark.more
def test_segments_that_the_bucket_has_lost_stay_here(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    """One is removed there when the master playlist arrives."""
    sparing.up()
    lost: list[str] = []

    def lose(asked: Asked) -> None:
        if asked.method == "PUT" and asked.key.endswith("/master.m3u8") and not lost:
            lost.append(next(name for name in storage.names() if name.endswith(".m4s")))
            _remove(storage, lost[0])

    storage.watch = lose
    job = sparing.add(clip(), output_b64=None)
    sparing.done(job)
    _delivered(sparing, job)
    assert lost
    assert lost[0] in storage.names(), "it was uploaded again"
    assert not _segments(sparing)
    _require_whole(storage)


def _remove(storage: ObjectStorage, key: str) -> None:
    url = f"{storage.server}/{BUCKET}/{quote(key)}"
    with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")):
        pass


@pytest.mark.slow
def test_what_a_bucket_has_lost_is_found_and_uploaded_again(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    job = _published(house, clip)
    video = house.video_of(job)["id"]
    assert house("verify", URL).code == 0
    segments = sorted(name for name in storage.names() if name.endswith(".m4s"))
    _remove(storage, segments[0])
    changed = storage.get(segments[1])[0]
    _put(storage, segments[1], changed[:-1] + bytes([changed[-1] ^ 1]))

    found = house("verify", URL)
    assert found.code == 1
    lost = segments[0].removeprefix("vod/320x180-25-4s-2ch/")
    assert f"{URL}/320x180-25-4s-2ch lacks {lost}, or has others by these names" in found.out
    assert "tqstudio video upload ID" in found.out
    assert f"lacks {lost} and 1 more file" in house("verify", "--full", URL).out
    assert house("verify", str(_copy(house))).code == 0, "the local copy is whole"

    assert f"is uploaded to {URL}/320x180-25-4s-2ch" in house("video", "upload", str(video)).out
    _delivered(house, job)
    assert house("verify", "--full", URL).code == 0
    _require_same(house, storage)


@pytest.mark.more
def test_a_ladder_that_is_not_here_or_of_no_bucket_is_not_uploaded_again(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    sparing.up()
    evicted = sparing.video_of(_published(sparing, clip))["id"]
    elsewhere = sparing.add(clip(seconds=2))
    sparing.done(elsewhere)
    for video in (evicted, sparing.video_of(elsewhere)["id"]):
        refused = sparing("video", "upload", str(video))
        assert refused.code == 4
        assert f"video {video} has no ladder here that belongs in a bucket" in refused.err
    assert "there is no video 99" in sparing("video", "upload", "99").err
    assert sparing("verify", "--full", URL).code == 0, "the bucket has what was published"
    segment = next(name for name in storage.names() if name.endswith(".m4s"))
    _remove(storage, segment)
    found = sparing("verify", URL)
    assert (found.code, "lacks v1/" in found.out) == (1, True)


@pytest.mark.more
def test_a_supervisor_killed_after_the_eviction_continues(
    sparing: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    sparing.fail_point = "delivery.evicted"
    sparing.start()
    job = sparing.add(clip(), output_b64=None)
    sparing.died()
    sparing.up()
    _delivered(sparing, job)
    assert not _segments(sparing)
    _require_whole(storage)


@pytest.mark.more
def test_a_ladder_takes_the_address_of_a_deleted_one_after_that_is_removed(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    """Two outputs, of which one lies in the other, give both ladders the same address."""
    house.up()
    one, source = _published(house, clip), clip(seconds=2)
    (name,) = {key.split("/")[1] for key in storage.names()}
    storage.watch = player = Player(storage)
    storage.disturb = lambda asked: (
        "refuse" if asked.method == "GET" and asked.key.endswith("BLAKE3SUMS") else None
    )
    house.client.send(calls.delete_video(house.video_of(one)["id"]))
    until(lambda: house.status()["deliveries"]["problem"], "the removal has failed")
    drop = house.root / "drop"
    drop.mkdir()
    shutil.copyfile(source, drop / f"{name}.mp4")
    house("folder", "add", str(drop), "--output", f"s3://{BUCKET}", "--template", "vod/{slug}")
    two = until(lambda: house.client.send(calls.jobs(sort="-number"))["jobs"], "it is queued")[0]["id"]
    house.done(two)
    waits = until(lambda: house.video_of(two)["delivery"]["problem"], "the upload waits")
    assert waits["code"] == "REFUSED"
    assert f"/vod/{name}" in waits["message"]
    storage.disturb = pass_on
    _delivered(house, two)
    assert not house.status()["deliveries"]["count"]
    assert not player.missing
    _require_same(house, storage)


@pytest.mark.more
def test_a_supervisor_of_one_run_stays_until_its_ladder_is_copied(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    left = Event()

    def wait(asked: Asked) -> None:
        if "/v1/" in asked.key:
            left.wait(60)

    storage.watch = wait
    done = house("process", "-i", str(clip(seconds=2)))
    assert "keeps running: ladders are being copied to their buckets" in done.err
    left.set()
    until(lambda: any(key.endswith("/master.m3u8") for key in storage.names()), "it is copied")
    until(lambda: not house.home.socket.exists(), "the supervisor ends")
    _require_same(house, storage)


@pytest.mark.more
def test_a_ladder_that_cannot_be_removed_delays_no_other(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    """Its list of files was overwritten."""
    house.up()
    one = _published(house, clip)
    (listed,) = (key for key in storage.names() if key.endswith("BLAKE3SUMS"))
    asyncio.run(Bucket(house.home, f"s3://{BUCKET}").put(listed, b"nonsense", is_final=True))
    house.client.send(calls.delete_video(house.video_of(one)["id"]))
    until(lambda: house.status()["deliveries"]["problem"], "the removal has failed")
    two = house.add(clip(seconds=2), output_b64=None)
    house.done(two)
    _delivered(house, two)
    assert house.status()["deliveries"]["count"] == 1


@pytest.mark.more
def test_a_deleted_ladder_is_removed_while_another_is_uploaded(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    one = _published(house, clip)
    (first,) = {key.split("/")[1] for key in storage.names()}
    begun = Event()

    def slow(asked: Asked) -> None:
        if asked.method == "PUT" and f"/{first}/" not in asked.key:
            begun.set()
            time.sleep(0.5)

    storage.watch = slow
    two = house.add(clip(seconds=12), output_b64=None)
    house.done(two)
    assert begun.wait(60)
    house.client.send(calls.delete_video(house.video_of(one)["id"]))
    _delivered(house, two)
    until(lambda: not house.status()["deliveries"]["count"], "the first one is removed")
    keys = [asked.key for asked in storage.asked]
    last = max(at for at, key in enumerate(keys) if f"/{first}/" in key)
    assert any("/v1/" in key for key in keys[last + 1 :]), "the upload continued after the removal"
    _require_same(house, storage)


@pytest.mark.more
def test_a_damaged_local_copy_is_not_uploaded(house: Studio, storage: ObjectStorage, clip: MakeClip) -> None:
    house.up()
    storage.disturb = lambda asked: "refuse" if "/v1/" in asked.key else None
    job = house.add(clip(), output_b64=None)
    house.done(job)
    until(lambda: house.video_of(job)["delivery"]["problem"], "the upload has failed")
    segment = next(_copy(house).rglob("*.m4s"))
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    storage.disturb = pass_on

    def differs() -> bool:
        problem = house.video_of(job)["delivery"]["problem"]
        return problem is not None and "differs from what was published" in problem["message"]

    until(differs, "the difference is reported")
    assert not any(key.endswith("master.m3u8") for key in storage.names())
    segment.write_bytes(content)
    _delivered(house, job)
    _require_same(house, storage)


@pytest.mark.more
def test_what_cannot_be_a_bucket_is_refused(house: Studio, clip: MakeClip) -> None:
    house.up()

    def refused(output: str) -> TqError:
        with pytest.raises(TqError) as caught:
            house.add(clip(), output_b64=_b64(output))
        return caught.value

    assert refused("s3://films/../../etc").code == "BAD_REQUEST"
    assert refused("s3://").code == "BAD_REQUEST"
    missing = refused("s3://nowhere/vod")
    assert (missing.code, missing.hint) == ("PERMISSION", f"correct its keys in {_settings(house.home)}")
    _settings(house.home).write_text(_settings(house.home).read_text().replace("s3://films", "s3://nowhere"))
    missing = refused("s3://nowhere/vod")
    assert missing.code == "NOT_FOUND"
    assert "The specified bucket does not exist" in missing.message
    _settings(house.home).write_text('["s3://films"]\nregoin = "x"\n')
    assert "'regoin' is not valid" in refused(URL).message
    _settings(house.home).chmod(0o644)
    assert refused(URL).code == "PERMISSION"


def _settings(home: Home) -> Path:
    return home.bucket_settings


def _b64(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


@pytest.mark.more
def test_commands_show_what_waits_and_check_the_bucket(
    house: Studio, storage: ObjectStorage, clip: MakeClip
) -> None:
    house.up()
    storage.disturb = lambda asked: "refuse" if "/v1/" in asked.key else None
    job = house.add(clip(), output_b64=None)
    house.done(job)
    until(lambda: house.status()["deliveries"]["problem"], "the problem is shown")
    shown = house("status").out
    assert "buckets     1 ladder to upload or remove" in shown
    assert "SlowDown" in shown
    assert f"bucket     {URL}/" in house("job", "show", str(job)).out
    storage.disturb = pass_on
    _delivered(house, job)
    assert f"bucket     {URL}/320x180-25-4s-2ch\n" in house("job", "show", str(job)).out
    assert f"bucket {URL}" in house("doctor").out
    folder = house.root / "drop"
    folder.mkdir()
    house("folder", "add", str(folder), "--output", URL)
    assert URL in house("folder", "list").out


# Sources


def _put(storage: ObjectStorage, key: str, content: bytes) -> None:
    url, kind = f"{storage.server}/{BUCKET}/{quote(key)}", {"Content-Type": "video/mp4"}
    with urllib.request.urlopen(urllib.request.Request(url, content, kind, method="PUT")):
        pass


def _fetched(house: Studio, key: str) -> Any:
    begun = house.client.send(calls.fetch(f"s3://{BUCKET}/{key}"))

    def ended() -> Any:
        return house.client.send(calls.upload(begun["upload"]))["result"]

    return until(ended, f"{key} is fetched")


@pytest.mark.slow
def test_a_source_is_fetched_and_encoded(house: Studio, storage: ObjectStorage, clip: MakeClip) -> None:
    house.up()
    _put(storage, "raw/my film.mp4", clip().read_bytes())
    added = house("add", f"s3://{BUCKET}/raw/my film.mp4", "--output", str(house.out), "--json")
    (result,) = added.json()["results"]
    assert result["decision"] == "queued"
    assert Path(result["path"]).read_bytes() == clip().read_bytes()
    assert Path(result["path"]) == house.home.incoming / "my film.mp4"
    house.done(result["job"])
    assert (house.out / "my-film" / "master.m3u8").exists()


@pytest.mark.slow
def test_a_fetch_continues_after_trouble_and_a_kill(
    house: Studio, storage: ObjectStorage, clip: MakeClip, tmp_path: Path
) -> None:
    """Of 36 MB, in parts of 16: the first is here when the supervisor is killed."""
    film = tmp_path / "film.mp4"
    film.write_bytes(clip().read_bytes() + bytes(36_000_000))
    _put(storage, "raw/film.mp4", film.read_bytes())
    house.up()
    parts: list[int] = []

    def disturb(asked: Asked) -> str | None:
        if asked.method != "GET" or not asked.key.startswith("raw/"):
            return None
        parts.append(asked.number)
        return "refuse" if len(parts) > 1 else None

    storage.disturb = disturb
    begun = house.client.send(calls.fetch(f"s3://{BUCKET}/raw/film.mp4"))["upload"]

    def failed() -> bool:
        state = house.client.send(calls.upload(begun))
        return bool(state["problem"]) and state["offset"] == 16 * 1024 * 1024

    until(failed, "the first part is here, the second is refused")
    house.kill()
    house.until_gone()
    storage.disturb, before = pass_on, len(storage.asked)
    house.up()
    result = until(lambda: house.client.send(calls.upload(begun))["result"], "it is fetched")
    assert Path(result["path"]).read_bytes() == film.read_bytes()
    assert sum(asked.key == "raw/film.mp4" for asked in storage.asked[before:]) == 2, (
        "the parts after the first"
    )


@pytest.mark.more
def test_what_cannot_be_fetched_is_refused(
    house: Studio, storage: ObjectStorage, clip: MakeClip, tmp_path: Path
) -> None:
    house.up()

    def refused(url: str) -> TqError:
        with pytest.raises(TqError) as caught:
            house.client.send(calls.fetch(url))
        return caught.value

    assert refused("https://films/x.mp4").code == "BAD_REQUEST"
    assert refused("s3://films").code == "BAD_REQUEST"
    assert refused("s3://films/raw/missing.mp4").code == "NOT_FOUND"

    film = tmp_path / "film.mp4"
    film.write_bytes(clip().read_bytes() + bytes(20_000_000))
    _put(storage, "raw/film.mp4", film.read_bytes())

    def replace(asked: Asked) -> None:
        if asked.method == "GET" and asked.key == "raw/film.mp4" and not replaced:
            replaced.append(asked)
            _put(storage, "raw/film.mp4", clip().read_bytes())

    replaced: list[Asked] = []
    storage.watch = replace
    result = _fetched(house, "raw/film.mp4")
    assert (result["decision"], result["error"]["code"]) == ("rejected", "SOURCE_CHANGED")
    assert not list(house.home.incoming.rglob("*.part"))
    assert not list(house.home.incoming.glob("*.mp4"))
