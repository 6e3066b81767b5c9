"""Listens on TCP for callers from the network; off unless the setting `listen` names an address."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp

from tqstudio.config import Settings
from tqstudio.engine.http.server import LimitedProtocol, Server
from tqstudio.errors import ErrorCode, TqError

MAX_CONNECTIONS = 256
"""Further ones wait in the kernel's queue until one of these ends."""
MAX_OF_ADDRESS = 64
"""Further ones of the same address are closed at once."""
HANDSHAKE_S = 10.0
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_BACKLOG = 128
_RETRY_S = 1.0
"""Pause after the system refused to accept a connection, as without free file descriptors."""


def listen(settings: Settings) -> tuple[socket.socket, ssl.SSLContext | None] | None:
    """Open the listener that the settings ask for; None if they ask for none.

    Raises:
        TqError: BAD_CONFIG: the certificate cannot be used, or TLS is missing; REFUSED: nor the address, for
            now.
    """
    if not settings.listen:
        return None
    host, port = _address(settings.listen)
    context = _tls(settings)
    if context is None and not ipaddress.ip_address(host).is_loopback and not settings.insecure_listen:
        raise _unusable(
            f"listen = {settings.listen} would send tokens unencrypted over the network",
            "set tls_cert and tls_key, listen on 127.0.0.1, or set insecure_listen = true",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        # Not a wrong setting: at boot the address may not be there yet.
        raise TqError(
            ErrorCode.REFUSED,
            f"listen = {settings.listen}: {error.strerror}",
            "choose an address of this machine and a free port",
        ) from None
    listener.setblocking(False)
    return listener, context


def host_names(settings: Settings) -> list[str]:
    """The names by which clients may address the listener, besides IP addresses."""
    return [socket.gethostname(), socket.getfqdn(), *_given_hosts(settings)]


def _given_hosts(settings: Settings) -> list[str]:
    return list(filter(None, map(str.strip, settings.hosts.split(","))))


def announced(settings: Settings, url: str) -> tuple[str, str | None]:
    """Where other machines reach the listener, and the PEM of its certificate chain, if it has one.

    Of several hosts, which all supervisors may have in their settings, it is the one of this machine's name.

    Args:
        url: of the listener itself, whose address may be that of all interfaces.
    """
    parts, this = urlsplit(url), socket.gethostname()
    host, given = parts.hostname or "", _given_hosts(settings)
    if given:
        host = next((each for each in given if each.split(".")[0] == this.split(".")[0]), given[0])
    elif ipaddress.ip_address(host).is_unspecified:
        host = this
    certificate = None
    if settings.tls_cert:
        # The file may hold the key too.
        certificate = "\n".join(_CERTIFICATE.findall(Path(settings.tls_cert).expanduser().read_text()))
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port}", certificate


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
        if not 0 <= number < 65536:
            raise ValueError(port)
    except ValueError:
        raise _unusable(
            f"listen = {text} is no IP address and port", "write it as 127.0.0.1:8750 or [::1]:8750"
        ) from None
    return host, number


def _tls(settings: Settings) -> ssl.SSLContext | None:
    cert, key = settings.tls_cert, settings.tls_key
    if not cert and not key:
        return None
    if not (cert and key):
        raise _unusable("one of tls_cert and tls_key is missing", "set both, or neither")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(os.path.expanduser(cert), os.path.expanduser(key), password="")
    except (OSError, ssl.SSLError) as error:
        raise _unusable(
            f"the certificate {cert} with the key {key} cannot be used: {error.strerror or error}",
            "name a certificate and its unencrypted key, both in PEM",
        ) from None
    return context


def _unusable(message: str, hint: str) -> TqError:
    return TqError(ErrorCode.BAD_CONFIG, message, hint)


class TcpServer(Server):
    """Serves the API on a TCP listener.

    It accepts connections itself, so that those in a TLS handshake count too; uvicorn accepts any number.
    """

    protocol = LimitedProtocol

    def __init__(self, app: ASGIApp, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        super().__init__(app)
        self._listener, self._context = listener, context
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._of_address: Counter[str] = Counter()
        self._opening: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"http{'s' if self._context else ''}://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        self.servers = []
        self._accepting = asyncio.create_task(self._accept())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
        for task in self._opening:
            task.cancel()
        await super().shutdown([self._listener, *(sockets or [])])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                connection, peer = await loop.sock_accept(self._listener)
            except OSError as error:
                self._slots.release()
                structlog.get_logger().warning("no connection can be accepted", error=error.strerror)
                await asyncio.sleep(_RETRY_S)
                continue
            address = peer[0]
            if self._of_address[address] >= MAX_OF_ADDRESS:
                connection.close()
                self._slots.release()
                continue
            self._of_address[address] += 1
            task = asyncio.create_task(self._open(connection, address))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket, address: str) -> None:
        """Start to serve a connection, after its handshake."""

        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._slots.release()
                self._of_address[address] -= 1
                self._of_address += Counter()  # drops the zeros

        def protocol() -> _CountedProtocol:
            return _CountedProtocol(end, config=self.config, server_state=self.server_state, app_state={})

        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S if self._context else None,
            )
        except BaseException as error:
            connection.close()
            end()
            if not isinstance(error, OSError):
                raise


class _CountedProtocol(LimitedProtocol):
    """Frees its place when its connection ends."""

    def __init__(self, end: Callable[[], None], **given: Any) -> None:
        super().__init__(**given)
        self._end = end

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end()
