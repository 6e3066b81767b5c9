"""What a worker of another machine may read and write: the files of its own job, while it holds the lease."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from blake3 import blake3

from harness import LiveSupervisor
from tqstudio.paths import encode
from tqstudio.protocol import calls, content_digest

_INSTANCE = "instance-of-a-test"
_ENCODED = {"encoder": "libx264", "build": "a build"}
_ABILITY = {"encoders": ["libx264"], "build": "a build"}


class Lease:
    """A worker with a token that has claimed one job."""

    def __init__(self, live: LiveSupervisor, name: str, source: Path) -> None:
        self.source, self.live = source, live
        self.token = live.send(calls.create_token(name, "worker"))["token"]
        self.port = int(str(live.send(calls.status())["supervisor"]["listen"]).rpartition(":")[2])
        message = {"instance": _INSTANCE}
        self.json("POST", "/v1/worker/register", {**message, "pid": 1, "pid_started": 1.0})
        self.claimed = self.json("POST", "/v1/worker/claim", {**message, "wait_s": 5, "ranges": _ABILITY})[
            "job"
        ]
        self.epoch, self.instance = self.claimed["epoch"], _INSTANCE

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **headers})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def json(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        status, _, answer = self.ask(method, path, content, **{"Content-Type": "application/json"})
        return json.loads(answer) if status != 204 else None

    def files(
        self, method: str, what: str, body: bytes | None = None, digest: str = "", **params: Any
    ) -> tuple[int, bytes]:
        """A request about the files of the job; answers the status and the body, or the error's code."""
        known = {"epoch": self.epoch, "instance": self.instance}
        headers = {} if body is None else {content_digest.HEADER: digest or content_digest.of(body)}
        if method == "POST":
            headers["Content-Type"] = "application/json"
        path = f"/v1/worker/jobs/{self.claimed['job']}/{what}?{urlencode(known | params)}"
        status, answered, content = self.ask(method, path, body, **headers)
        if status >= 400:
            return status, json.loads(content)["error"]["code"].encode()
        assert (
            method != "GET"
            or what in ("inputs", "store/names")
            or answered[content_digest.HEADER] == content_digest.of(content)
        )
        return status, content

    def put(self, path: str, content: bytes, *, offset: int = 0, size: int | None = None, **more: Any) -> Any:
        whole = more.pop("whole", content)
        params = {"path": path, "offset": offset, "size": len(whole) if size is None else size}
        return self.files("PUT", "store", content, blake3=blake3(whole).hexdigest(), **params, **more)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def lease(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lease]:
    folder = tmp_path_factory.mktemp("transfers")
    live = LiveSupervisor(folder / "home", TQSTUDIO_LISTEN="127.0.0.1:0", TQSTUDIO_LEASE_S="600")
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        source = folder / "film.mp4"
        source.write_bytes(bytes(range(256)) * 40)
        source.with_name("film.de.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello\n")
        source.with_name("private.txt").write_text("private")
        live.send(calls.add([encode(source)], output_b64=encode(out)))
        lease = Lease(live, "attic", source)
        lease.files("GET", "inputs")  # as each worker begins: it creates the work folder of the output
        yield lease
    finally:
        live.clear_away()


def _stored(out: Path) -> dict[str, bytes]:
    [store] = out.glob(".tqstudio/*/segments/*")
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_the_source_is_read_in_parts(lease: Lease) -> None:
    _, answer = lease.files("GET", "inputs")
    video, subtitles = json.loads(answer)["files"]
    about = {"name_b64": video["name_b64"], "version": video["version"]}
    assert lease.files("GET", "source", offset=10_000, length=1000, **about) == (
        200,
        (bytes(range(256)) * 40)[10_000:11_000],
    )
    assert lease.files("GET", "source", offset=10_240, length=1000, **about) == (200, b"")
    assert subtitles["name_b64"] == encode(b"film.de.srt")


