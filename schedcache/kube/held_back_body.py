"""The body of a request of aiohttp's, which goes out only if a fence lets it.

aiohttp connects, and writes the headers, in its own time. A server acts on no request whose body is not complete, so the body is
where such a request can be held back to the last.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

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

    def __len__(self) -> int:
        return len(self._body)

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Around the request and its answer. Raises TimeoutError when the time is up that the fence has given, and FencedError."""
        try:
            async with self._limit:
                yield
        except aiohttp.ClientError as error:
            # That is what becomes of an exception that ends the body.
            if self._refusal is not None:
                raise self._refusal from error
            raise

    async def _checked(self, fence: Fence) -> AsyncIterator[bytes]:
        try:
            seconds = fence.allow(self._seconds)
        except FencedError as error:
            self._refusal = error
            raise
        self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        yield self._body

    def sent(self) -> bytes | AsyncIterator[bytes]:
        """What to give to aiohttp, for each attempt anew."""
        return self._body if self._fence is None else self._checked(self._fence)
