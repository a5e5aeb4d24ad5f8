"""Client connections that are all closed once their session is: no transport is left to the garbage collector."""

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import Iterable
from pathlib import Path

import aiohttp
from aiohttp.connector import AddrInfoType

CLOSE_SECONDS = 5.0


class Connector(aiohttp.TCPConnector):
    """As many connections as needed to servers of one certificate authority.

    aiohttp does not wait for TLS connections that were abandoned in the middle of a response, such as a watch: asyncio
    goes on closing them for up to 30 seconds, in a loop that may be closed by then.

    Args:
        ca_file: certificate authority in PEM form.
    """

    def __init__(self, ca_file: Path) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        context = ssl.create_default_context(cafile=str(ca_file))
        super().__init__(ssl=context, limit=0, socket_factory=self._make_socket)

    def _make_socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def close(self, *, abort_ssl: bool = True) -> None:
        """Close every connection and wait until it is closed.

        Raises:
            TimeoutError: one did not close within five seconds.
        """
        await super().close(abort_ssl=abort_ssl)
        still_open = [one for one in self._sockets if one.fileno() != -1]
        for one in still_open:
            # Its transport reads the end of the stream, and closes without waiting for the peer.
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        await closed(still_open)


async def abort_connections(transports: Iterable[asyncio.Transport]) -> None:
    """Abort a server's connections, and wait until they are closed; ``TimeoutError`` after 5 s."""
    transports = list(transports)
    sockets = [found for transport in transports if (found := _socket_of(transport)) is not None]
    for transport in transports:
        transport.abort()
    await closed(sockets)


def _socket_of(transport: asyncio.Transport) -> socket.socket | None:
    try:
        found: socket.socket | None = transport.get_extra_info("socket")
    except AttributeError:
        # asyncio of Python 3.11 asks nobody, once a TLS transport has been closed twice.
        return None
    return found


async def closed(sockets: Iterable[socket.socket]) -> None:
    """Wait until sockets are closed by their transports."""
    async with asyncio.timeout(CLOSE_SECONDS):
        while any(one.fileno() != -1 for one in sockets):  # noqa: ASYNC110 - transports tell nobody
            await asyncio.sleep(0.001)
