"""What the page answers, and to whom: by requests that no browser would send, to a real supervisor."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import time
from pathlib import Path

import pytest

from e2e.conftest import MakeClip, MakeStudio
from engine.hung import HungMount
from tqstudio.protocol import calls
from tqstudio.protocol.roles import ROLE_OF
from tqstudio.wings.page import process
from tqstudio.wings.page.server import PLAYERS
from waiting import until

from .conftest import Browser, Film, Serve, port_of, printed_address

SEGMENT = "v1/180p/seg_00000.m4s"


def test_a_code_leads_to_the_page_once(film: Film) -> None:
    address = printed_address(film.studio)
    browser = Browser(port_of(address)).open(address)
    path = address.partition(f":{browser.port}")[2]
    status, body, _ = browser.get(path)
    assert (status, b"works once" in body) == (404, True)
    status, body, headers = browser.inside("")
    assert (status, b"<title>tqstudio</title>" in body) == (200, True)
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


def test_looking_at_the_headers_of_a_code_does_not_use_it_up(film: Film) -> None:
    address = printed_address(film.studio, str(film.job))
    browser = Browser(port_of(address))
    path = address.partition(f":{browser.port}")[2]
    assert browser.get(path, method="HEAD")[0] == 404
    status, body, _ = browser.get(path)
    assert (status, f"#/video/{film.video}" in body.decode()) == (200, True)


def test_a_code_is_valid_for_a_while(film: Film, browser: Browser) -> None:
    home = film.studio.home
    earlier = {*process.folder_of(home).iterdir()}
    code = process.new_code(home, ".html")
    (issued,) = {*process.folder_of(home).iterdir()} - earlier
    assert stat.S_IMODE(issued.stat().st_mode) == 0o600
    assert stat.S_IMODE(issued.parent.stat().st_mode) == 0o700
    assert code not in issued.name
    os.utime(issued, (time.time() - 61,) * 2)
    assert browser.get(f"/open/{code}")[0] == 404
    assert not issued.exists()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "rebound.example:{port}"},
        {"Host": "127.0.0.1.:{port}"},
        {"Host": "127.0.0.1:{port}@evil.example"},
        {"Host": "[::1]:{port}"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://localhost:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_requests_for_other_sites_are_refused(browser: Browser, headers: dict[str, str]) -> None:
    given = {name: value.replace("{port}", str(browser.port)) for name, value in headers.items()}
    status, body, _ = browser.inside("api/videos", **given)
    assert status == 403
    assert b"videos" not in body


def test_a_tunnel_may_call_it_localhost(browser: Browser) -> None:
    host = f"localhost:{browser.port}"
    headers = {"Host": host, "Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
    assert browser.status("api/videos", **headers) == 200


def test_a_file_leads_the_browser_to_a_code(film: Film, browser: Browser) -> None:
    page = process.find(film.studio.home)
    assert page is not None
    file = process.leading_page(film.studio.home, page, film.video)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = re.search(rf"url=http://127\.0\.0\.1:{browser.port}(/open/[^\"]+)\"", file.read_text())
    assert found is not None
    # A page that was opened from a file is another site.
    headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert browser.get(found[1], Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert browser.get(found[1], **headers)[0] == 200
    assert browser.get(found[1], **headers)[0] == 404
    assert not file.exists()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_a_page_only_reads(browser: Browser, method: str) -> None:
    assert browser.status("api/jobs", method=method) == 405


@pytest.mark.parametrize(
    "path", ["settings", "tokens", "shutdown", "queue/pause", "jobs/1/log", "..", "videos/x"]
)
def test_other_calls_of_the_api_are_not_there(browser: Browser, path: str) -> None:
    assert browser.status(f"api/{path}") == 404


def test_every_call_needs_the_role_view_alone() -> None:
    for path in ("jobs", "videos", "videos/{video}", "events/stream"):
        assert ROLE_OF[f"GET /v1/{path}"] == "view"


def test_a_wrong_prefix_and_an_earlier_one_lead_nowhere(film: Film, browser: Browser) -> None:
    earlier = browser.prefix
    wrong = earlier[:-2] + ("A" if earlier[-2] != "A" else "B") + "/"
    for path in ("/", "/index.html", wrong, earlier[:-1], earlier.upper(), "//" + earlier[1:]):
        assert browser.get(path)[0] == 404, path
    process.close(film.studio.home)
    address = printed_address(film.studio)
    after = Browser(port_of(address)).open(address)
    assert after.prefix != earlier
    assert after.get(earlier)[0] == 404


def test_the_library_names_no_source(film: Film, browser: Browser) -> None:
    page = browser.api("videos")
    (view,) = (each for each in page["videos"] if each["id"] == film.video)
    assert view == browser.api(f"video/{film.video}")
    assert [each["name"] for each in view["ladder"]["renditions"]][:1] == ["360p"]
    assert str(film.source) not in str(page)
    assert view["ladder"]["folder"] == str(film.folder)
    assert browser.api("jobs") == []
    assert browser.inside("api/video/999999")[0] == 404


def test_the_reason_of_a_failed_video_names_no_folder(film: Film, browser: Browser) -> None:
    source = film.source.with_name("notes.mp4")
    source.write_text("no film")
    job = film.studio.wait(film.studio.add(source), "failed")
    view = browser.api(f"video/{job['video_view']['id']}")
    assert (view["status"], view["ladder"]) == ("failed", None)
    assert view["error"].startswith("notes.mp4 is neither video nor sound")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("master.m3u8", "application/vnd.apple.mpegurl"),
        ("v1/180p/index.m3u8", "application/vnd.apple.mpegurl"),
        ("v1/180p/init.mp4", "video/mp4"),
        (SEGMENT, "video/iso.segment"),
        ("v1/storyboard.vtt", "text/vtt; charset=utf-8"),
        ("v1/chapters.json", "application/json"),
        ("v1/poster.jpg", "image/jpeg"),
    ],
)
def test_files_of_a_ladder_have_their_types(film: Film, browser: Browser, name: str, kind: str) -> None:
    status, body, headers = browser.inside(f"ladder/{film.video}/a/{name}")
    assert (status, headers["content-type"]) == (200, kind)
    assert body == (film.folder / name).read_bytes()
    status, body, head = browser.inside(f"ladder/{film.video}/a/{name}", method="HEAD")
    assert (status, body, head["content-length"]) == (200, b"", headers["content-length"])


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "v1", "v1/", "v1/180p", ".owner", "v1/.owner", "v1/BLAKE3SUMS", "../film/master.m3u8"),
        *("v1/../master.m3u8", "v1/%2e%2e/master.m3u8", "%2e%2e/%2e%2e/master.m3u8", "v1%2f180p%2finit.mp4"),
        *(
            "master.m3u8%00.jpg",
            "v1\\180p\\init.mp4",
            "..\\master.m3u8",
            "./master.m3u8",
            "v1//180p/init.mp4",
        ),
        *("/etc/passwd", "v1/180p/nothing.m4s", "master.m3u8/", "master.m3u8/x.jpg", "a" * 300 + ".jpg"),
        *("../.tqstudio/x.jpg", "v1/./poster.jpg", "v1/poster.jpg\x01", "v1/\xe4.jpg"),
    ],
)
def test_what_is_no_file_of_a_ladder_is_not_there(film: Film, browser: Browser, name: str) -> None:
    request = (
        f"GET {browser.prefix}ladder/{film.video}/a/{name} HTTP/1.1\r\nHost: 127.0.0.1:{browser.port}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", browser.port)) as raw:
        raw.sendall(request.encode("latin-1"))
        answer = raw.recv(4096)
    assert re.match(rb"HTTP/1.1 (404|400) ", answer), answer
    assert b"EXTM3U" not in answer


def test_links_within_a_ladder_are_not_followed(
    film: Film, browser: Browser, planted: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.jpg").write_text("secret")
    (planted / "v1/link.jpg").symlink_to("/etc/passwd")
    (planted / "v1/own.jpg").symlink_to("poster.jpg")
    (planted / "v1/folder").symlink_to(tmp_path)
    os.mkfifo(planted / "v1/pipe.jpg")
    (planted / "v1/folder.jpg").mkdir()
    for name in ("link.jpg", "own.jpg", "folder/secret.jpg", "pipe.jpg", "folder.jpg"):
        assert browser.status(f"ladder/{film.video}/a/v1/{name}") == 404, name
    assert browser.status(f"ladder/{film.video}/a/v1/poster.jpg") == 200
    shutil.rmtree(planted / "v1/180p")
    (planted / "v1/180p").symlink_to(planted / "v1/360p")
    assert browser.status(f"ladder/{film.video}/a/v1/180p/init.mp4") == 404


@pytest.mark.parametrize("owner", [None, "", "x", "9e107d9d-372b-4826-bd81-3542a419d6e0 {other}", "link"])
def test_a_ladder_of_others_is_not_served(
    film: Film, browser: Browser, planted: Path, owner: str | None
) -> None:
    file = planted / ".owner"
    kept = file.read_bytes()
    file.unlink()
    if owner == "link":
        (planted / "kept").write_bytes(kept)
        file.symlink_to("kept")
    elif owner is not None:
        file.write_text(owner.replace("{other}", str(film.video + 1)))
    assert browser.status(f"ladder/{film.video}/a/master.m3u8") == 404
    assert browser.status(f"ladder/{film.video + 7}/a/master.m3u8") == 404


@pytest.mark.parametrize(
    ("asked", "status", "served"),
    [
        ("bytes=0-99", 206, slice(0, 100)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-10", 206, slice(-10, None)),
        ("bytes=0-99999999", 206, slice(0, None)),
        ("bytes=99999999-", 416, None),
    ],
)
def test_ranges(film: Film, browser: Browser, asked: str, status: int, served: slice | None) -> None:
    found, body, headers = browser.inside(f"ladder/{film.video}/a/{SEGMENT}", Range=asked)
    content = (film.folder / SEGMENT).read_bytes()
    assert found == status
    if served is None:
        assert headers["content-range"] == f"bytes */{len(content)}"
    else:
        assert body == content[served]
        assert headers["content-range"].endswith(f"/{len(content)}")


def test_a_file_that_the_browser_has_is_not_sent_again(film: Film, browser: Browser) -> None:
    path = f"ladder/{film.video}/a/{SEGMENT}"
    _, _, headers = browser.inside(path)
    assert headers["last-modified"]
    status, body, _ = browser.inside(path, If_None_Match=headers["etag"])
    assert (status, body) == (304, b"")


def test_ten_players_play_and_the_next_one_is_asked_to_wait(film: Film, serve: Serve) -> None:
    browser, _ = serve(film.studio)
    for player in range(PLAYERS):
        assert browser.status(f"ladder/{film.video}/p{player}/{SEGMENT}") == 200
    status, _, headers = browser.inside(f"ladder/{film.video}/one-more/{SEGMENT}")
    assert (status, headers["retry-after"]) == (503, "20")
    assert browser.status(f"ladder/{film.video}/one-more/v1/poster.jpg") == 200, "a picture is no player"
    assert browser.status(f"ladder/{film.video}/p3/{SEGMENT}") == 200


def test_a_deleted_ladder_ends(film: Film, browser: Browser) -> None:
    path = f"ladder/{film.video}/a/{SEGMENT}"
    assert browser.status(path) == 200
    film.studio.client.send(calls.delete_video(film.video))
    assert browser.status(path) == 404
    assert browser.api(f"video/{film.video}")["ladder"] is None
    assert film.video not in [each["id"] for each in browser.api("videos")["videos"]]
    film.studio.client.send(calls.undelete_video(film.video))
    until(lambda: browser.status(path) == 200, "the ladder is back")


def test_a_disk_that_hangs_holds_up_nothing_else(film: Film, browser: Browser, planted: Path) -> None:
    hung = HungMount(planted / "v1" / "180p")
    try:
        with browser.asking(f"{browser.prefix}ladder/{film.video}/a/{SEGMENT}") as answer:
            assert answer.status == 503
        assert browser.api("videos")["videos"]
        assert browser.status("page.js") == 200
    finally:
        hung.end()


def test_what_happens_reaches_the_browser(film: Film, browser: Browser, clip: MakeClip) -> None:
    with browser.asking(f"{browser.prefix}api/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.readline() == b"retry: 2000\n"
        job = film.studio.add(clip(seconds=4))
        seen = b""
        while b"event: changed" not in seen or b"event: progress" not in seen:
            seen += stream.readline()
    film.studio.done(job)
    assert b"path" not in seen


@pytest.mark.slow
def test_it_ends_when_no_one_looks(film: Film, serve: Serve) -> None:
    browser, served = serve(film.studio, idle_s=2.0)
    with browser.asking(f"{browser.prefix}api/events") as stream:
        assert stream.readline() == b"retry: 2000\n"
        with pytest.raises(AssertionError):
            until(lambda: served.poll() is not None, "it ends", timeout_s=4)
    until(lambda: served.poll() is not None, "it ends without a browser")
    assert served.returncode == 0


@pytest.mark.slow
def test_it_ends_some_time_after_the_supervisor(make_studio: MakeStudio, serve: Serve) -> None:
    studio = make_studio().up()
    browser, served = serve(studio, gone_s=15.0)
    assert browser.api("videos") == {"videos": [], "before": None}
    studio.kill()
    status, body, _ = browser.inside("api/videos")
    assert (status, b"no supervisor answers" in body) == (503, True)
    studio.start()
    assert browser.api("videos") == {"videos": [], "before": None}
    studio.kill()
    until(lambda: served.poll() is not None, "it ends without a supervisor")
    assert served.returncode == 0
