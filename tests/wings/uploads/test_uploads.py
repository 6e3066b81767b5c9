"""Uploads through a real supervisor over TCP with TLS: what is acknowledged stays, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from certificates import certificate
from engine.test_publish_trouble import fill, mount
from engine.test_tcp import Studio, bearer
from harness import LiveSupervisor, Program
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.protocol.remote import Remote
from tqstudio.protocol.uploads import Upload
from tqstudio.wings.uploads import part, part_file
from tqstudio.wings.uploads.metadata import MAX_NAME_BYTES, safe_name
from waiting import until

MB = 1_000_000


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("certificate"))


class Site(Studio):
    """A studio with a token to upload with."""

    def __init__(self, live: LiveSupervisor, cert: Path, secret: str | None = None) -> None:
        super().__init__(live, cert)
        self.secret = secret or self.token("desk", "operate")
        self.incoming = live.home.incoming

    def tus(
        self, method: str, url: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        sent = {"Tus-Resumable": "1.0.0", **bearer(self.secret)} | headers
        return self.raw(method, url, body, **sent)

    def begin(self, size: int, name: str = "film.mp4", **about: str) -> str:
        status, headers, answer = self.tus(
            "POST", "/v1/uploads", Upload_Length=str(size), Upload_Metadata=metadata(filename=name, **about)
        )
        assert status == 201, answer
        return headers["location"]

    def patch(
        self, url: str, offset: int, body: bytes, *, digest: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        more = {"Upload_Offset": str(offset), "Content_Type": "application/offset+octet-stream"}
        if digest is not None:
            more["Upload_Checksum"] = f"sha256 {base64.b64encode(digest).decode()}"
        return self.tus("PATCH", url, body, **(more | headers))

    def offset(self, url: str) -> int:
        status, headers, _ = self.tus("HEAD", url)
        assert status == 200
        return int(headers["upload-offset"])

    def result(self, url: str) -> Any:
        return json.loads(self.tus("GET", url)[2])["result"]

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.incoming.iterdir() if path.is_file()}

    def parts(self) -> list[Path]:
        folder = self.incoming / part_file.PARTS
        return list(folder.iterdir()) if folder.is_dir() else []

    @property
    def remote(self) -> Remote:
        return Remote("nas", "localhost", self.port, self.secret, self.context)


def metadata(**values: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())


def sha256(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def video(size: int = 3 * MB, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


Open = Callable[..., Site]


@pytest.fixture
def open_site(certified: tuple[Path, Path], tmp_path: Path) -> Iterator[Open]:
    """Starts a studio of its own, whose jobs nobody encodes."""
    begun: list[LiveSupervisor] = []

    def start(home: Path | None = None, **settings: str) -> Site:
        live = LiveSupervisor(
            home or tmp_path / "home",
            TQSTUDIO_LISTEN="127.0.0.1:0",
            TQSTUDIO_TLS_CERT=str(certified[0]),
            TQSTUDIO_TLS_KEY=str(certified[1]),
            **settings,
        )
        begun.append(live)
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        return Site(live, certified[0])

    yield start
    for live in begun:
        live.clear_away()


@pytest.fixture(scope="module")
def standing_site(certified: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    live = LiveSupervisor(
        tmp_path_factory.mktemp("uploads") / "home",
        TQSTUDIO_LISTEN="127.0.0.1:0",
        TQSTUDIO_TLS_CERT=str(certified[0]),
        TQSTUDIO_TLS_KEY=str(certified[1]),
        TQSTUDIO_UPLOAD_MAX_BYTES=str(50 * MB),
    )
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        yield Site(live, certified[0])
    finally:
        live.clear_away()


@pytest.fixture
def site(standing_site: Site) -> Iterator[Site]:
    """A studio without uploads; what a test leaves behind is removed."""
    standing_site.incoming.mkdir(exist_ok=True)
    yield standing_site
    for row in standing_site.live.send(calls.jobs("state:pending,paused", limit=500))["jobs"]:
        standing_site.live.send(calls.act("cancel", [row["id"]]))
    for path in standing_site.parts():
        standing_site.tus("DELETE", f"/v1/uploads/{path.stem}")
    for path in standing_site.incoming.iterdir():
        if path.name != part_file.PARTS:
            path.unlink()


# The protocol.


def test_a_whole_upload_is_a_file_and_a_job(site: Site) -> None:
    content = video()
    url = site.begin(len(content), "my film.mkv", blake3=blake3(content).hexdigest(), priority="7")
    half = len(content) // 2
    status, headers, _ = site.patch(url, 0, content[:half], digest=sha256(content[:half]))
    assert (status, headers["upload-offset"]) == (204, str(half))
    assert "upload-expires" in headers
    assert site.files() == {}
    status, headers, _ = site.patch(url, half, content[half:], digest=sha256(content[half:]))
    assert (status, headers["upload-offset"]) == (204, str(len(content)))
    job = int(headers["tqstudio-job"])
    assert site.files() == {"my film.mkv": content}
    assert site.parts() == []
    shown = site.live.send(calls.job(job))
    assert (shown["name"], shown["priority"], shown["status"]) == ("my film.mkv", 7, "pending")
    [created, *_] = site.live.send(calls.events(job_id=job))["events"]
    assert created["actor"] == "token:desk"
    # The answer may have been lost: it is still known.
    status, headers, _ = site.tus("HEAD", url)
    assert (status, headers["upload-offset"], headers["tqstudio-job"]) == (200, str(len(content)), str(job))
    assert site.patch(url, len(content), b"")[0] == 204
    assert (site.result(url)["decision"], site.result(url)["job"]) == ("queued", job)
    assert site.tus("DELETE", url)[0] == 204
    assert site.tus("HEAD", url)[0] == 404
    assert site.files() == {"my film.mkv": content}, "the file of a finished upload stays"


def test_what_is_supported_is_answered(site: Site) -> None:
    status, headers, _ = site.tus("OPTIONS", "/v1/uploads")
    assert (status, headers["tus-version"], headers["tus-max-size"]) == (204, "1.0.0", str(50 * MB))
    assert headers["tus-extension"] == "creation,checksum,expiration,termination"
    assert headers["tus-checksum-algorithm"] == "blake3,sha256,sha1"
    about = metadata(filename="a.mp4")
    status, headers, _ = site.raw(
        "POST", "/v1/uploads", b"", **bearer(site.secret), Upload_Length="1", Upload_Metadata=about
    )
    assert (status, headers["tus-version"], headers["tus-resumable"]) == (412, "1.0.0", "1.0.0")
    url = site.begin(10, "a.mp4")
    status, headers, _ = site.tus("HEAD", url)
    assert headers["upload-metadata"] == about
    assert (headers["upload-length"], headers["cache-control"]) == ("10", "no-store")
    assert headers["tus-resumable"] == "1.0.0"
    assert site.patch(url, 0, b"x", Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize(
    ("length", "about", "status", "code"),
    [
        ("-1", metadata(filename="a.mp4"), 400, "BAD_REQUEST"),
        ("x", metadata(filename="a.mp4"), 400, "BAD_REQUEST"),
        (str(2**63), metadata(filename="a.mp4"), 400, "BAD_REQUEST"),
        ("0", metadata(filename="a.mp4"), 400, "SOURCE_EMPTY"),
        (str(50 * MB + 1), metadata(filename="a.mp4"), 413, "UPLOAD_TOO_LARGE"),
        ("9", "", 400, "BAD_REQUEST"),
        ("9", "filename !!", 400, "BAD_REQUEST"),
        ("9", "filename " + base64.b64encode(b"\xff").decode(), 400, "BAD_REQUEST"),
        ("9", metadata(filename="a.mp4", blake3="12"), 400, "BAD_REQUEST"),
        ("9", metadata(filename="a.mp4", priority="high"), 400, "BAD_REQUEST"),
        ("9", metadata(filename="a.mp4", metadata="{"), 400, "BAD_REQUEST"),
        pytest.param("9", metadata(filename="a.mp4", metadata="[" * 9000), 400, "BAD_REQUEST", id="deep"),
        ("9", metadata(filename="a.mp4", profile="none"), 400, "BAD_CONFIG"),
        pytest.param("9", metadata(filename="a" * 40_000), 400, "BAD_REQUEST", id="long"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_at_its_beginning(
    site: Site, length: str, about: str, status: int, code: str
) -> None:
    answered, _, body = site.tus("POST", "/v1/uploads", Upload_Length=length, Upload_Metadata=about)
    assert (answered, json.loads(body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize("role", ["view", "worker"])
def test_other_roles_are_refused(site: Site, role: str) -> None:
    url = site.begin(10)
    token = site.token(f"other-{role}", role)
    for method, path in (
        ("POST", "/v1/uploads"),
        ("HEAD", url),
        ("GET", url),
        ("PATCH", url),
        ("DELETE", url),
    ):
        assert site.tus(method, path, b"", **bearer(token), Upload_Length="9", Upload_Offset="0")[0] == 403
    assert site.offset(url) == 0


# Nothing wrong is kept.


def test_a_wrong_hash_of_a_part_keeps_nothing_of_it(site: Site) -> None:
    content = video()
    url = site.begin(len(content))
    assert site.patch(url, 0, content[:MB], digest=sha256(content[:MB]))[0] == 204
    status, headers, body = site.patch(url, MB, content[MB:], digest=sha256(b"other"))
    assert (status, json.loads(body)["error"]["code"]) == (460, "UPLOAD_DAMAGED")
    assert headers["tus-resumable"] == "1.0.0"
    assert site.offset(url) == MB
    assert site.parts()[0].stat().st_size == MB
    assert site.patch(url, MB, content[MB:], digest=sha256(content[MB:]))[0] == 204
    assert site.files() == {"film.mp4": content}


@pytest.mark.parametrize("header", ["md5 " + "A" * 22 + "==", "sha256 !", "sha256"])
def test_a_checksum_that_cannot_be_is_refused(site: Site, header: str) -> None:
    url = site.begin(10)
    assert site.patch(url, 0, b"12345", Upload_Checksum=header)[0] in (400, 460)
    assert site.offset(url) == 0


@pytest.mark.parametrize(("algorithm", "hasher"), [("sha1", hashlib.sha1), ("blake3", blake3)])
def test_other_checksums(site: Site, algorithm: str, hasher: Any) -> None:
    url = site.begin(10)
    right, wrong = (base64.b64encode(hasher(each).digest()).decode() for each in (b"12345", b"12346"))
    assert site.patch(url, 0, b"12345", Upload_Checksum=f"{algorithm} {wrong}")[0] == 460
    assert site.patch(url, 0, b"12345", Upload_Checksum=f"{algorithm} {right}")[0] == 204


def test_a_wrong_hash_of_the_whole_file_keeps_nothing(site: Site) -> None:
    content = video()
    url = site.begin(len(content), blake3=blake3(b"other").hexdigest())
    status, _, body = site.patch(url, 0, content)
    assert (status, json.loads(body)["error"]["code"]) == (460, "UPLOAD_DAMAGED")
    assert site.tus("HEAD", url)[0] == 404
    assert (site.files(), site.parts()) == ({}, [])


def test_bytes_are_taken_at_the_offset_alone(site: Site) -> None:
    content = video()
    url = site.begin(len(content))
    assert site.patch(url, 0, content[:MB])[0] == 204
    for offset in (0, MB - 1, MB + 1, len(content)):
        assert site.patch(url, offset, content[:10])[0] == 409, offset
    # A request that is repeated, as its answer was lost.
    assert site.patch(url, 0, content[:MB])[0] == 409
    assert site.patch(url, MB, content[MB:] + b"x")[0] == 400, "more than the whole file"
    assert site.offset(url) == MB
    assert site.patch(url, MB, content[MB:])[0] == 204
    assert site.files() == {"film.mp4": content}


def test_a_part_file_that_was_shortened_ends_its_upload(site: Site) -> None:
    url = site.begin(3 * MB)
    assert site.patch(url, 0, video(MB))[0] == 204
    os.truncate(site.parts()[0], 5)
    assert site.patch(url, MB, video(2 * MB))[0] == 404
    assert site.tus("HEAD", url)[0] == 404
    assert site.parts() == []


class Line:
    """A request whose bytes the test sends as it likes."""

    def __init__(self, site: Site, url: str, offset: int, body: bytes, *, checked: bool) -> None:
        head = [
            f"PATCH {url} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {site.secret}",
            "Tus-Resumable: 1.0.0",
            "Content-Type: application/offset+octet-stream",
            f"Upload-Offset: {offset}",
            f"Content-Length: {len(body)}",
        ]
        if checked:
            head.append(f"Upload-Checksum: sha256 {base64.b64encode(sha256(body)).decode()}")
        self.sent = "\r\n".join([*head, "", ""]).encode() + body
        self.head_bytes = len(self.sent) - len(body)
        raw = socket.create_connection(("127.0.0.1", site.port), 60)
        self._line = site.context.wrap_socket(raw, server_hostname="localhost")

    def send(self, count: int) -> Line:
        self._line.sendall(self.sent[:count])
        return self

    def cut(self) -> None:
        """Close without a farewell, as a line that breaks."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


