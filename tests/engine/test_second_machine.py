"""The way from another machine to a studio: certificates, names and several places."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from certificates import certificate
from harness import MakeSupervisor, Program
from tqstudio.errors import TqError
from tqstudio.protocol import calls, remote
from tqstudio.protocol.client import AsyncClient, Client

called: list[str] = []
"""The names by which the studios were called."""


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        called.append(self.headers["Host"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust it ends the handshake."""


Listen = Callable[[Path | None], int]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Has a studio listen, with TLS where a folder with its certificate is given; returns its port."""
    with contextlib.ExitStack() as opened:

        def begin(folder: Path | None) -> int:
            server = opened.enter_context(_Quiet(("127.0.0.1", 0), _Answers))
            if folder is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
                server.socket = context.wrap_socket(server.socket, server_side=True)
            opened.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            return int(server.server_address[1])

        called.clear()
        yield begin


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., remote.Remote]:
    """What the options `--connect` and `--ca` lead to."""
    secret = tmp_path / "token"
    secret.touch(mode=0o600)
    secret.write_text("tq_1_2")

    def choose(url: str, ca: Path | str = "") -> remote.Remote:
        monkeypatch.setenv("TQSTUDIO_HOME", str(tmp_path / "home"))
        monkeypatch.setenv(remote.CONNECT, url)
        monkeypatch.setenv(remote.TOKEN_FILE, str(secret))
        monkeypatch.setenv(remote.CA, str(ca))
        found = remote.chosen()
        assert found is not None
        return found

    return choose


def _refusal(at: remote.Remote) -> TqError:
    with pytest.raises(TqError) as caught:
        Client(at).send(calls.health())
    return caught.value


def _made(folder: Path, name: str = "localhost", address: str = "127.0.0.1") -> Path:
    folder.mkdir()
    certificate(folder, name, address)
    return folder


@pytest.fixture
def unused() -> Iterator[int]:
    """A port at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


# Certificates


def test_the_option_names_the_certificate(
    listen: Listen, chosen: Callable[..., remote.Remote], tmp_path: Path
) -> None:
    studio = _made(tmp_path / "nas")
    url = f"https://localhost:{listen(studio)}"
    refused = _refusal(chosen(url))
    assert refused.message == f"{url} is not trusted: self-signed certificate"
    assert "--ca FILE" in refused.hint
    assert Client(chosen(url, studio / "cert.pem")).send(calls.health()) == {}
    other = _made(tmp_path / "other")
    assert "--ca FILE" in _refusal(chosen(url, other / "cert.pem")).hint


@pytest.mark.parametrize(("host", "san"), [("localhost", "DNS:localhost"), ("127.0.0.1", "IP:127.0.0.1")])
def test_of_a_name_that_is_not_in_the_certificate_the_way_to_add_it_is_said(
    host: str, san: str, listen: Listen, chosen: Callable[..., remote.Remote], tmp_path: Path
) -> None:
    studio = _made(tmp_path / "nas", "nas.example", "192.0.2.1")
    refused = _refusal(chosen(f"https://{host}:{listen(studio)}", studio / "cert.pem"))
    assert f"not valid for '{host}'" in refused.message
    assert f"subjectAltName={san}" in refused.hint


def test_of_a_studio_without_tls(listen: Listen, chosen: Callable[..., remote.Remote]) -> None:
    assert "http:// instead" in _refusal(chosen(f"https://localhost:{listen(None)}")).hint


def test_of_a_certificate_that_has_expired(chosen: Callable[..., remote.Remote]) -> None:
    why = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"
    refused = chosen("https://nas.example:8750").unreachable(why)
    assert refused.message == "https://nas.example:8750 is not trusted: certificate has expired"
    assert "clock" in refused.hint


def test_a_worker_ends_over_a_certificate(listen: Listen, tmp_path: Path) -> None:
    """It would wait for ever, as nothing changes by itself."""
    secret = tmp_path / "token"
    secret.touch(mode=0o600)
    url = f"https://localhost:{listen(_made(tmp_path / 'nas'))}"
    ended = Program(tmp_path / "home")(
        "--connect", url, "--token-file", secret, "worker", "run", timeout_s=60
    )
    assert ended.code == 3
    assert ended.err.splitlines()[-2] == (
        f"error: NO_SUPERVISOR: {url} is not trusted: self-signed certificate"
    )
    assert "--ca FILE" in ended.err.splitlines()[-1]


