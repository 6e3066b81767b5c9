"""Finds the studio of another machine that a command shall use: its URL, token and certificate.

`--connect` names a URL, or an entry of `connections.toml` in the home:

    [nas]
    url = "https://nas.example:8750"
    token_file = "~/.config/nas.token"
    ca = "~/.config/nas.pem"        # for a certificate of one's own

While the supervisor of the home stands by, its commands use the studio of the one that leads.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, current_home

CONNECT, TOKEN_FILE = "TQSTUDIO_CONNECT", "TQSTUDIO_TOKEN_FILE"
"""Environment variables that the options `--connect` and `--token-file` set."""
LEADER = "@leader"
"""The studio of the supervisor that leads, as `--connect` names it for workers."""
_KEYS = {"url", "token_file", "ca", "insecure"}


@dataclass(frozen=True, slots=True)
class Remote:
    """A studio that is reached over TCP."""

    name: str
    """As the user named it: the entry or the URL."""
    host: str
    port: int
    token: str
    context: ssl.SSLContext | None
    """None without TLS."""
    follows: bool = False
    """Whether it is the leader of the home's standby; each new connection looks it up again."""

    @property
    def url(self) -> str:
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def connection(self) -> HTTPConnection:
        at = self
        if self.follows:
            # While it is not known which one leads, the last one is asked.
            with suppress(TqError):
                at = chosen() or self
        if at.context is None:
            return HTTPConnection(at.host, at.port)
        return HTTPSConnection(at.host, at.port, context=at.context)

    def unreachable(self, why: str) -> TqError:
        hint = "check the address, and that its supervisor runs there with the setting listen"
        if "WRONG_VERSION_NUMBER" in why:
            hint = "it speaks no TLS: write http:// instead of https://"
        elif "CERTIFICATE_VERIFY_FAILED" in why:
            hint = "name its certificate, or that of its authority, as ca in connections.toml"
        text = f"no studio answers at {self.url}: {why}"
        return TqError(ErrorCode.NO_SUPERVISOR, text, hint)


class Exchange:
    """Sends raw requests over one connection, which is opened again when it broke."""

    def __init__(self, at: Remote) -> None:
        self._at = at
        self._connection: HTTPConnection | None = None

    def ask(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, str, bytes, HTTPMessage]:
        """Send a request with the token and return status, reason, body and headers of the answer.

        Raises:
            TqError: NO_SUPERVISOR.
        """
        connection = self._connection = self._connection or self._at.connection()
        connection.timeout = timeout_s
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request(method, url, body, {"Authorization": f"Bearer {self._at.token}", **headers})
            answer = connection.getresponse()
            content = answer.read()
        except (HTTPException, OSError) as error:
            self.close()
            raise self._at.unreachable(getattr(error, "strerror", None) or str(error)) from None
        if answer.will_close:
            self.close()
        return answer.status, answer.reason, content, answer.headers

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def named() -> str:
    """What `--connect` or TQSTUDIO_CONNECT names; empty for the studio of the home."""
    return os.environ.get(CONNECT, "")


def is_chosen() -> bool:
    """Whether this command shall use the studio of another machine."""
    return bool(named()) or _stands_by(current_home())


def chosen() -> Remote | None:
    """The studio named by `--connect`, else the one for which the home's supervisor stands by; else None.

    Raises:
        TqError: BAD_CONFIG or PERMISSION: the entry, the URL or the token file cannot be used.
    """
    name = named() or (LEADER if _stands_by(current_home()) else "")
    if not name:
        return None
    entry = {"url": name} if "://" in name else _entry(name)
    token_file = os.environ.get(TOKEN_FILE) or entry.get("token_file", "")
    url = urlsplit(str(entry.get("url", "")))
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if url.scheme not in ("http", "https") or not host or url.path.strip("/") or url.query or url.username:
        raise _unusable(f"{name} has no URL such as https://nas.example:8750")
    if url.scheme == "http" and not _is_loopback(host) and not entry.get("insecure"):
        raise _unusable(
            f"{url.geturl()} would send the token unencrypted",
            "use https://, or set insecure = true for it in connections.toml",
        )
    return Remote(
        name=str(entry.get("name", name)),
        host=host,
        port=port or (443 if url.scheme == "https" else 80),
        token=_token(token_file),
        context=_context(str(entry.get("ca", ""))) if url.scheme == "https" else None,
        follows=name == LEADER,
    )


def follow(home: Home, name: str, url: str, token: str, certificate: str | None) -> None:
    """Have the commands of a home use the studio of the one that leads, until `home.leader` is removed.

    Args:
        certificate: PEM of its listener's certificate, or of its issuer; None without TLS.
    """
    token_file, ca = home.root / "leader.token", home.root / "leader.pem"
    write_private(token_file, f"{token}\n")
    # By name: the path of a home need not be text that TOML can hold.
    entry = {"url": url, "name": name, "token_file": token_file.name}
    lines = [f"[{json.dumps(LEADER)}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    if certificate is None:
        lines.append("insecure = true")
    else:
        write_private(ca, certificate)
        lines.append(f"ca = {json.dumps(ca.name)}")
    write_private(home.leader, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, in one step."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text)
    new.rename(path)


def _stands_by(home: Home) -> bool:
    """Whether the home's supervisor runs, stands by, and knows how the one that leads is reached."""
    try:
        owner = home.leader.stat().st_uid
    except OSError:
        return False
    if os.geteuid() not in (0, owner) and owner != 0:
        return False  # another user would choose where our files go
    from tqstudio.protocol import launch

    return launch.holder(home) is not None


def _entry(name: str) -> dict[str, object]:
    # Imported only when needed, as each command loads this module.
    from tqstudio import toml_files

    home = current_home()
    path = home.leader if name == LEADER else home.root / "connections.toml"
    try:
        entries = toml_files.read(path)
    except FileNotFoundError:
        entries = {}
    except (OSError, toml_files.Unusable) as error:
        raise _unusable(f"{path} cannot be read: {error}") from None
    entry = entries.get(name)
    if name == LEADER and entry is None:
        raise TqError(
            ErrorCode.NO_SUPERVISOR, "no supervisor is known to lead the queue now", "try again in a moment"
        )
    if not isinstance(entry, dict):
        known = ", ".join(sorted(entries)) or "none"
        raise _unusable(
            f"{path} has no connection {name} (it has: {known})", f"add [{name}] with url and token_file"
        )
    if unknown := sorted(set(entry) - (_KEYS | {"name"} if name == LEADER else _KEYS)):
        raise _unusable(f"the connection {name} in {path} has the unknown key {unknown[0]}")
    if name == LEADER:
        entry |= {key: str(home.root / entry[key]) for key in ("token_file", "ca") if key in entry}
    return entry


def _token(given: object) -> str:
    if not given:
        raise _unusable(
            "no token for this studio is given",
            "give --token-file FILE, or set token_file in connections.toml",
        )
    path = Path(os.path.expanduser(str(given)))
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise TqError(
                    ErrorCode.PERMISSION,
                    f"other users may read the token in {path}",
                    f"run: chmod 600 {path}",
                )
            return file.read(1000).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds no token"
        raise _unusable(f"the token file {path} cannot be read: {why}") from None


def _context(ca: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=os.path.expanduser(ca) if ca else None)
        if ca:
            # A certificate that is trusted itself need not have signed itself.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    except OSError as error:
        raise _unusable(f"the certificate {ca} cannot be used: {error.strerror or error}") from None


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unusable(message: str, hint: str = "correct it") -> TqError:
    return TqError(ErrorCode.BAD_CONFIG, message, hint)