def test_a_source_that_is_renamed_or_touched_meanwhile_is_copied_on(lease: Lease, out: Path) -> None:
    _, answer = lease.files("GET", "inputs")
    source, renamed, before = lease.source, lease.source.with_name("renamed.mp4"), lease.source.stat()
    subtitles = source.with_name("film.de.srt").read_bytes()
    files = [{key: each[key] for key in ("name_b64", "version")} for each in json.loads(answer)["files"]]
    source.rename(renamed)
    try:
        [added] = lease.live.send(calls.add([encode(renamed)], output_b64=encode(out)))["results"]
        assert added["job"] == lease.claimed["job"]
        os.utime(renamed)
        renamed.with_name("backup.mp4").hardlink_to(renamed)
        contents = [lease.files("GET", "source", offset=0, length=10_240, **about) for about in files]
        assert contents == [(200, bytes(range(256)) * 40), (200, subtitles)]
        with renamed.open("r+b") as file:
            file.write(b"other")
        changed = lease.files("GET", "source", offset=0, length=10, **files[0])
        assert changed == (400, b"SOURCE_CHANGED")
    finally:
        with renamed.open("r+b") as file:
            file.write(bytes(range(256)))
        os.utime(renamed, ns=(before.st_atime_ns, before.st_mtime_ns))
        renamed.rename(source)
        lease.live.send(calls.add([encode(source)], output_b64=encode(out)))


@pytest.mark.parametrize("name", [b"private.txt", b"../home/tqstudio.db", b"/etc/passwd", b"."])
def test_no_other_file_is_read(lease: Lease, name: bytes) -> None:
    found = lease.files("GET", "source", name_b64=encode(name), version="1-1-1-1", offset=0, length=10)
    assert found == (404, b"NOT_FOUND")


def test_another_version_of_the_source_is_not_mixed_in(lease: Lease) -> None:
    found = lease.files("GET", "source", name_b64=encode(b"film.mp4"), version="1-2-3-4", offset=0, length=10)
    assert found == (400, b"SOURCE_CHANGED")


def test_a_file_appears_once_it_is_whole(lease: Lease, out: Path) -> None:
    assert lease.put("720p/key/seg_00000.m4s", b"begin", whole=b"begin and end")[0] == 204
    assert "720p/key/seg_00000.m4s" not in _stored(out)
    # The answer to a part may be lost: it is sent again.
    for _ in range(2):
        assert lease.put("720p/key/seg_00000.m4s", b" and", offset=5, whole=b"begin and end")[0] == 204
    assert lease.put("720p/key/seg_00000.m4s", b" end", offset=9, whole=b"begin and end")[0] == 204
    assert _stored(out)["720p/key/seg_00000.m4s"] == b"begin and end"
    found = lease.files("GET", "store", path="720p/key/seg_00000.m4s", offset=6, length=3)
    assert found == (200, b"and")
    _, answer = lease.files("GET", "inputs")
    assert json.loads(answer)["stored"]["720p/key/seg_00000.m4s"] == [
        13,
        blake3(b"begin and end").hexdigest(),
    ]
    body = json.dumps({"paths": ["720p/key/seg_00000.m4s", "720p/missing"]}).encode()
    assert lease.files("POST", "store/remove", body)[0] == 204
    assert "720p/key/seg_00000.m4s" not in _stored(out)


def test_the_last_part_may_be_repeated(lease: Lease, out: Path) -> None:
    """The file was stored, and the answer was lost."""
    last = {"offset": 5, "whole": b"begin and end"}
    assert lease.put("720p/key/seg_00001.m4s", b"begin", whole=b"begin and end")[0] == 204
    for _ in range(2):
        assert lease.put("720p/key/seg_00001.m4s", b" and end", **last)[0] == 204
    assert _stored(out)["720p/key/seg_00001.m4s"] == b"begin and end"
    body = json.dumps({"paths": ["720p/key/seg_00001.m4s"]}).encode()
    assert lease.files("POST", "store/remove", body)[0] == 204


def test_nothing_is_written_below_an_output_that_is_not_mounted(lease: Lease, out: Path) -> None:
    _, answer = lease.files("GET", "inputs")
    away = out.with_name("away")
    out.rename(away)
    try:
        out.mkdir()
        assert lease.put("720p/key/seg_00002.m4s", b"x")[1] == b"OUTPUT_UNAVAILABLE"
        assert lease.files("GET", "store/names")[1] == b"OUTPUT_UNAVAILABLE"
        assert (
            lease.files("GET", "store", path="720p/key/seg_00000.m4s", offset=0, length=3)[1]
            == b"OUTPUT_UNAVAILABLE"
        )
        assert lease.files("POST", "store/remove", b'{"paths": ["720p/x"]}')[1] == b"OUTPUT_UNAVAILABLE"
        assert not list(out.iterdir())
        out.rmdir()
    finally:
        away.rename(out)
    assert lease.files("GET", "inputs")[1] == answer