def free_again(site: Site, url: str) -> bool:
    """Whether no request is in progress on an upload."""
    return site.patch(url, site.offset(url), b"")[0] == 204


@pytest.mark.more
@pytest.mark.parametrize("checked", [True, False])
def test_a_line_that_breaks_anywhere_loses_nothing_acknowledged(site: Site, checked: bool) -> None:
    """Without a checksum what arrived is kept; with one the part is sent again. Then the rest follows."""
    content = video(2_500_000, seed=5)
    url = site.begin(len(content), blake3=blake3(content).hexdigest())
    dice = random.Random(3)
    for _ in range(25):
        offset = site.offset(url)
        part = content[offset : offset + 300_000]
        line = Line(site, url, offset, part, checked=checked)
        count = dice.choice([0, 1, line.head_bytes - 1, line.head_bytes, dice.randrange(len(line.sent))])
        line.send(count).cut()
        until(lambda: free_again(site, url), "the broken request has ended")
        now = site.offset(url)
        assert offset <= now <= offset + max(0, count - line.head_bytes)
        if checked:
            assert now == offset
        if dice.random() < 0.2:
            part = content[now : now + 100_000]
            assert site.patch(url, now, part, digest=sha256(part))[0] == 204
    now = site.offset(url)
    assert site.patch(url, now, content[now:])[0] == 204
    assert site.files() == {"film.mp4": content}


