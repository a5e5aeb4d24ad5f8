"""`GET /dump` for many readers: those that wait for a dump share one, and none of them slows scheduling down."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

import structlog
from aiohttp import web
from aiohttp.http import StreamWriter

from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats

_SENT_AT_ONCE = 131_072
_TOO_MANY = "too many readers of dumps, try again\n"
_TOO_LATE = "other readers keep their dumps for too long, try again\n"
log = structlog.get_logger(__name__)

Take = Callable[[str | None], Iterator[bytes]]
"""Takes a dump in one step, with the stories that are wanted (None: without), and returns its JSON, still to be written, in pieces."""


class _Body:
    """One dump, on its way from the scheduler to its readers.

    Attributes:
        wanted: the stories in it.
        text: the JSON, once it is `written`, or `failed`.
        begun_at: when it was taken; since then, no more readers may join.
    """

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.text = b""
        self.written = asyncio.Event()
        self.failed = False
        self.begun_at: float | None = None
        self.readers: dict[int, web.Request] = {}


class DumpReaders:
    """All readers of `/dump`.

    A dump shows nothing older than the request: it is taken after all of its readers have asked. While one is being written,
    further readers wait for the next one, and share that. So there is one at a time, and `dump_bodies` in memory at most.

    Args:
        take: makes a dump.
        share: of the processor that writing and sending may take.
        settings: the bounds.
        stats: where refusals are counted.
    """

    def __init__(self, take: Take, share: ProcessorShare, settings: ServingSettings, stats: ServingStats) -> None:
        self._take = take
        self._share = share
        self._settings = settings
        self._stats = stats
        self._waiting: dict[str | None, _Body] = {}
        self._held: deque[_Body] = deque()
        self._freed = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def answer(self, request: web.Request, wanted: str | None) -> web.StreamResponse:
        """The response, sent in full.

        Raises HTTPServiceUnavailable beyond a bound, and HTTPInternalServerError if the dump could not be taken.
        """
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-store"})
        if request.method == "HEAD":
            await response.prepare(request)
            return response
        body = self._join(request, wanted)
        try:
            await self._written(body)
            await self._send(request, response, body)
        except ConnectionError:
            # The client has gone, or was cut off: that is nobody's fault here.
            return response
        finally:
            self._leave(request, body)
        return response

    def _join(self, request: web.Request, wanted: str | None) -> _Body:
        readers = sum(len(body.readers) for body in (*self._waiting.values(), *self._held))
        if readers >= self._settings.dump_readers:
            raise self._refusal("readers", _TOO_MANY)
        body = self._waiting.get(wanted)
        if body is None:
            body = self._waiting[wanted] = _Body(wanted)
        body.readers[id(request)] = request
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="dumps")
        return body

    def _leave(self, request: web.Request, body: _Body) -> None:
        """Nobody writes, or keeps, a dump that nobody reads."""
        body.readers.pop(id(request), None)
        if body.readers:
            return
        if self._waiting.get(body.wanted) is body:
            del self._waiting[body.wanted]
        if body in self._held:
            self._held.remove(body)
        self._freed.set()

    async def _written(self, body: _Body) -> None:
        limit = self._settings.dump_waiting_seconds
        try:
            async with asyncio.timeout(limit):
                await body.written.wait()
        except TimeoutError:
            raise self._refusal("waiting", _TOO_LATE) from None
        if body.failed:
            raise web.HTTPInternalServerError(text="the dump could not be taken; the log says why\n")

    def _refusal(self, reason: str, text: str) -> web.HTTPServiceUnavailable:
        self._stats.refused["main", reason] += 1
        return web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "1"})

    async def _send(self, request: web.Request, response: web.StreamResponse, body: _Body) -> None:
        """Raises ConnectionError if the client has gone."""
        response.content_length = len(body.text)
        writer, text = cast("StreamWriter", await response.prepare(request)), memoryview(body.text)
        for start in range(0, len(text), _SENT_AT_ONCE):
            # Not within the turn: this waits for the client.
            await writer.drain()
            async with self._share:
                await writer.write(text[start : start + _SENT_AT_ONCE], drain=False)
        await writer.drain()

    async def _write_all(self) -> None:
        """One dump after the other, for as long as somebody waits for one."""
        try:
            while self._waiting:
                await self._make_room()
                if self._waiting:
                    await self._write(next(iter(self._waiting.values())))
        finally:
            self._writing = None

    async def _make_room(self) -> None:
        loop, limits = asyncio.get_running_loop(), self._settings
        while self._waiting and len(self._held) >= limits.dump_bodies:
            self._freed.clear()
            oldest = self._held[0]
            left = (oldest.begun_at or 0.0) + limits.dump_reading_seconds - loop.time()
            if left <= 0:
                for request in list(oldest.readers.values()):
                    self._stats.cut["main", "reading"] += 1
                    _abort(request)
                    self._leave(request, oldest)
                continue
            try:
                async with asyncio.timeout(left):
                    await self._freed.wait()
            except TimeoutError:
                continue

    async def _write(self, body: _Body) -> None:
        try:
            async with self._share:
                if not body.readers:
                    return
                # From here on, who asks wants to see what happens from here on.
                del self._waiting[body.wanted]
                self._held.append(body)
                body.begun_at = asyncio.get_running_loop().time()
                pieces = self._take(body.wanted)
            written: list[bytes] = []
            while body.readers:
                async with self._share:
                    piece = next(pieces, None)
                    if piece is None:
                        body.text = b"".join(written)
                        break
                    written.append(piece)
        except Exception:
            log.exception("a dump failed")
            body.failed = True
        body.written.set()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
