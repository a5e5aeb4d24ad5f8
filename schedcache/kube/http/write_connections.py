"""Small writes, and reads of one object, over persistent connections: HTTP/1.1, one request at a time on each.

Nearly all that a scheduler sends is a Binding and an Event for each pod, and aiohttp takes three times as long for such a
request as TLS and the socket (measured: 0.15 ms of 0.2 ms). This does only what these requests need: a body of known
length, an answer that is read to its end, no redirects, no proxy, no cookies, no compression. Everything else goes through
aiohttp, and so do these requests if there is a proxy.
"""

import asyncio
import socket
import ssl
from urllib.parse import urlsplit

from schedcache.kube.http.credentials import Access
from schedcache.kube.http.http_answer import Answer, AnswerReader, NoAnswerError
from schedcache.kube.http.tls import TLSProtocol
from schedcache.kube.sockets import deliver_within, withdraw_on_close
from schedcache.ports import Fence, FencedError


class NotSentError(Exception):
    """There was no connection, or it was gone before it was used: nothing was sent."""


_Origin = tuple[str, ssl.SSLContext | None, str | None]
"""What a connection depends on: server, TLS, and the name expected in the certificate."""


class _Connection(asyncio.Protocol):
    """One request at a time; `usable` for the next one once the answer is there."""

    def __init__(self, origin: _Origin) -> None:
        self.origin = origin
        self.usable = False
        self.idle_since = 0.0
        self._transport: asyncio.Transport | TLSProtocol | None = None
        self._socket: socket.socket | None = None
        self._reader = AnswerReader()
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport is an asyncio.Transport, or our TLS
        self._socket = transport.get_extra_info("socket")
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._transport = None
        answer = self._answer
        if answer is None or answer.done():
            return
        if exc is not None:
            answer.set_exception(NoAnswerError(f"the connection broke: {exc}"))
            return
        try:
            answer.set_result(self._reader.end())
        except NoAnswerError as error:
            answer.set_exception(error)

    def eof_received(self) -> None:
        """The server is done with the connection: what is written from now on would not be sent."""
        self.usable = False

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # nobody has asked for it
            return
        try:
            answer = self._reader.feed(data)
        except NoAnswerError as error:
            self._answer.set_exception(error)
            self.abort()
            return
        if answer is not None:
            self.usable = self._reader.reusable
            self._answer.set_result(answer)

    async def ask(self, request: bytes, seconds: float, fence: Fence | None) -> Answer:
        """Send a request, unless the fence forbids it, and wait for its answer.

        Raises NotSentError, NoAnswerError, FencedError, and TimeoutError after `seconds` or after what the fence gives.
        """
        if self._transport is None or not self.usable:
            raise NotSentError("the server closed the connection at once")
        if seconds <= 0:
            raise NotSentError("the time was up before there was a connection")
        transport = self._transport
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if fence is not None:
            # Once it is sealed, a request that must not be sent costs the connection.
            seconds = fence.allow(seconds)
        # Before the bytes as well: whoever is stopped behind them cannot tell the kernel any more.
        deliver_within(self._socket, seconds)
        if isinstance(transport, TLSProtocol):
            request = transport.seal(request)
        if fence is not None:
            # Nothing must come between this and the bytes: no lock, no wait, no work. Sealing has just given other threads their
            # turn, so they do not ask for it again before their switch interval is over.
            try:
                seconds = fence.allow(seconds)
            except FencedError:
                self.abort()
                raise
        transport.write(request)
        self.usable, self._answer = False, answer
        if fence is not None:
            deliver_within(self._socket, seconds)
        async with asyncio.timeout(seconds):
            return await answer

    def abort(self) -> None:
        """End it now. A request without an answer is withdrawn, as far as it has not arrived."""
        self.usable = False
        if self._transport is not None:
            answer = self._answer
            if answer is not None and (not answer.done() or answer.cancelled()):
                withdraw_on_close(self._socket)
            self._transport.abort()