def test_two_clients_on_one_upload(site: Site) -> None:
    content = video()
    url = site.begin(len(content), blake3=blake3(content).hexdigest())
    first = Line(site, url, 0, content, checked=True).send(1_500_000)
    until(lambda: site.patch(url, 0, content)[0] == 423, "the second is refused")
    assert site.tus("DELETE", url)[0] == 423
    first.cut()
    until(lambda: free_again(site, url), "the first has ended")
    answers: list[int] = []
    racing = [
        threading.Thread(target=lambda: answers.append(site.patch(url, 0, content)[0])) for _ in range(6)
    ]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    assert answers.count(204) == 1, answers
    assert set(answers) <= {204, 409, 423}
    assert site.files() == {"film.mp4": content}
    assert len(site.live.send(calls.jobs("state:pending"))["jobs"]) == 1


# Names.


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("/etc/cron.d/x.mp4", "x.mp4"),
        ("..\\..\\windows\\x.mp4", "x.mp4"),
        ("..", "upload"),
        ("/", "upload"),
        (".hidden.mp4", "hidden.mp4"),
        ("...mp4", "mp4"),
        (" . x.mp4 . ", "x.mp4"),
        ("a\x00b\n\x1b[31m\x7f.mp4", "ab[31m.mp4"),
        ("a\u202egpj.mp4", "agpj.mp4"),
        ("-rf.mp4", "-rf.mp4"),
        ("Fürélise 映画 🎬.mp4", "Fürélise 映画 🎬.mp4"),
        ("é" * 300 + ".mp4", "é" * 98 + ".mp4"),
        ("a." + "b" * 300, "a." + "b" * 19),
    ],
)
def test_names_from_the_network(given: str, name: str) -> None:
    assert safe_name(given) == name
    assert len(name.encode()) <= MAX_NAME_BYTES


