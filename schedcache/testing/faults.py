"""What can go wrong between a client and the API server, as values for a :class:`FaultProxy`."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from schedcache.testing.builders import JSONObject

REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""HTTP status -> the ``reason`` the API server gives with it."""


def status_object(code: int, message: str = "injected by a test", reason: str | None = None) -> JSONObject:
    """A ``Status`` as in an answer of the API server, or in a watch."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, "") if reason is None else reason,
        "code": code,
    }


def error_event(code: int, message: str = "injected by a test") -> bytes:
    """An ERROR event of a watch: 410 is how the API server says that a resourceVersion is too old."""
    return msgspec.json.encode({"type": "ERROR", "object": status_object(code, message)})


class Request(NamedTuple):
    """A request on its way to the API server; ``body`` is empty for reads."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def watch(self) -> bool:
        """Whether it opens a watch."""
        return self.method == "GET" and self.query.get("watch") in ("1", "true")


@dataclass(frozen=True)
class Answer:
    """Answer in the API server's place; it never sees the request.

    Attributes:
        status: HTTP status.
        message: of the Status object.
        reason: of the Status object; ``None``: what the API server gives with this status.
        retry_after: seconds, in the header ``Retry-After``.
        body: another body than a Status object.
    """

    status: int
    message: str = "injected by a test"
    reason: str | None = None
    retry_after: int | None = None
    body: bytes | None = None


@dataclass(frozen=True)
class Reset:
    """Reset the connection; the API server never sees the request."""


@dataclass(frozen=True)
class Hang:
    """Do not answer until the client gives up; the API server never sees the request."""


@dataclass(frozen=True)
class LoseResponse:
    """Let the API server carry the request out, then lose its answer.

    Attributes:
        silent: do not answer until the client gives up, instead of resetting the connection.
    """

    silent: bool = False


@dataclass(frozen=True)
class Delay:
    """Delay the request. It still reaches the API server if the client gives up meanwhile, as on a slow network.

    Attributes:
        seconds: how long.
        response: delay the answer, not the request.
    """

    seconds: float
    response: bool = False


@dataclass(frozen=True)
class Cut:
    """End a watch.

    Attributes:
        after_events: once so many events have passed.
        after_bytes: once so many bytes have passed, even in the middle of an event.
        reset: reset the connection, instead of ending the response as the API server does.
    """

    after_events: int | None = None
    after_bytes: int | None = None
    reset: bool = False


@dataclass(frozen=True)
class Inject:
    """Put a line into a watch, whether it is JSON or not.

    Attributes:
        line: without the end of line.
        after_events: once so many events have passed.
    """

    line: bytes
    after_events: int = 0


@dataclass(frozen=True)
class Hold:
    """Let nothing through on a watch, while the connection stays up, until :meth:`WatchStream.release`.

    Attributes:
        after_events: once so many events have passed.
    """

    after_events: int = 0


@dataclass(frozen=True)
class Rewrite:
    """Change the events of a watch: drop, repeat, reorder or corrupt them.

    Attributes:
        change: from a line to the lines to send in its place.
    """

    change: Callable[[bytes], Iterable[bytes]]


Fault = Answer | Reset | Hang | LoseResponse | Delay | Cut | Inject | Hold | Rewrite
STREAM_FAULTS = (Cut, Inject, Hold, Rewrite)
LINE_FAULTS = (Inject, Rewrite)
"""Those that need JSON: a client that asks for protobuf, as Go's do, is given JSON then, and takes it."""
FINAL_FAULTS = (Answer, Reset, Hang, LoseResponse)


@dataclass(eq=False)
class Rule:
    """A fault and the requests that it applies to.

    Attributes:
        fault: what happens.
        method: HTTP method; ``None``: any.
        path: regular expression that is searched in the path, without the query.
        watch: ``True``: only watches, ``False``: only others, ``None``: both.
        where: a further condition.
        times: how often; ``None``: until :meth:`remove`.
        hits: how often it has happened so far.
    """

    fault: Fault
    method: str | None = None
    path: str = ""
    watch: bool | None = None
    where: Callable[[Request], bool] | None = None
    times: int | None = None
    hits: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def matches(self, request: Request) -> bool:
        """Whether the fault applies to this request."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method is not None and self.method != request.method:
            return False
        if self.watch is not None and self.watch != request.watch:
            return False
        if isinstance(self.fault, STREAM_FAULTS) and not request.watch:
            return False
        return re.search(self.path, request.path) is not None and (self.where is None or self.where(request))

    def hit(self) -> None:
        """Count one occurrence."""
        self.hits += 1
        self._changed.set()

    def remove(self) -> None:
        """Let it not happen again."""
        self.times = self.hits

    async def wait(self, hits: int = 1, timeout: float = 30.0) -> None:
        """Wait until it has happened ``hits`` times; ``TimeoutError`` after ``timeout`` seconds."""
        async with asyncio.timeout(timeout):
            while self.hits < hits:
                self._changed.clear()
                await self._changed.wait()


class _Sink(Protocol):
    """Where a stream goes: aiohttp's StreamResponse."""

    async def write(self, data: bytes) -> None: ...