def test_damage_on_the_way_is_refused(lease: Lease, out: Path) -> None:
    wrong = content_digest.of(b"other")
    assert lease.put("480p/a", b"this", digest=wrong) == (460, b"UPLOAD_DAMAGED")
    assert lease.put("480p/a", b"this", whole=b"that") == (460, b"UPLOAD_DAMAGED")
    assert lease.put("480p/a", b"end", offset=7, whole=b"missing end") == (460, b"UPLOAD_DAMAGED")
    assert "480p/a" not in _stored(out)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", ".origin", "a/.b", "", "a//b", "a/b/c/d/e/f/g", "a\0b"]
)
def test_no_path_leads_out_of_the_store(lease: Lease, path: str) -> None:
    assert lease.put(path, b"x") == (400, b"BAD_REQUEST")
    assert lease.files("GET", "store", path=path, offset=0, length=1) == (400, b"BAD_REQUEST")


def test_no_link_leads_out_of_the_store(lease: Lease, out: Path, tmp_path: Path) -> None:
    lease.files("GET", "inputs")
    [store] = out.glob(".tqstudio/*/segments/*")
    (store / "planted").symlink_to(tmp_path)
    (tmp_path / "kept").write_text("kept")
    (store / "planted-file").symlink_to(tmp_path / "kept")
    try:
        assert lease.put("planted/x", b"x")[0] >= 400
        assert lease.files("GET", "store", path="planted-file", offset=0, length=4)[0] >= 400
        assert lease.files("POST", "store/remove", b'{"paths": ["planted/kept"]}')[0] >= 400
    finally:
        (store / "planted").unlink()
        (store / "planted-file").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_too_much_is_refused(lease: Lease) -> None:
    assert lease.put("a", b"x" * 10, size=5) == (400, b"BAD_REQUEST")
    assert lease.put("a", b"x", size=1 << 40) == (400, b"BAD_REQUEST")
    assert lease.files("PUT", "log", b"x", offset=1 << 40) == (400, b"BAD_REQUEST")


@pytest.mark.parametrize(("epoch", "instance"), [(99, _INSTANCE), (1, "another-instance")])
def test_without_the_lease_nothing_is_read_or_written(lease: Lease, epoch: int, instance: str) -> None:
    kept = lease.epoch, lease.instance
    lease.epoch, lease.instance = epoch, instance
    try:
        assert lease.files("GET", "inputs") == (409, b"LOST_LEASE")
        assert lease.put("a", b"x") == (409, b"LOST_LEASE")
        assert lease.files("PUT", "log", b"x", offset=0) == (409, b"LOST_LEASE")
        assert lease.files("POST", "store/remove", b'{"paths": ["a"]}') == (409, b"LOST_LEASE")
        source = {"name_b64": encode(b"film.mp4"), "version": "1"}
        assert lease.files("GET", "source", offset=0, length=1, **source) == (409, b"LOST_LEASE")
    finally:
        lease.epoch, lease.instance = kept


def test_a_link_beside_the_source_is_not_followed(lease: Lease) -> None:
    """As for a worker beside the studio: it is left out, with a warning."""
    folder = lease.source.parent
    (folder / "film.fr.srt").symlink_to(folder / "private.txt")
    try:
        answer = json.loads(lease.files("GET", "inputs")[1])
        assert encode(b"film.fr.srt") not in [each["name_b64"] for each in answer["files"]]
        [warning] = answer["warnings"]
        assert (warning["code"], "film.fr.srt" in warning["text"]) == ("SUBTITLES_LEFT_OUT", True)
        about = {"name_b64": encode(b"film.fr.srt"), "version": "1-1-1-1"}
        assert lease.files("GET", "source", offset=0, length=10, **about) == (404, b"NOT_FOUND")
    finally:
        (folder / "film.fr.srt").unlink()