def test_no_name_leads_out_of_the_folder_and_none_is_overwritten(site: Site) -> None:
    kept = site.live.home.root / "config.toml"
    for number, name in enumerate(["../config.toml", "/config.toml", "config.toml", ".config.toml"]):
        content = video(1000, seed=number)
        assert site.patch(site.begin(1000, name), 0, content)[0] == 204
    assert not kept.exists()
    assert set(site.files()) == {"config.toml", "config-2.toml", "config-3.toml", "config-4.toml"}
    assert [site.files()[f"config{each}.toml"] for each in ("", "-2", "-3", "-4")] == [
        video(1000, seed=number) for number in range(4)
    ]


def test_links_in_the_folder_are_not_followed(site: Site, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (site.incoming / "film.mp4").symlink_to(victim)
    (site.incoming / "film-2.mp4").symlink_to(tmp_path / "none")
    assert site.patch(site.begin(1000), 0, video(1000))[0] == 204
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "none").exists()
    assert (site.incoming / "film-3.mp4").read_bytes() == video(1000)


def test_the_same_file_again_is_the_same_video(site: Site) -> None:
    content = video(1000)
    first, again, other = site.begin(1000), site.begin(1000, hold="true"), site.begin(1000)
    assert site.patch(first, 0, content)[0] == 204
    assert site.patch(again, 0, content)[0] == 204
    assert site.patch(other, 0, video(1000, seed=1))[0] == 204
    assert site.result(again)["decision"] == "waiting"
    assert site.result(again)["applied"] == {"hold": True}
    assert site.result(again)["job"] == site.result(first)["job"] != site.result(other)["job"]
    assert set(site.files()) == {"film.mp4", "film-2.mp4"}
    assert site.parts() == []