@pytest.mark.slow
def test_a_worker_that_calls_the_studio_by_the_wrong_name_is_told_the_setting(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor(TQSTUDIO_LISTEN="127.0.0.1:0").start()
    far = Program(tmp_path / "far")
    far.home.root.mkdir(mode=0o700)
    secret = far.home.root / "token"
    secret.touch(mode=0o600)
    secret.write_text(live.send(calls.create_token("fleet", "join"))["token"])
    url = str(live.send(calls.status())["supervisor"]["listen"]).replace("127.0.0.1", "127.1")
    (far.home.root / "connections.toml").write_text(
        f'[nas]\nurl = "{url}"\ninsecure = true\ntoken_file = "{secret}"\n'
    )
    ended = far("--connect", "nas", "worker", "run")
    assert ended.code == 2
    error, hint = ended.err.splitlines()[-2:]
    assert error == "error: BAD_REQUEST: this studio does not know the name 127.1, by which it is called"
    assert "setting hosts" in hint


# Several places


def test_the_first_that_answers_is_used_and_remembered(
    listen: Listen, chosen: Callable[..., remote.Remote], unused: int, tmp_path: Path
) -> None:
    studio = _made(tmp_path / "nas")
    port = listen(studio)
    at = chosen(f"https://localhost:{unused}, https://127.0.0.1:{port}", studio / "cert.pem")
    assert at.urls[0] == f"https://localhost:{unused}"
    for _ in range(2):
        assert Client(at).send(calls.health()) == {}
    assert called == [f"127.0.0.1:{port}"] * 2, "each is called by its own name"
    assert at.urls == [f"https://127.0.0.1:{port}", f"https://localhost:{unused}"]


def test_one_that_leads_no_more_is_left(
    listen: Listen, chosen: Callable[..., remote.Remote], unused: int
) -> None:
    at = chosen(f"http://localhost:{listen(None)},http://127.0.0.1:{unused}")
    at.places.reverse()
    exchange = remote.Exchange(at)
    assert exchange.ask("GET", "/health", None, {}, 10)[0] == 200
    exchange.close()
    assert at.urls[1] == f"http://127.0.0.1:{unused}"


def test_if_none_answers_all_are_named(chosen: Callable[..., remote.Remote], unused: int) -> None:
    refused = _refusal(chosen(f"http://127.0.0.1:{unused},http://localhost:{unused}"))
    assert f"no studio answers at http://127.0.0.1:{unused} or http://localhost:{unused}: " in refused.message
    assert not isinstance(refused, remote.Untrusted)


def test_a_certificate_is_reported_before_a_place_where_nothing_listens(
    listen: Listen, chosen: Callable[..., remote.Remote], unused: int, tmp_path: Path
) -> None:
    port = listen(_made(tmp_path / "nas"))
    refused = _refusal(chosen(f"https://localhost:{port},https://localhost:{unused}"))
    assert isinstance(refused, remote.Untrusted)


def test_the_screen_asks_the_next_one_each_time(
    listen: Listen, chosen: Callable[..., remote.Remote], unused: int
) -> None:
    at = chosen(f"http://127.0.0.1:{unused},http://localhost:{listen(None)}")

    async def ask() -> None:
        client = AsyncClient(at)
        with pytest.raises(TqError):
            await client.send(calls.health())
        assert await client.send(calls.health()) == {}
        await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://a.example:1,http://127.0.0.1:1", "mixes"),
        ("https://a.example:1,", "no URL"),
        ("https://a.example:1,http://b.example:1", "unencrypted"),
    ],
)
def test_urls_that_cannot_be(url: str, says: str, chosen: Callable[..., remote.Remote]) -> None:
    with pytest.raises(TqError, match=says):
        chosen(url)


def test_an_option_is_stronger_than_the_file(tmp_path: Path, chosen: Callable[..., remote.Remote]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "connections.toml").write_text('[nas]\nurl = "https://nas.example:1"\nca = "/none"\n')
    with pytest.raises(TqError, match="/none"):
        chosen("nas")
    studio = _made(tmp_path / "nas")
    assert chosen("nas", studio / "cert.pem").urls == ["https://nas.example:1"]
