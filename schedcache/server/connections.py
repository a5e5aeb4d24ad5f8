"""Connections to a port, within bounds: what one client does, or does not do, is never at the expense of the others."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from aiohttp import web

from schedcache.server.errors import error_response, refusal_bytes
from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats
from schedcache.server.tls import TLSContexts
from schedcache.server.tls_connection import TLSConnection

_LOOK_SECONDS = 0.5
_SETTLED_SECONDS = 1.0
_REFUSAL_SECONDS = 0.5
_MOST_REFUSALS = 32
_REFUSAL = refusal_bytes(503, "too many connections, try again")


class Connections:
    """All connections to one port.

    Args:
        server: what requests are handed to.
        settings: the bounds.
        stats: where what clients do is counted.
        port: what the port is for, as in `ServingStats`.
        tls: what connections are opened with; None: they are not encrypted.
        share: of the processor that handshakes may take; None for no limit.
    """

    def __init__(
        self,
        server: web.Server,
        settings: ServingSettings,
        stats: ServingStats,
        port: str,
        tls: TLSContexts | None = None,
        share: ProcessorShare | None = None,
    ) -> None:
        self.settings = settings
        self._tls = tls
        self._turn = share or nullcontext()
        self._server = server
        self._stats = stats
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Connection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._refusals: set[asyncio.Transport] = set()
        self._look: asyncio.TimerHandle | None = None

    def protocol(self) -> asyncio.Protocol:
        """For a new connection."""
        connection = _Connection(
            self._server,
            self,
            loop=self._loop,
            access_log=None,
            keepalive_timeout=self.settings.idle_seconds,
            lingering_time=self.settings.body_seconds,
            max_line_size=self.settings.head_line_bytes,
            max_field_size=self.settings.head_line_bytes,
            max_headers=self.settings.head_fields,
            # Nobody reads a body here: unpacking it would be work for the client, and an error of ours where it cannot be done.
            auto_decompress=False,
        )
        if self._tls is None:
            return connection
        return TLSConnection(connection, self._tls.current, self._turn, self._handshake_failed)

    def _handshake_failed(self) -> None:
        self._stats.handshakes_failed[self._port] += 1

    def admit(self, connection: "_Connection", transport: asyncio.Transport) -> bool:
        """Whether there is room for it; if not, it is refused."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        limits = self.settings
        if self._by_address[address] >= limits.connections_per_address:
            bound, where = "address", address
        elif len(self._open) >= limits.connections:
            bound, where = "connections", None
        else:
            bound, where = "", None
        if bound and not self._make_room(where):
            self._stats.refused[self._port, bound] += 1
            self._refuse(transport)
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        self._stats.connections[self._port] = len(self._open)
        if self._look is None:
            self._look = self._loop.call_later(_LOOK_SECONDS, self._look_around)
        return True

    def left(self, connection: "_Connection") -> None:
        """It is closed, or about to be; more than once does no harm."""
        address = self._open.pop(connection, None)
        if address is None:
            return
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._stats.connections[self._port] = len(self._open)

    def cut(self, connection: "_Connection", reason: str) -> None:
        """End a connection at once, whatever it is doing."""
        self._stats.cut[self._port, reason] += 1
        self.left(connection)
        connection.abort()

    def bad_request(self) -> None:
        """Something came that is not HTTP."""
        self._stats.bad_requests[self._port] += 1

    def close(self) -> None:
        """Nothing is looked after any more."""
        if self._look is not None:
            self._look.cancel()
        for transport in list(self._refusals):
            transport.abort()

    def _make_room(self, address: str | None) -> bool:
        """End the connection that is missed least, of that address if one is given; False if all are at work."""
        here = [c for c, of in self._open.items() if address is None or of == address]
        idle = min((c for c in here if c.idle()), key=lambda c: c.active_at, default=None)
        if idle is not None:
            self.cut(idle, "room")
            return True
        long_ago = self._loop.time() - _SETTLED_SECONDS
        stalled = min((c for c in here if c.stalled_at < long_ago), key=lambda c: c.stalled_at, default=None)
        if stalled is not None:
            self.cut(stalled, "stalled")
        return stalled is not None

    def _refuse(self, transport: asyncio.Transport) -> None:
        """Answer before anything was asked, and leave the client a moment to read it."""
        # A handshake would cost more than the answer is worth.
        if self._tls is not None or len(self._refusals) >= _MOST_REFUSALS:
            transport.abort()
            return
        self._refusals.add(transport)
        transport.write(_REFUSAL)

        def end() -> None:
            self._refusals.discard(transport)
            transport.abort()

        self._loop.call_later(_REFUSAL_SECONDS, end)

    def _look_around(self) -> None:
        now, limits = self._loop.time(), self.settings
        for connection in list(self._open):
            if now - connection.head_at > limits.head_seconds:
                self.cut(connection, "head")
            elif now - min(connection.stalled_at, connection.closing_at(now)) > limits.stalled_seconds:
                self.cut(connection, "stalled")
        self._look = self._loop.call_later(_LOOK_SECONDS, self._look_around) if self._open else None


_NEVER = float("inf")


class _Connection(web.RequestHandler):
    """aiohttp's connection, with an eye on what its client does.

    Attributes:
        active_at: when something came or went last.
        head_at: since when the head of a request is incomplete; inf while none is.
        stalled_at: since when the client takes nothing of its answer, likewise.
    """

    def __init__(self, server: web.Server, connections: Connections, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._connections = connections
        self._admitted = False
        self._link: asyncio.Transport | None = None
        self._now: Callable[[], float] = settings["loop"].time
        self.active_at = self._now()
        self.head_at = self.active_at
        self.stalled_at = _NEVER
        self._closing_at = _NEVER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  of a TCP server
        self._link = transport
        self._admitted = self._connections.admit(self, transport)
        if self._admitted:
            super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.left(self)
        self._link = None
        if self._admitted:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._admitted:
            return
        self.active_at = self._now()
        super().data_received(data)
        if self._messages or self._request_in_progress:
            self.head_at = _NEVER
        elif self.head_at == _NEVER and data:
            self.head_at = self.active_at

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled_at = self._now()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stalled_at = _NEVER
        self.active_at = self._now()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is not HTTP is counted and answered, and nobody is told of it: it says nothing about this program."""
        if status >= 500:
            super().handle_error(request, status, exc, message)
            message = "a fault in the program; the log has it"
        else:
            self._connections.bad_request()
            # What is wrong, without what was sent: that may be a token.
            message = (message or "").partition("\n")[0].partition(" when reading")[0].rstrip(":")
        response = error_response(status, message or "")
        response.force_close()
        return response

    def idle(self) -> bool:
        """Whether it waits for a request."""
        link = self._link
        waits = not self._messages and not self._request_in_progress
        return waits and (link is None or not link.get_write_buffer_size())

    def closing_at(self, now: float) -> float:
        """Since when it has been closing and something is still to be sent, as far as is known; inf if it is not."""
        if self._closing_at == _NEVER and self._link is not None and self._link.is_closing():
            self._closing_at = now
        return self._closing_at

    def abort(self) -> None:
        if self._link is not None:
            self._link.abort()