# Trouble.


@pytest.mark.slow
@pytest.mark.fault(
    "kill -9 of the supervisor during an upload",
    "The upload continues at the offset that was acknowledged last",
    area="supervisor",
)
def test_a_killed_supervisor_keeps_what_it_acknowledged(open_site: Open) -> None:
    """No byte is sent twice but those of the request that was in progress."""
    site = open_site()
    content = video(12 * MB)
    url = site.begin(len(content), blake3=blake3(content).hexdigest())
    secret, acknowledged = site.secret, 0
    for _ in range(3):
        part = content[acknowledged : acknowledged + MB]
        assert site.patch(url, acknowledged, part, digest=sha256(part))[0] == 204
        acknowledged += MB
        line = Line(site, url, acknowledged, content[acknowledged:], checked=False).send(5_000_000)
        [file] = site.parts()
        until(lambda file=file, before=acknowledged: file.stat().st_size > before, "bytes arrive")
        site.live.process.send_signal(signal.SIGKILL)
        site.live.ended()
        line.cut()
        site.live.start()
        site = Site(site.live, site.cert, secret)
        assert site.offset(url) == acknowledged
    assert site.patch(url, acknowledged, content[acknowledged:])[0] == 204
    assert site.files() == {"film.mp4": content}
    assert site.result(url)["decision"] == "queued"


@pytest.mark.more
@pytest.mark.fault(
    "kill -9 of the supervisor between the last byte of an upload and its job",
    "The next supervisor finishes it: one file, one job",
    area="supervisor",
)
@pytest.mark.parametrize("point", ["received", "reserved", "placed", "settled", "added"])
def test_a_supervisor_that_dies_at_the_end_finishes_after_its_start(open_site: Open, point: str) -> None:
    """At each step from the last byte to the result; the client need not come back."""
    site = open_site(TQSTUDIO_FAIL_POINT=f"upload.{point}")
    content = video(MB)
    url = site.begin(len(content), blake3=blake3(content).hexdigest())
    with pytest.raises((ConnectionError, http.client.HTTPException, OSError)):
        site.patch(url, 0, content)
    site.live.ended()
    site.live.environment.pop("TQSTUDIO_FAIL_POINT")
    site.live.start()
    site = Site(site.live, site.cert, site.secret)
    assert site.offset(url) == len(content)
    until(lambda: site.result(url), "the upload is finished")
    assert site.files() == {"film.mp4": content}
    assert site.parts() == []
    [job] = site.live.send(calls.jobs())["jobs"]
    assert site.result(url)["job"] == job["id"]


def test_a_disk_without_links_gets_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(part_file.durable.NO_LINKS[0], "no links here")

    monkeypatch.setattr(os, "link", refuse)
    for number, name in (("one", "film.mp4"), ("two", "film-2.mp4")):
        part = part_file.PartFile(tmp_path, number, 0)
        part.write(0, number.encode())
        part.close()
        target = part_file.reserve(tmp_path, number, "film.mp4")
        assert target == tmp_path / name
        for _ in range(2):
            part_file.promote(tmp_path, number, target)
            assert target.read_bytes() == number.encode()
    assert list((tmp_path / part_file.PARTS).iterdir()) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={8 * MB},mode=755", "none", folder)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