class WatchStream:
    """One watch that is open through the proxy.

    Attributes:
        request: what opened it.
        events: how many events have passed, without injected ones.
        bytes: how many bytes have passed.
    """

    def __init__(self, request: Request, sink: _Sink, faults: Iterable[Fault], *, json_lines: bool) -> None:
        self.request = request
        self.events = 0
        self.bytes = 0
        self._sink = sink
        self._faults = list(faults)
        self._json_lines = json_lines
        self._rest = b""
        self._flows = asyncio.Event()
        self._flows.set()
        self._writing = asyncio.Lock()
        self.ended: asyncio.Future[Cut] = asyncio.get_running_loop().create_future()

    def hold(self) -> None:
        """Let nothing through from now on."""
        self._flows.clear()

    def release(self) -> None:
        """Let through what was held, and all that follows."""
        self._flows.set()

    def cut(self, *, reset: bool = False) -> None:
        """End it now."""
        if not self.ended.done():
            self.ended.set_result(Cut(reset=reset))

    async def inject(self, line: bytes) -> None:
        """Inject a line now, between two events; if the watch is held, when it is released.

        Raises:
            ValueError: the watch is protobuf, which Go's clients request; a rule with Inject would have made it JSON.
        """
        if not self._json_lines:
            raise ValueError("lines can only be injected into JSON watches")
        await self._flows.wait()
        async with self._writing:
            await self._sink.write(line + b"\n")

    async def feed(self, chunk: bytes) -> None:
        """Pass on what the API server sent: whole events only, so that an injected line never splits one."""
        frames, self._rest = (split_lines if self._json_lines else split_frames)(self._rest + chunk)
        for frame in frames:
            await self.act()
            for changed in self._rewritten(frame):
                await self._pass(changed)
        await self.act()

    async def act(self) -> None:
        """Apply the faults that are due after the events so far."""
        for fault in list(self._faults):
            match fault:
                case Cut(after_events=count, reset=reset) if count is not None and self.events >= count:
                    self.cut(reset=reset)
                case Inject(line, after_events) if self.events >= after_events:
                    self._faults.remove(fault)
                    await self.inject(line)
                case Hold(after_events) if self.events >= after_events:
                    self._faults.remove(fault)
                    self.hold()
        if self.ended.done():
            # The proxy ends this task: nothing may pass any more.
            await asyncio.Event().wait()

    def _rewritten(self, frame: bytes) -> list[bytes]:
        lines = [frame]
        for fault in self._faults:
            if isinstance(fault, Rewrite):
                lines = [changed + b"\n" for line in lines for changed in fault.change(line.removesuffix(b"\n"))]
        return lines

    async def _pass(self, frame: bytes) -> None:
        await self._flows.wait()
        for fault in self._faults:
            if (
                isinstance(fault, Cut)
                and fault.after_bytes is not None
                and self.bytes + len(frame) >= fault.after_bytes
            ):
                frame = frame[: fault.after_bytes - self.bytes]
                self.cut(reset=fault.reset)
        async with self._writing:
            await self._sink.write(frame)
        self.bytes += len(frame)
        self.events += 1
        if self.ended.done():
            await asyncio.Event().wait()


def split_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole lines, with their ends, and the beginning of the next."""
    *lines, rest = data.split(b"\n")
    return [line + b"\n" for line in lines], rest


def split_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole frames of a protobuf watch, each led by its length in four bytes, and the beginning of the next."""
    frames = []
    while len(data) >= 4 and len(data) >= (size := 4 + int.from_bytes(data[:4], "big")):
        frames.append(data[:size])
        data = data[size:]
    return frames, data
