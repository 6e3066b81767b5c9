"""A real server of S3 for tests, and a proxy before it that records and disturbs requests."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote
from xml.etree import ElementTree

from moto.server import ThreadedMotoServer

from tqstudio.home import Home

BUCKET = "films"
_KEY = re.compile(rf"/{BUCKET}/(.+)")
_PUBLIC = b"""{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*",
    "Resource": "arn:aws:s3:::films/*"}]}"""
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(frozen=True)
class Asked:
    """A request that the proxy got."""

    method: str
    key: str
    """Of the object; empty for requests about several."""
    number: int
    """Of its method, from 0."""


def pass_on(asked: Asked) -> None:
    """Let a request pass."""
    del asked


@dataclass
class ObjectStorage:
    """A bucket, read directly, while the studio reaches it through the proxy."""

    server: str
    endpoint: str = ""
    asked: list[Asked] = field(default_factory=list)
    disturb: Callable[[Asked], str | None] = pass_on
    """What happens to a request: `refuse` answers 503, `tear` passes half of it on, `drop` loses the answer,
    None lets it pass."""
    watch: Callable[[Asked], None] = pass_on
    """Called before each request is passed on."""

    def names(self, prefix: str = "") -> list[str]:
        """The names of all objects."""
        url = f"{self.server}/{BUCKET}?list-type=2&max-keys=100000&prefix={quote(prefix)}"
        with urllib.request.urlopen(url) as answer:
            found = ElementTree.fromstring(answer.read()).findall(".//{*}Key")
        return [unquote(each.text or "") for each in found]

    def get(self, key: str) -> tuple[bytes, dict[str, str]]:
        """An object, and its headers."""
        with urllib.request.urlopen(f"{self.server}/{BUCKET}/{quote(key)}") as answer:
            return answer.read(), {name.lower(): value for name, value in answer.headers.items()}

    def configure(self, home: Home) -> None:
        """Write the `buckets.toml` of a home."""
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.bucket_settings.write_text(
            f'["s3://{BUCKET}"]\nendpoint = "{self.endpoint}"\nregion = "us-east-1"\n'
            'access_key_id = "key"\nsecret_access_key = "secret"\n'
        )
        home.bucket_settings.chmod(0o600)

    def named_files(self, master: str) -> set[str]:
        """The keys of all files that a master playlist and its playlists name."""
        found = {master}
        for name in self._uris(master):
            found |= {name}
            if name.endswith(".m3u8"):
                found |= self._uris(name)
        return found

    def _uris(self, key: str) -> set[str]:
        folder = key.rpartition("/")[0]
        text = self.get(key)[0].decode()
        lines = {line for line in text.splitlines() if line and not line.startswith("#")}
        return {f"{folder}/{uri}" for uri in lines | set(re.findall(r'URI="([^"]+)"', text))}


def _handler(storage: ObjectStorage) -> type[BaseHTTPRequestHandler]:
    host = storage.server.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = _KEY.match(unquote(self.path.partition("?")[0]))
            number = sum(each.method == self.command for each in storage.asked)
            asked = Asked(self.command, found[1] if found else "", number)
            storage.asked.append(asked)
            storage.watch(asked)
            how = storage.disturb(asked)
            if how == "refuse":
                self._answer(503, _SLOW_DOWN, {})
                return
            onward = http.client.HTTPConnection(host)
            try:
                if how == "tear":
                    # The server gets a request whose body ends early, as of a client that dies.
                    onward.putrequest(self.command, self.path, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        onward.putheader(name, value)
                    onward.endheaders(body[: len(body) // 2])
                    self.close_connection = True
                    return
                onward.request(self.command, self.path, body, dict(self.headers.items()))
                answer = onward.getresponse()
                content = answer.read()
            finally:
                onward.close()
            if how == "drop":
                self.close_connection = True
                return
            with contextlib.suppress(OSError):  # the client was killed
                self._answer(answer.status, content, dict(answer.getheaders()))

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            for name, value in headers.items():
                if name.lower() not in (
                    "content-length",
                    "connection",
                    "transfer-encoding",
                    "date",
                    "server",
                ):
                    self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextmanager
def object_storage() -> Iterator[ObjectStorage]:
    """Start a server with an empty bucket, and the proxy."""
    server = ThreadedMotoServer(port=0, ip_address="127.0.0.1", verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    storage = ObjectStorage(f"http://{host}:{port}")
    # All servers of a process have the same buckets.
    steps = (("POST", "moto-api/reset", b""), ("PUT", BUCKET, b""), ("PUT", f"{BUCKET}?policy", _PUBLIC))
    for method, path, content in steps:
        url, kind = f"{storage.server}/{path}", {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, content, kind, method=method)):
            pass
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(storage))
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    storage.endpoint = f"http://127.0.0.1:{proxy.server_port}"
    try:
        yield storage
    finally:
        proxy.shutdown()
        proxy.server_close()
        server.stop()


def below(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder, by relative name; without hidden ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