@pytest.fixture
def part(lease: Lease) -> Iterator[Lease]:
    """Another worker, with a range of the same job."""
    report = {"instance": _INSTANCE, "epoch": lease.epoch, "step": "transcode", "progress": 1, "speed": 1}
    division = {"missing": [[0, 20]], "segment_s": 6, "streams": {"720p": "key"}} | _ENCODED
    path = f"/v1/worker/jobs/{lease.claimed['job']}/progress"
    assert lease.put("720p/key/init.mp4", b"headers")[0] == 204
    lease.json("POST", path, report | {"division": division})
    other = Lease(lease.live, "helper", lease.source)
    assert other.claimed["range"]["end"] == 20
    yield other
    lease.json("POST", path, report)
    lease.live.send(calls.revoke_token("helper"))


def test_a_range_adds_segments_and_replaces_none(lease: Lease, part: Lease, out: Path) -> None:
    _, answer = part.files("GET", "inputs")
    stored = json.loads(answer)["stored"]
    assert stored.keys() == {"720p/key/init.mp4"}, "it makes its segments without those of others"
    assert lease.put("720p/key/seg_00017.m4s", b"first")[0] == 204
    assert part.put("720p/key/seg_00017.m4s", b"second")[0] == 204
    assert part.put("720p/key/seg_00018.m4s", b"another")[0] == 204
    stored = _stored(out)
    assert (stored["720p/key/seg_00017.m4s"], stored["720p/key/seg_00018.m4s"]) == (b"first", b"another")
    assert not [path for path in stored if path.startswith("720p") and ".part" in path]


def test_a_range_has_the_headers_of_the_worker_of_the_job(lease: Lease, part: Lease, out: Path) -> None:
    """With others, its segments would be joined with those of another encode."""
    lease.files("POST", "store/remove", b'{"paths": ["720p/key/init.mp4"]}')
    assert part.put("720p/key/init.mp4", b"headers")[1] == b"OUTPUT_UNAVAILABLE", "not there yet: ask again"
    assert lease.put("720p/key/init.mp4", b"headers")[0] == 204
    assert part.put("720p/key/init.mp4", b"others") == (400, b"OUTPUT_INVALID")
    assert part.put("720p/key/init.mp4", b"headers")[0] == 204
    assert _stored(out)["720p/key/init.mp4"] == b"headers"


def test_two_that_send_one_segment_disturb_each_other_not(lease: Lease, part: Lease, out: Path) -> None:
    path, content = "720p/key/seg_00019.m4s", b"the first half, the second half"
    for offset in (0, 15):
        for each in (lease, part):
            piece = content[offset : offset + 15] if not offset else content[offset:]
            sent = each.put(path, piece, offset=offset, size=len(content), whole=content)
            assert sent[0] == 204
    assert _stored(out)[path] == content


def test_the_worker_of_the_job_sees_what_others_have_stored(lease: Lease, part: Lease) -> None:
    assert part.put("720p/key/seg_00018.m4s", b"another")[0] == 204
    assert lease.put("720p/key/fragments/frag_00001.m4s", b"x")[0] == 204
    names = json.loads(lease.files("GET", "store/names")[1])["names"]
    assert "720p/key/seg_00018.m4s" in names
    assert all(name.rpartition("/")[2].startswith("seg_") for name in names)


def test_a_range_removes_fragments_only(lease: Lease, part: Lease, out: Path) -> None:
    paths = ["720p/key/seg_00003.m4s", "720p/key/fragments/frag_00011.m4s"]
    for path in paths:
        assert lease.put(path, b"stored")[0] == 204
    assert part.files("POST", "store/remove", json.dumps({"paths": paths}).encode())[0] == 204
    assert paths[0] in _stored(out)
    assert paths[1] not in _stored(out)


def test_a_range_completes_nothing_and_writes_no_log(part: Lease) -> None:
    assert part.put("720p/key/complete.json", b"{}") == (400, b"BAD_REQUEST")
    assert part.files("PUT", "log", b"text", offset=0) == (409, b"LOST_LEASE")


def test_a_range_that_is_no_longer_wanted_writes_nothing(lease: Lease, part: Lease) -> None:
    report = {"instance": _INSTANCE, "epoch": lease.epoch, "step": "transcode", "progress": 1}
    lease.json("POST", f"/v1/worker/jobs/{lease.claimed['job']}/progress", report)
    assert part.put("720p/key/seg_00019.m4s", b"late") == (409, b"LOST_LEASE")
    assert part.files("GET", "inputs") == (409, b"LOST_LEASE")
