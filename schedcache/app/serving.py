"""HTTP servers for as long as a block lasts."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from schedcache.app.errors import UsageError

_SHUTDOWN_SECONDS = 2.0
_WAITING_CONNECTIONS = 128
"""How many may wait to be accepted."""


@asynccontextmanager
async def serve(routes: Iterable[web.RouteDef], address: str | None, port: int, flag: str) -> AsyncIterator[int]:
    """Serve the routes; yields the port.

    Args:
        routes: what is answered.
        address: to listen on; None: all.
        port: 0: any free one.
        flag: the one that gave the port, for the message.

    Raises:
        UsageError: the port is taken, or the address is none of this machine's.
    """
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await _start(runner, address, port, flag)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _start(runner: web.AppRunner, address: str | None, port: int, flag: str) -> None:
    try:
        if address is None:
            await _listen(runner, _on_all_addresses(port))
        else:
            for family, place in await _places(address, port):
                await _listen(runner, socket.create_server(place, family=family))
    except OSError as error:
        where = f"{address or 'all addresses'}, port {port}"
        raise UsageError(f"{flag}: cannot listen on {where}: {error.strerror or error}") from error


async def _listen(runner: web.AppRunner, listening: socket.socket) -> None:
    # As often as the backlog says, asyncio accepts a connection before it looks at anything else. Where there are no descriptors left it
    # does not stop at the first error, and each of them makes it try as often again.
    await web.SockSite(runner, listening, backlog=1).start()
    listening.listen(_WAITING_CONNECTIONS)


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