class WriteConnections:
    """Connections to one API server, as many as there are concurrent requests; the caller limits those.

    Args:
        user_agent: sent with every request.
        connect_timeout: seconds for opening a connection.
        idle: seconds after which an unused connection is closed.
    """

    def __init__(self, user_agent: str, connect_timeout: float, idle: float) -> None:
        self._user_agent = user_agent
        self._connect_timeout = connect_timeout
        self._idle_limit = idle
        self._access: Access | None = None
        self._origin: _Origin = ("", None, None)
        self._prefix = self._head = ""
        # The most recently used one comes first, so that those opened for a burst time out.
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._closing: asyncio.TimerHandle | None = None

    async def send(
        self,
        access: Access,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        timeout: float,
        fence: Fence | None = None,
    ) -> Answer:
        """Send one request and read its answer.

        Args:
            access: the server, and our credentials.
            method: of HTTP.
            path: encoded, with its query.
            body: of the request.
            content_type: of the body.
            timeout: seconds for all of it.
            fence: asked when there is a connection and only the bytes are left to be sent; None lets everything through.

        Raises:
            FencedError: the fence did not let it through; nothing was sent.
            NotSentError: no connection, in time; nothing was sent.
            NoAnswerError: sent, and no complete answer came.
            TimeoutError: sent, and no complete answer came in time.
        """
        if access is not self._access:
            self._adopt(access)
        request = (
            f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode("latin-1") + body
        until = asyncio.get_running_loop().time() + timeout
        # What ends before there is a connection is not in doubt, so that time is limited apart.
        connection = self._take() or await self._connect(self._origin, min(self._connect_timeout, timeout))
        self._open.add(connection)
        try:
            return await connection.ask(request, until - asyncio.get_running_loop().time(), fence)
        finally:
            self._open.discard(connection)
            self._put_back(connection)

    def close(self) -> None:
        """End all connections."""
        for connection in (*self._idle, *self._open):
            connection.abort()
        self._idle.clear()
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _adopt(self, access: Access) -> None:
        """The access may differ only in its token, or in everything that connections depend on."""
        self._access = access
        self._origin = access.server, access.ssl_context, access.server_hostname
        url = urlsplit(access.server)
        self._prefix = url.path.rstrip("/")
        authorization = f"Authorization: {access.authorization}\r\n" if access.authorization else ""
        self._head = (
            f"Host: {url.netloc}\r\nUser-Agent: {self._user_agent}\r\nAccept: application/json\r\n"
            f"Accept-Encoding: identity\r\n{authorization}"
        )

    def _take(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            fresh = connection.usable and now - connection.idle_since < self._idle_limit
            if fresh and connection.origin == self._origin:
                return connection
            connection.abort()
        return None

    def _put_back(self, connection: _Connection) -> None:
        """An incomplete answer, such as one to an abandoned request, would be read as the next request's."""
        if connection.usable:
            loop = asyncio.get_running_loop()
            connection.idle_since = loop.time()
            self._idle.append(connection)
            if self._closing is None:
                self._closing = loop.call_later(self._idle_limit, self._close_old)
        else:
            connection.abort()

    def _close_old(self) -> None:
        """End those of a burst that nobody has needed since."""
        loop = asyncio.get_running_loop()
        old = loop.time() - self._idle_limit
        for connection in self._idle:
            if connection.idle_since <= old or not connection.usable:
                connection.abort()
        self._idle = [one for one in self._idle if one.usable]
        self._closing = None
        if self._idle:
            # The oldest comes first, and is looked at again no sooner than it can be old.
            self._closing = loop.call_at(self._idle[0].idle_since + self._idle_limit, self._close_old)

    async def _connect(self, origin: _Origin, timeout: float) -> _Connection:
        server, context, expected_name = origin
        url = urlsplit(server)
        host = url.hostname or ""
        loop, connection = asyncio.get_running_loop(), _Connection(origin)
        try:
            # Time-outs and errors of TLS are OSErrors.
            async with asyncio.timeout(timeout):
                if context is None:
                    await loop.create_connection(lambda: connection, host, url.port or 80)
                else:
                    await _connect_tls(connection, host, url.port or 443, context, expected_name or host)
        except OSError as error:
            raise NotSentError(f"cannot connect to {url.netloc}: {str(error) or type(error).__name__}") from error
        return connection


async def _connect_tls(
    connection: _Connection, host: str, port: int, context: ssl.SSLContext, expected_name: str
) -> None:
    tls = TLSProtocol(connection, context, expected_name)
    await asyncio.get_running_loop().create_connection(lambda: tls, host, port)
    try:
        await tls.shaken
    except BaseException:
        tls.abort()
        raise
