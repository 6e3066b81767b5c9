"""Serves the API of a supervisor on the socket of its home, and on TCP if the settings say so."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence

from fastapi import APIRouter

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.home_guard import HomeGuard
from tqstudio.engine.http import tcp
from tqstudio.engine.http.app import make_app
from tqstudio.engine.http.callers import SocketCallers, TcpCallers
from tqstudio.engine.http.server import Server, SocketServer
from tqstudio.engine.http.tcp import TcpServer
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.machine import supervisors


class Doors(Part):
    """Accepts requests from start to stop.

    Args:
        routers: the endpoints of the wings.
        network: the TCP listener and its TLS; None without one.
    """

    def __init__(
        self,
        services: Services,
        routers: Sequence[APIRouter],
        home_guard: HomeGuard,
        network: tuple[socket.socket, ssl.SSLContext | None] | None,
    ) -> None:
        self._services, self._home_guard, self._network = services, home_guard, network
        self._routers = routers
        self._servers: list[Server] = []
        self._serving: list[asyncio.Task[None]] = []
        self._is_broken = asyncio.Event()

    async def start(self) -> None:
        """Open them, and store where other machines reach this supervisor, for those that stand by."""
        services = self._services
        listener = self._home_guard.open_socket()
        app = make_app(services, self._routers)
        self.local = SocketServer(SocketCallers(app, services.tokens))
        self._serve(self.local, listener)
        if self._network is not None:
            callers = TcpCallers(app, services.tokens, tcp.host_names(services.settings))
            server = TcpServer(callers, *self._network)
            services.listen = server.url
            address, certificate = tcp.announced(services.settings, server.url)
            row = services.running_jobs.leases.supervisor
            await services.db.write(supervisors.announce, row, url=address, certificate=certificate)
            self._serve(server)

    async def stop(self) -> None:
        """Answer the requests that are under way, and close them."""
        for server in self._servers:
            server.end()
        await asyncio.gather(*self._serving)
        if self._servers:
            self._home_guard.close_socket()

    async def until_broken(self) -> None:
        """Return when a server ends by itself, because its socket failed."""
        await self._is_broken.wait()

    def _serve(self, server: Server, *sockets: socket.socket) -> None:
        serving = asyncio.create_task(server.serve(sockets=list(sockets)) if sockets else server.serve())
        serving.add_done_callback(lambda _: self._is_broken.set())
        self._servers.append(server)
        self._serving.append(serving)
