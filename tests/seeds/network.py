"""What lies between a scheduler and the API server: time, and everything that can go wrong on the way.

A request is carried out when it arrives, whatever its sender does meanwhile. The real `Transport` runs on top of this; only its
connections are replaced.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict

from schedcache.kube.http import http_answer
from schedcache.kube.http.credentials import Access
from schedcache.kube.http.http_answer import NoAnswerError
from schedcache.kube.http.transport import Transport
from schedcache.kube.http.write_connections import NotSentError
from schedcache.kube.settings import RequestSettings
from schedcache.ports import Fence
from tests.seeds.api_server import BOOKMARK_SECONDS, Answer, ApiServer, Watch, status_body
from tests.seeds.virtual_loop import VirtualLoop

KEEPALIVE_SECONDS = 25.0
"""After so long without an acknowledgement, TCP ends a connection of ours (`kube.sockets`)."""
WORLD = Context()
"""Of callbacks that belong to no process."""
PAUSES = (0.0, 0.0, 0.001, 0.001, 0.002, 0.005, 0.02)
"""Seconds that a message is on its way: few values, so that many arrive at the same moment."""
ABOUT = {
    "write": ("bind", "status", "evict"),
    "all": ("bind", "read", "list", "watch", "status", "event", "evict", "lease"),
}
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "", 410: "Expired", 429: "TooManyRequests"}


@dataclass
class Fault:
    """What happens to requests about something, until an instant, to so many of them at most.

    `effect`: `refuse` (no connection), `lose request` and `lose answer` (the connection breaks before or after the request is
    carried out), `swallow request` and `swallow answer` (the same, and nothing is ever heard), `status` (refused with the code),
    `status after` (carried out, and answered with the code), `slow` (it takes so many seconds to arrive).
    """

    client: str
    about: str
    effect: str
    value: float
    until: float
    left: int


def process_of(client: str) -> str:
    """The process that a client belongs to: each start of it is a client of its own."""
    return client.partition("#")[0]


def about(method: str, path: str, query: Mapping[str, str]) -> str:
    """What a request is about: bind, read, list, watch, status, event, evict or lease."""
    parts = path.split("/")
    if "events" in parts:
        return "event"
    if "leases" in parts:
        return "lease"
    if parts[-1] in ("binding", "status"):
        return {"binding": "bind"}.get(parts[-1], "status")
    if method == "DELETE":
        return "evict"
    if "watch" in query:
        return "watch"
    return "read" if "namespaces" in parts and parts[-2] == "pods" else "list"


class Network:
    """All connections to the server.

    Attributes:
        faults: those that are in force.
        streams: the watches that are open, on the server's side.
        lag: seconds by which the events of a path are late, by (process, path).
        dark: until when no packet of a process arrives.
        given_up: told of each binding that arrives after its sender has given up, as (client, path).
        arrives: told of each other request when it arrives, as (client, what it is about).
        sent: how many requests were begun, watches included.
        ended: no connection is made any more, and none is left.
    """

    def __init__(self, loop: VirtualLoop, server: ApiServer, rng: random.Random, trace: list[str]) -> None:
        self.loop = loop
        self.server = server
        self.rng = rng
        self.trace = trace
        self.faults: list[Fault] = []
        self.streams: list[Stream] = []
        self.lag: dict[tuple[str, str], float] = {}
        self.dark: dict[str, float] = {}
        self.given_up: Callable[[str, str], None] = lambda _client, _path: None
        self.arrives: Callable[[str, str], None] = lambda _client, _what: None
        self.ended = False
        self.sent = 0

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.now:.6f} {text}")

    def pause(self) -> float:
        return self.rng.choice(PAUSES)

    # ---- faults

    def add(self, fault: Fault) -> None:
        self.faults.append(fault)

    def fault_for(self, client: str, what: str) -> Fault | None:
        for fault in self.faults:
            in_force = fault.left > 0 and self.loop.now < fault.until
            if in_force and fault.client in ("", process_of(client)) and what in ABOUT.get(fault.about, (fault.about,)):
                fault.left -= 1
                return fault
        return None

    def streams_of(self, process: str, path: str = "") -> list["Stream"]:
        return [s for s in self.streams if process in ("", process_of(s.client)) and path in ("", s.path)]

    def go_dark(self, process: str, seconds: float) -> None:
        """No packet arrives, in either direction."""
        self.dark[process] = max(self.dark.get(process, 0.0), self.loop.now + seconds)
        if seconds > KEEPALIVE_SECONDS:
            for stream in self.streams_of(process):
                self.loop.call_later(KEEPALIVE_SECONDS, stream.cut, context=WORLD)

    def dark_for(self, client: str) -> float:
        return max(0.0, self.dark.get(process_of(client), 0.0) - self.loop.now)

    def lag_of(self, client: str, path: str) -> float:
        return self.lag.get((process_of(client), path), 0.0)

    def heal(self) -> None:
        """From now on everything arrives. Streams that have fallen silent stay so: nobody but their reader can find out."""
        self.faults.clear()
        self.lag.clear()
        self.dark.clear()

    # ---- requests

    async def request(
        self, client: str, method: str, path: str, query: Mapping[str, str], body: bytes, timeout: float
    ) -> Answer:
        """Raises NotSentError, NoAnswerError or TimeoutError."""
        await self.unless_ended()
        self.sent += 1
        what = about(method, path, query)
        fault = self.fault_for(client, what)
        effect = fault.effect if fault is not None else ""
        value = fault.value if fault is not None else 0.0
        if effect:
            self.note(f"{client} {what} {path}: {effect} {value:g}")
        if effect == "refuse":
            await asyncio.sleep(self.pause())
            raise NotSentError("refused")
        answered = self.loop.create_future()
        delay = self.pause() + (value if effect == "slow" else 0.0)
        dark = self.dark_for(client)
        if dark > KEEPALIVE_SECONDS:
            effect = "swallow request"
        arrive = (self._arrive, answered, client, method, path, query, body, effect, int(value))
        self.loop.call_later(delay + dark, *arrive, context=WORLD)
        async with asyncio.timeout(timeout):
            return await answered

    async def unless_ended(self) -> None:
        if self.ended:
            await asyncio.sleep(1.0)
            raise NotSentError("the world has ended")

    def _arrive(
        self,
        answered: asyncio.Future[Answer],
        client: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
        effect: str,
        code: int,
    ) -> None:
        if self.ended or effect == "swallow request":
            return
        if effect == "lose request":
            self._answer_later(answered, NoAnswerError("the connection broke"), client)
            return
        if effect == "status":
            self._answer_later(answered, _refusal(code), client)
            return
        if answered.done() and path.endswith("/binding"):
            self.given_up(client, path)
        if not answered.done():
            self.arrives(client, about(method, path, query))
        answer = self.server.carry_out(client, method, path, query, body)
        if method != "GET":
            self.note(f"{client} {method} {path} {body[:120].decode()} {answer.status}")
        if effect == "swallow answer":
            return
        if effect == "lose answer":
            self._answer_later(answered, NoAnswerError("the connection broke"), client)
        elif effect == "status after":
            self._answer_later(answered, _refusal(code), client)
        else:
            self._answer_later(answered, answer, client)

    def _answer_later(self, answered: asyncio.Future[Answer], answer: Answer | Exception, client: str) -> None:
        dark = self.dark_for(client)
        if dark <= KEEPALIVE_SECONDS:
            self.loop.call_later(self.pause() + dark, _settle, answered, answer, context=WORLD)


def _settle(answered: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if answered.done():
        return
    if isinstance(answer, Exception):
        answered.set_exception(answer)
    else:
        answered.set_result(answer)


def _refusal(code: int) -> Answer:
    headers = {"retry-after": "1"} if code == 429 else {}
    return Answer(code, status_body(code, REASONS.get(code, "InternalError"), "as the scenario wants it"), headers)


class Stream:
    """An open watch: what the server sends arrives later, and in order."""

    def __init__(self, network: Network, client: str, path: str, query: Mapping[str, str]) -> None:
        self.network = network
        self.client = client
        self.path = path
        self.silent = False
        self.to_drop = 0
        self.to_repeat = 0
        self.watch: Watch | None = None
        self._chunks: list[bytes] = []
        self._ending: Exception | None = None
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None
        self._last = network.loop.now
        self._timers: list[asyncio.TimerHandle] = []
        network.streams.append(self)
        self._later(float(query["timeoutSeconds"]), self.finish)
        self._later(BOOKMARK_SECONDS, self._bookmark)
        self.watch = network.server.watch(path, query, self.tell)
        if self.watch is None:
            self.fail_with(410)

    def tell(self, line: bytes, *, is_event: bool = True) -> None:
        """Called by the server."""
        if self.silent:
            return
        if is_event and self.to_drop:
            self.to_drop -= 1
            self.network.note(f"{self.client} {self.path}: an event is dropped")
            return
        self._send(line)
        if is_event and self.to_repeat:
            self.to_repeat -= 1
            self._send(line)

    def fail_with(self, code: int) -> None:
        """An ERROR event, and the end."""
        self._send(b'{"type":"ERROR","object":%s}\n' % status_body(code, REASONS.get(code, "InternalError")))
        self.finish()

    def garble(self) -> None:
        """A line that is not an event."""
        self._send(b'{"type":"MODIFIED","object":{"metad\n')

    def finish(self) -> None:
        """The server ends the stream in order."""
        if not self.silent:
            self._send(None)
        self._leave()

    def cut(self) -> None:
        """The connection breaks: what is on its way is lost, the half of a line may arrive."""
        self._leave()
        if not self._ended:
            self._arrive(aiohttp.ClientConnectionResetError("the connection broke"))

    def close(self) -> None:
        """The reader has had enough."""
        self._ended = True
        self._leave()

    def _leave(self) -> None:
        for timer in self._timers:
            timer.cancel()
        if self in self.network.streams:
            self.network.streams.remove(self)
        if self.watch is not None:
            self.network.server.end_watch(self.watch)

    def _bookmark(self) -> None:
        self.tell(self.network.server.bookmark(), is_event=False)
        self._later(BOOKMARK_SECONDS, self._bookmark)

    def _later(self, seconds: float, act: Any) -> None:
        self._timers.append(self.network.loop.call_later(seconds, act, context=WORLD))

    def _send(self, line: bytes | None) -> None:
        network = self.network
        delay = network.pause() + network.lag_of(self.client, self.path) + network.dark_for(self.client)
        self._last = max(self._last, network.loop.now + delay)
        pieces: list[bytes | None] = [line]
        if line is not None and network.rng.random() < 0.1:
            middle = network.rng.randrange(len(line))
            pieces = [line[:middle], line[middle:]]
        for piece in pieces:
            # The loop may run timers of one moment in any order.
            self._last += 1e-5
            network.loop.call_at(self._last, self._arrive, piece, context=WORLD)

    def _arrive(self, what: bytes | Exception | None) -> None:
        if self._ended:
            return
        if isinstance(what, bytes):
            self._chunks.append(what)
        else:
            self._ended = True
            self._ending = what
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def read(self, timeout: float | None) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                chunk = b"".join(self._chunks)
                self._chunks.clear()
                yield chunk
            if self._ended:
                if self._ending is not None:
                    raise self._ending
                return
            self._waiting = self.network.loop.create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._waiting
            except TimeoutError:
                raise aiohttp.SocketTimeoutError("nothing arrived for too long") from None


class _Response:
    """As much of aiohttp's as the transport uses."""

    connection = None

    def __init__(self, answer: Answer, stream: Stream | None = None, silence: float | None = None) -> None:
        self.status = answer.status
        self.reason = ""
        self.headers = CIMultiDict(answer.headers)
        self.content = self
        self._body = answer.body
        self._stream = stream
        self._silence = silence

    async def read(self) -> bytes:
        return self._body

    def iter_any(self) -> AsyncIterator[bytes]:
        return self._stream.read(self._silence)

    def release(self) -> None:
        if self._stream is not None:
            self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()


