"""`GET /dump` for many readers: those that wait for a dump share one, and none of them slows scheduling down."""

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar, cast

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

Q = TypeVar("Q", bound=Hashable)
_GZIP = 16 + zlib.MAX_WBITS
_FAST = 1
"""At level 1 a dump becomes a tenth of its size; higher ones take several times as long for a little less."""


class Taken(NamedTuple):
    """A dump: its ETag, and its JSON, still to be written, in pieces."""

    etag: str
    pieces: Iterator[bytes]


class _Wanted(NamedTuple, Generic[Q]):
    """What is one answer for all who want it."""

    query: Q
    gzip: bool


class _Body(Generic[Q]):
    """One dump, on its way from the scheduler to its readers.

    Attributes:
        wanted: what is in it.
        etag: once it is taken.
        text: the JSON, once it is `written`, or `failed`.
        begun_at: when it was taken; since then, no more readers may join.
    """

    def __init__(self, wanted: _Wanted[Q]) -> None:
        self.wanted = wanted
        self.etag = ""
        self.text = b""
        self.taken = asyncio.Event()
        self.written = asyncio.Event()
        self.failed = False
        self.begun_at: float | None = None
        self.readers: dict[int, web.Request] = {}


class DumpReaders(Generic[Q]):
    """All readers of `/dump`.

    A dump shows nothing older than the request: it is taken after all of its readers have asked. While one is being written,
    further readers wait for the next one, and share that. So there is one at a time, and `dump_bodies` in memory at most.

    Args:
        take: makes a dump in one step, of what a query wants.
        share: of the processor that writing and sending may take.
        settings: the bounds.
        stats: where refusals are counted.
    """

    def __init__(
        self, take: Callable[[Q], Taken], share: ProcessorShare, settings: ServingSettings, stats: ServingStats
    ) -> None:
        self._take = take
        self._share = share
        self._settings = settings
        self._stats = stats
        self._waiting: dict[_Wanted[Q], _Body[Q]] = {}
        self._held: deque[_Body[Q]] = deque()
        self._freed = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def answer(self, request: web.Request, query: Q) -> web.StreamResponse:
        """The response, sent in full: a dump, or 304 if it would be the one that the reader has already, but for the time.

        Raises HTTPServiceUnavailable beyond a bound, and HTTPInternalServerError if the dump could not be taken.
        """
        wanted = _Wanted(query, _takes_gzip(request))
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Vary": "Accept-Encoding"})
        if request.method == "HEAD":
            await response.prepare(request)
            return response
        body = self._join(request, wanted)
        late = asyncio.get_running_loop().time() + self._settings.dump_waiting_seconds
        try:
            await self._until(late, body, body.taken)
            response.headers["ETag"] = body.etag
            if _has(request, body.etag):
                response.set_status(304)
                await response.prepare(request)
                return response
            await self._until(late, body, body.written)
            if wanted.gzip:
                response.headers["Content-Encoding"] = "gzip"
            await self._send(request, response, body)
        except ConnectionError:
            # The client has gone, or was cut off: that is nobody's fault here.
            return response
        finally:
            self._leave(request, body)
        return response

    def _join(self, request: web.Request, wanted: _Wanted[Q]) -> _Body[Q]:
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

    def _leave(self, request: web.Request, body: _Body[Q]) -> None:
        """Nobody writes, or keeps, a dump that nobody reads."""
        body.readers.pop(id(request), None)
        if body.readers:
            return
        if self._waiting.get(body.wanted) is body:
            del self._waiting[body.wanted]
        if body in self._held:
            self._held.remove(body)
        self._freed.set()

    async def _until(self, late: float, body: _Body[Q], done: asyncio.Event) -> None:
        try:
            async with asyncio.timeout_at(late):
                await done.wait()
        except TimeoutError:
            raise self._refusal("waiting", _TOO_LATE) from None
        if body.failed:
            raise web.HTTPInternalServerError(text="the dump could not be taken; the log says why\n")

    def _refusal(self, reason: str, text: str) -> web.HTTPServiceUnavailable:
        self._stats.refused["main", reason] += 1
        return web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "1"})

    async def _send(self, request: web.Request, response: web.StreamResponse, body: _Body[Q]) -> None:
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

    async def _write(self, body: _Body[Q]) -> None:
        try:
            async with self._share:
                if not body.readers:
                    return
                # From here on, who asks wants to see what happens from here on.
                del self._waiting[body.wanted]
                self._held.append(body)
                body.begun_at = asyncio.get_running_loop().time()
                body.etag, pieces = self._take(body.wanted.query)
                if body.wanted.gzip:
                    pieces = _compressed(pieces)
            body.taken.set()
            # Readers that have it already leave now, so that it need not be written for them.
            await asyncio.sleep(0)
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
            body.taken.set()
        body.written.set()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same in gzip, piece by piece."""
    compressor = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _takes_gzip(request: web.Request) -> bool:
    """Whether the reader asks for gzip, not with a weight of 0."""
    for part in request.headers.get("Accept-Encoding", "").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


def _has(request: web.Request, etag: str) -> bool:
    """Whether the reader says that it has what the ETag stands for. Weak ones are enough (RFC 9110, 13.1.2)."""
    has = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    return "*" in has or etag.removeprefix("W/") in has
