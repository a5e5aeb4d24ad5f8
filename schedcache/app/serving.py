"""HTTP servers for as long as a block lasts."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from schedcache.app.errors import UsageError
from schedcache.server.answers import add_headers, counting
from schedcache.server.connections import Connections
from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats
from schedcache.server.tls import TLSContexts

_SHUTDOWN_SECONDS = 2.0
_WAITING_CONNECTIONS = 128
"""How many may wait to be accepted."""
_PROBES = ("/livez", "/readyz", "/healthz")
_REQUEST_SECONDS = 0.0003
"""CPU that a request takes around its handler, measured with a client that asks without a pause."""


class _Site(web.BaseSite):
    """A listening socket, whose connections are bounded."""

    def __init__(self, runner: web.AppRunner, connections: Connections, listening: socket.socket) -> None:
        super().__init__(runner)
        self._connections = connections
        self._listening = listening

    @property
    def name(self) -> str:
        return "http"

    async def start(self) -> None:
        await super().start()
        # Connections inherit it.
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._connections.settings.send_buffer_bytes)
        # As often as the backlog says, asyncio accepts a connection before it looks at anything else. Where there are no descriptors
        # left it does not stop at the first error, and each of them makes it try as often again.
        loop, protocol = asyncio.get_running_loop(), self._connections.protocol
        self._server = await loop.create_server(protocol, sock=self._listening, backlog=1)
        self._listening.listen(_WAITING_CONNECTIONS)


@asynccontextmanager
async def serve(  # noqa: PLR0913  all that makes a port, most of it with a default
    routes: Iterable[web.RouteDef],
    address: str | None,
    port: int,
    flag: str,
    *,
    settings: ServingSettings = ServingSettings(),
    stats: ServingStats | None = None,
    name: str = "main",
    share: ProcessorShare | None = None,
    tls: TLSContexts | None = None,
    guards: Sequence[Middleware] = (),
) -> AsyncIterator[int]:
    """Serve the routes; yields the port.

    Args:
        routes: what is answered.
        address: to listen on; None: all.
        port: 0: any free one.
        flag: the one that gave the port, for the message.
        settings: what clients may take.
        stats: where what they do is counted.
        name: of the port, in `stats`.
        share: of the processor that requests may take; None for no limit.
        tls: what connections are opened with; None: they are not encrypted.
        guards: what requests have to pass before they are answered.

    Raises:
        UsageError: the port is taken, or the address is none of this machine's.
    """
    stats = stats or ServingStats()
    in_turn = [] if share is None else [_in_turn(share, settings)]
    application = web.Application(middlewares=[counting(stats, name), *in_turn, *guards])
    application.on_response_prepare.append(add_headers)
    application.add_routes(routes)
    # A client that has gone needs no answer.
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS, handler_cancellation=True)
    await runner.setup()
    assert runner.server is not None  # noqa: S101  it was set up
    connections = Connections(runner.server, settings, stats, name, tls, share)
    try:
        await _start(runner, connections, address, port, flag)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        connections.close()


def _in_turn(share: ProcessorShare, settings: ServingSettings) -> Middleware:
    """Keeps a client that asks without a pause from taking more than the share, and delays probes by a moment at most."""

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _PROBES:
            share.charge(_REQUEST_SECONDS)
            await share.rest(settings.probe_waiting_seconds)
        else:
            async with share:
                share.charge(_REQUEST_SECONDS)
        return await handler(request)

    return handle


async def _start(runner: web.AppRunner, connections: Connections, address: str | None, port: int, flag: str) -> None:
    try:
        if address is None:
            await _Site(runner, connections, _on_all_addresses(port)).start()
        else:
            for family, place in await _places(address, port):
                await _Site(runner, connections, socket.create_server(place, family=family)).start()
    except OSError as error:
        where = f"{address or 'all addresses'}, port {port}"
        raise UsageError(f"{flag}: cannot listen on {where}: {error.strerror or error}") from error


async def _places(address: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    """Where to listen: families and addresses that the name stands for."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, place) for family, _, _, _, place in found))


def _on_all_addresses(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6, so that any free port is the same one for both; IPv4 alone where there is no other."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # IPv6 may be built in and switched off; a port that is taken is taken for IPv4 as well.
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port))
