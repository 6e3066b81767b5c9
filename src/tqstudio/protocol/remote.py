"""Finds the studio of another machine that a command shall use: its URL, token and certificate.

`--connect` names URLs, of which one answers at a time, or an entry of `connections.toml` in the home:

    [nas]
    url = "https://nas.example:8750"
    token_file = "~/.config/nas.token"
    ca = "~/.config/nas.pem"        # for a certificate of one's own

While the supervisor of the home stands by, its commands use the studio of the one that leads.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, current_home
from tqstudio.protocol import running

CONNECT, TOKEN_FILE, CA = "TQSTUDIO_CONNECT", "TQSTUDIO_TOKEN_FILE", "TQSTUDIO_CA"
"""Environment variables that the options `--connect`, `--token-file` and `--ca` set."""
LEADER = "@leader"
"""The studio of the supervisor that leads, as `--connect` names it for workers."""
_KEYS = {"url", "token_file", "ca", "insecure"}
_NEXT_PLACE_S = 5.0
"""How long a connection to one of several places may take."""

Place = tuple[str, int]
"""Host and port."""


class Untrusted(TqError):
    """The certificate of a studio is refused, or it has none: no later try can succeed by itself."""


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
    places: list[Place] = field(default_factory=list)
    """Where the one that leads may be, if there are several: first where it has answered last."""

    @property
    def urls(self) -> list[str]:
        scheme = "http" if self.context is None else "https"
        places = self.places or [(self.host, self.port)]
        return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for host, port in places]

    def connection(self) -> HTTPConnection:
        at = self
        if self.follows:
            # While it is not known which one leads, the last one is asked.
            with suppress(TqError):
                at = chosen() or self
        if at.context is None:
            return _HTTP(at.places, at.host, at.port)
        return _HTTPS(at.places, at.host, at.port, context=at.context)

    def unreachable(self, why: str) -> TqError:
        where = " or ".join(self.urls)
        for text, hint in _UNTRUSTED.items():
            if text in why:
                of_name = re.search(r"not valid for '(.*)'", why)
                name = of_name[1] if of_name else self.host
                kind = "IP" if _is_address(name) else "DNS"
                # OpenSSL's words, without the name of the error and the line of its source.
                why = re.sub(r"^\[.*?\] (certificate verify failed: )?| \(_ssl\.c:\d+\)$", "", why)
                message = f"{where} is not trusted: {why.rstrip('.')}"
                return Untrusted(ErrorCode.NO_SUPERVISOR, message, hint.format(san=f"{kind}:{name}"))
        hint = "check the address, and that its supervisor runs there with the setting listen"
        return TqError(ErrorCode.NO_SUPERVISOR, f"no studio answers at {where}: {why}", hint)


_UNTRUSTED = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS: write http:// instead of https://",
    "not valid for": "use a name that its certificate has, or make one at the studio that has"
    " subjectAltName={san} (docs/fleet.md)",
    "has expired": "make a new certificate at the studio (docs/fleet.md), or set the clock of this machine",
    "not yet valid": "set the clock of this machine, or that of the studio",
    "CERTIFICATE_VERIFY_FAILED": "copy the certificate of the studio (its setting tls_cert), or of its"
    " authority, to this machine, and name it with --ca FILE",
}
"""What to do, by a part of OpenSSL's message; the first one that occurs counts."""


class _Anywhere(HTTPConnection):
    """A connection to the first of several places that answers."""

    def __init__(self, places: list[Place], *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._places = places

    def putrequest(self, *arguments: Any, **more: Any) -> None:
        # The request names the host.
        if self.sock is None:
            self.connect()
        super().putrequest(*arguments, **more)

    def connect(self) -> None:
        wanted, failed = self.timeout, list[OSError]()
        for place in list(self._places):
            self.host, self.port = place
            self.timeout = min(wanted, _NEXT_PLACE_S) if isinstance(wanted, int | float) else _NEXT_PLACE_S
            try:
                super().connect()
            except OSError as error:
                failed.append(error)
                continue
            finally:
                self.timeout = wanted
            self.sock.settimeout(wanted if isinstance(wanted, int | float) else None)
            self._places.sort(key=lambda each: each != place)
            return
        if not failed:
            super().connect()
            return
        # What a person has to correct, rather than a place where nothing listens.
        raise next((error for error in failed if isinstance(error, ssl.SSLError)), failed[-1])


class _HTTP(_Anywhere):
    pass


class _HTTPS(_Anywhere, HTTPSConnection):
    pass


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
    # Not for a standby, whose leader announces its certificate.
    ca = (os.environ.get(CA, "") if name != LEADER else "") or str(entry.get("ca", ""))
    urls = [url.strip() for url in str(entry.get("url", "")).split(",")]
    found = [_place(name, url, is_insecure=bool(entry.get("insecure"))) for url in urls]
    if len(schemes := {scheme for scheme, _ in found}) > 1:
        raise _unusable(f"{name} mixes http:// and https://", "use one of them for all")
    places = [place for _, place in found]
    return Remote(
        name=str(entry.get("name", name)),
        host=places[0][0],
        port=places[0][1],
        token=_token(token_file),
        context=_context(ca) if schemes == {"https"} else None,
        follows=name == LEADER,
        places=places if len(places) > 1 else [],
    )


def _place(name: str, given: str, *, is_insecure: bool) -> tuple[str, Place]:
    """The scheme and place of a URL of the connection `name`."""
    url = urlsplit(given)
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if url.scheme not in ("http", "https") or not host or url.path.strip("/") or url.query or url.username:
        raise _unusable(f"{name} has no URL such as https://nas.example:8750")
    if url.scheme == "http" and not _is_loopback(host) and not is_insecure:
        raise _unusable(
            f"{url.geturl()} would send the token unencrypted",
            "use https://, or set insecure = true for it in connections.toml",
        )
    return url.scheme, (host, port or (443 if url.scheme == "https" else 80))


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
    return running.holder(home) is not None


def _entry(name: str) -> dict[str, object]:
    # Imported only when needed, as each command loads this module.
    from tqstudio import toml_files

    home = current_home()
    path = home.leader if name == LEADER else home.root / "connections.toml"
    try:
        entries = toml_files.read(path)
    except FileNotFoundError:
        entries = {}
    except (OSError, toml_files.UnusableToml) as error:
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

    return ipaddress.ip_address(host).is_loopback if _is_address(host) else host == "localhost"


def _is_address(host: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _unusable(message: str, hint: str = "correct it") -> TqError:
    return TqError(ErrorCode.BAD_CONFIG, message, hint)