class _Session:
    """In place of aiohttp's session."""

    def __init__(self, network: Network, client: str) -> None:
        self._network = network
        self._client = client

    async def request(
        self, method: str, url: Any, *, data: bytes | None, params: Mapping[str, str] | None, timeout: Any, **_: Any
    ) -> _Response:
        network, path, query = self._network, url.path, params or {}
        try:
            if "watch" not in query:
                wait = timeout.total or 15.0
                return _Response(await network.request(self._client, method, path, query, data or b"", wait))
            return await self._watch(path, query, timeout)
        except NotSentError as error:
            raise aiohttp.ServerDisconnectedError(str(error)) from error
        except NoAnswerError as error:
            raise aiohttp.ClientConnectionResetError(str(error)) from error

    async def _watch(self, path: str, query: Mapping[str, str], timeout: Any) -> _Response:
        network = self._network
        await network.unless_ended()
        network.sent += 1
        fault = network.fault_for(self._client, "watch")
        await asyncio.sleep(network.pause() + network.dark_for(self._client))
        if fault is not None:
            network.note(f"{self._client} watch {path}: {fault.effect} {fault.value:g}")
            match fault.effect:
                case "status" | "status after":
                    return _Response(_refusal(int(fault.value)))
                case "refuse" | "lose request" | "lose answer":
                    raise NotSentError("refused")
                case "slow":
                    await asyncio.sleep(fault.value)
                case _:
                    await asyncio.sleep(timeout.sock_read)
                    raise TimeoutError
        return _Response(Answer(200, b""), Stream(network, self._client, path, query), timeout.sock_read)

    async def close(self) -> None:
        pass


class _Writes:
    """In place of the connections for small writes."""

    def __init__(self, network: Network, client: str) -> None:
        self._network = network
        self._client = client

    async def send(
        self,
        _access: Access,
        method: str,
        path: str,
        body: bytes,
        _content_type: str,
        timeout: float,
        fence: Fence | None = None,
    ) -> http_answer.Answer:
        if fence is not None:
            timeout = fence.allow(timeout)
        answer = await self._network.request(self._client, method, path, {}, body, timeout)
        return http_answer.Answer(answer.status, "", answer.headers, answer.body)

    def close(self) -> None:
        pass


class _Anybody:
    """Credentials of a cluster where everybody may do everything."""

    access = Access("http://api.test", "", None, None, None, True, None, None, None)

    def refresh(self) -> Access:
        return self.access

    reload = refresh


class SimulatedTransport(Transport):
    """The real transport, on connections of the simulated network."""

    def __init__(
        self, network: Network, client: str, settings: RequestSettings, clock: Any, rng: random.Random
    ) -> None:
        super().__init__(_Anybody(), settings, clock=clock, rng=rng)
        self._network = network
        self._client = client
        self._writes = _Writes(network, client)

    async def __aenter__(self) -> Self:
        self._session = _Session(self._network, self._client)
        return self