@pytest.mark.fault(
    "The disk of the uploads fills up",
    "507; what was acknowledged is kept, and the upload continues once there is room",
    area="disks",
)
def test_a_full_disk_loses_nothing_acknowledged(open_site: Open, small: Path) -> None:
    site = open_site(TQSTUDIO_INCOMING=str(small), TQSTUDIO_DISK_RESERVE_BYTES=str(MB))
    site.incoming = small
    status, _, body = site.tus(
        "POST", "/v1/uploads", Upload_Length=str(9 * MB), Upload_Metadata=metadata(filename="large.mp4")
    )
    assert (status, json.loads(body)["error"]["code"]) == (507, "DISK_LOW")
    content = video(5 * MB)
    url = site.begin(len(content), blake3=blake3(content).hexdigest())
    second = site.tus(
        "POST", "/v1/uploads", Upload_Length=str(3 * MB), Upload_Metadata=metadata(filename="b.mp4")
    )
    assert second[0] == 507, "the room of the first one is taken"
    assert site.patch(url, 0, content[:MB])[0] == 204
    filler = fill(small)
    status, _, body = site.patch(url, MB, content[MB:], digest=sha256(content[MB:]))
    assert (status, json.loads(body)["error"]["code"]) == (507, "DISK_LOW")
    assert site.offset(url) == MB
    filler.unlink()
    assert site.patch(url, MB, content[MB:], digest=sha256(content[MB:]))[0] == 204
    assert (small / "film.mp4").read_bytes() == content


@pytest.mark.more
def test_an_abandoned_upload_expires(open_site: Open) -> None:
    site = open_site(TQSTUDIO_UPLOAD_EXPIRY_S="1")
    url = site.begin(3 * MB)
    assert site.patch(url, 0, video(MB))[0] == 204
    until(lambda: site.tus("HEAD", url)[0] == 404, "the upload has expired")
    assert site.parts() == []


@pytest.mark.more
def test_unfinished_uploads_are_bounded(open_site: Open) -> None:
    site = open_site()
    urls = [site.begin(1000) for _ in range(part.MAX_UNFINISHED)]
    about = metadata(filename="more.mp4")
    assert site.tus("POST", "/v1/uploads", Upload_Length="9", Upload_Metadata=about)[0] == 409
    assert site.patch(urls[0], 0, video(1000))[0] == 204
    site.begin(9)


@pytest.mark.more
def test_uploads_can_be_off(open_site: Open) -> None:
    site = open_site(TQSTUDIO_UPLOAD_MAX_BYTES="0")
    about = metadata(filename="a.mp4")
    assert site.tus("POST", "/v1/uploads", Upload_Length="9", Upload_Metadata=about)[0] == 413


# The client.


@dataclass
class Far:
    """A program of another machine, and files there."""

    program: Program
    folder: Path

    def file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path


@pytest.fixture
def far(site: Site, tmp_path: Path) -> Far:
    return _far(site, tmp_path)


def _far(site: Site, folder: Path) -> Far:
    home = folder / "laptop"
    home.mkdir(mode=0o700)
    secret = home / "token"
    secret.write_text(site.secret)
    secret.chmod(0o600)
    _connect(site, home)
    files = folder / "files"
    files.mkdir()
    return Far(Program(home, TQSTUDIO_CONNECT="nas"), files)


def _connect(site: Site, home: Path) -> None:
    (home / "connections.toml").write_text(
        f'[nas]\nurl = "{site.url.replace("127.0.0.1", "localhost")}"\n'
        f'token_file = "{home / "token"}"\nca = "{site.cert}"\n'
    )


def test_add_uploads_files_and_folders(site: Site, far: Far) -> None:
    far.file("a.mp4", video(5 * MB, seed=1))
    far.file("b.mkv", video(1000, seed=2))
    far.file("notes.txt", b"no video")
    said = far.program("add", far.folder, "--hold", "--priority", "3", "--meta", "client=acme", "--json")
    assert said.code == 0, said.err
    answer = said.json()
    assert [result["decision"] for result in answer["results"]] == ["queued", "queued"]
    assert site.files() == {"a.mp4": video(5 * MB, seed=1), "b.mkv": video(1000, seed=2)}
    for result in answer["results"]:
        job = site.live.send(calls.job(result["job"]))
        assert (job["status"], job["priority"], job["batch"]) == ("paused", 3, answer["batch"])
        assert job["metadata"] == {"client": "acme"}
    assert not list(far.program.home.unfinished_uploads.iterdir())
    again = far.program("add", far.folder / "b.mkv")
    assert (again.code, "is paused as job" in again.out) == (0, True), again


