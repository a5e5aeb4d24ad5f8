"""The body of a request of aiohttp's, which goes out only if a fence lets it.

aiohttp connects, and writes the headers, in its own time. A server acts on no request whose body is not complete, so the body is
where such a request can be held back to the last.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from schedcache.kube.sockets import deliver_within, withdraw_on_close
from schedcache.ports import Fence, FencedError


class HeldBackBody:
    """A body with its fence. The request needs a Content-Length, or the end of the connection could be taken for that of the body.

    Args:
        body: not empty.
        fence: None lets everything through.
        seconds: how long the request may take at most.
    """

    def __init__(self, body: bytes, fence: Fence | None, seconds: float) -> None:
        self._body = body
        self._fence = fence
        self._seconds = seconds
        self._limit = asyncio.Timeout(None)
        self._refusal: FencedError | None = None
        self._socket: socket.socket | None = None
        """That the body went over, and whose answer is awaited."""

    def __len__(self) -> int:
        return len(self._body)

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Around the request and its answer. Raises TimeoutError when the time is up that the fence has given, and FencedError."""
        try:
            async with self._limit:
                yield
            self._answered()
        except aiohttp.ClientError as error:
            # That is what becomes of an exception that ends the body.
            if self._refusal is not None:
                raise self._refusal from error
            raise

    def _answered(self) -> None:
        """Whatever is sent over the connection from now on is not ours to withdraw."""
        if self._socket is not None:
            with suppress(OSError):  # the server may have closed it with its answer
                withdraw_on_close(self._socket, wanted=False)

    async def write_checked(self, writer: AbstractStreamWriter, fence: Fence) -> None:
        """Send it. Raises FencedError."""
        transport = writer.transport if isinstance(writer, StreamWriter) else None
        self._socket = None if transport is None else transport.get_extra_info("socket")
        try:
            seconds = fence.allow(self._seconds)
            # As for connections of our own: given up by the kernel in time, and dropped where it is closed without an answer.
            deliver_within(self._socket, seconds)
            withdraw_on_close(self._socket)
            # Nothing must come between this and the bytes.
            seconds = fence.allow(seconds)
        except FencedError as error:
            self._refusal = error
            raise
        self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        await writer.write(self._body)

    def sent(self) -> "bytes | _Payload":
        """What to give to aiohttp, for each attempt anew."""
        return self._body if self._fence is None else _Payload(self, self._fence)


class _Payload(Payload):
    """What aiohttp asks to write itself."""

    def __init__(self, body: HeldBackBody, fence: Fence) -> None:
        super().__init__(body)
        self._held_back, self._fence = body, fence

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self._held_back.write_checked(writer, self._fence)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise TypeError("it is sent, and never read")