def test_add_refuses_what_only_the_studio_could_do(site: Site, far: Far) -> None:
    path = far.file("a.mp4", video(10))
    for option in (["-o", "/srv/out"], ["--verify-full"]):
        refused = far.program("add", path, *option)
        assert (refused.code, option[0] in refused.err or "--output" in refused.err) == (2, True)
    large = far.file("large.mp4", b"")
    with large.open("wb") as file:
        file.truncate(51 * MB)
    answered = far.program("add", large, path)
    assert (answered.code, "UPLOAD_TOO_LARGE" in answered.err) == (1, True)
    assert set(site.files()) == {"a.mp4"}


def test_an_interrupted_add_continues(site: Site, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after a part; the same command sends only the rest."""
    content = video(30 * MB)
    path = far.file("film.mp4", content)
    monkeypatch.setenv("TQSTUDIO_HOME", str(far.program.home.root))

    class Stop(BaseException):
        pass

    def stop(offset: int, _size: int) -> None:
        if offset >= 4 * MB:
            raise Stop

    with pytest.raises(Stop):
        Upload(site.remote, os.fsencode(path), {}, stop).run()
    [part] = site.parts()
    before = site.offset(f"/v1/uploads/{part.stem}")
    assert 0 < before < len(content)
    offsets: list[int] = []
    Upload(site.remote, os.fsencode(path), {}, lambda offset, _size: offsets.append(offset)).run()
    assert offsets[0] == before
    assert site.files() == {"film.mp4": content}


@pytest.mark.more
def test_add_continues_after_the_studio_was_killed(
    open_site: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = open_site()
    far = _far(site, tmp_path)
    monkeypatch.setenv("TQSTUDIO_HOME", str(far.program.home.root))
    content = video(30 * MB)
    path = far.file("film.mp4", content)
    offsets: list[int] = []
    killed: list[int] = []

    def kill_once(offset: int, _size: int) -> None:
        offsets.append(offset)
        if offset and not killed:
            killed.append(offset)
            site.live.environment["TQSTUDIO_LISTEN"] = f"127.0.0.1:{site.port}"
            site.live.process.send_signal(signal.SIGKILL)
            site.live.ended()

    def start_again(_seconds: float) -> None:
        if not site.live.started:
            site.live.start()

    view = Upload(site.remote, os.fsencode(path), {}, kill_once, start_again).run()
    assert view["result"] is not None
    assert view["result"]["decision"] == "queued"
    assert offsets.count(killed[0]) == 2, "it continued where it was acknowledged"
    assert offsets == sorted(offsets)
    assert (site.incoming / "film.mp4").read_bytes() == content


def test_a_file_that_changes_is_not_mixed(site: Site, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQSTUDIO_HOME", str(far.program.home.root))
    path = far.file("film.mp4", video(10 * MB))

    def change(offset: int, _size: int) -> None:
        if offset:
            with suppress(FileNotFoundError):
                path.write_bytes(video(10 * MB, seed=9))

    with pytest.raises(TqError) as changed:
        Upload(site.remote, os.fsencode(path), {}, change).run()
    assert changed.value.code is ErrorCode.SOURCE_CHANGED
    assert site.files() == {}


def test_a_file_that_arrives_damaged_is_not_sent_for_ever(
    site: Site, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQSTUDIO_HOME", str(far.program.home.root))
    path = far.file("film.mp4", video(5 * MB))
    with pytest.raises(TqError) as damaged:
        Upload(site.remote, os.fsencode(path), {"blake3": "0" * 64}, pause=lambda _seconds: None).run()
    assert damaged.value.code is ErrorCode.UPLOAD_DAMAGED
    assert (site.files(), site.parts()) == ({}, [])
    assert not list(far.program.home.unfinished_uploads.iterdir())


def test_a_studio_that_is_away_is_reported_at_once(
    far: Far, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQSTUDIO_HOME", str(far.program.home.root))
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        away = Remote("nas", "localhost", unused.getsockname()[1], "x", site.context)
        with pytest.raises(TqError) as refused:
            Upload(away, os.fsencode(far.file("a.mp4", b"x")), {}, pause=pytest.fail).run()
    assert refused.value.code is ErrorCode.NO_SUPERVISOR
