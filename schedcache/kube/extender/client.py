"""An extender that is called over HTTP (kube-scheduler's HTTPExtender, 1.37)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar
from urllib.request import getproxies_environment

import aiohttp
from aiohttp.payload import Payload
from kubernetes.client.rest import should_bypass_proxies
from yarl import URL

from schedcache import __version__
from schedcache.kube.extender import wire
from schedcache.kube.extender.tls import TLSError, TLSSettings, make_context
from schedcache.kube.held_back_body import HeldBackBody
from schedcache.kube.sockets import probing_socket
from schedcache.model import Node, Pod
from schedcache.ports import ExtenderError, ExtenderResult, Fence, FilterAnswer, MetaVictims, Victims, asks_for

T = TypeVar("T")
SLACK_BYTES = 4 * 2**20
"""How much longer an answer may be than twice the request, which has the names or the whole objects that it can speak of."""
_SHOWN_BYTES = 200
_SHOWN_CHARACTERS = 400
"""Of an extender's own words: they go to the log, to an event and into the pod's status, with every attempt."""
_PIECE_BYTES = 2**18


@dataclass(frozen=True, kw_only=True)
class ExtenderSettings:
    """One extender, as kube-scheduler's configuration describes it.

    Attributes:
        url_prefix: what the verbs are appended to.
        filter_verb, prioritize_verb, preempt_verb, bind_verb: "" for what it is not asked for.
        weight: of its scores.
        enable_https: check nothing, unless `tls` has a certificate authority. The URL alone says whether it is HTTPS.
        tls: certificates, None for the system's.
        timeout_seconds: for a whole call.
        node_cache_capable: nodes and victims are sent by name.
        managed_resources: of which a pod has to ask for one, for the extender to be asked; none: it is asked about all.
        ignorable: pods are placed without its answer if it gives none.
    """

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    tls: TLSSettings | None = None
    timeout_seconds: float = 5.0
    node_cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignorable: bool = False


class ExtenderSetupError(Exception):
    """An extender cannot be called with its configuration; the message names it."""


class HttpExtenders:
    """The extenders of a configuration and their connections, opened with `async with`; for use within one event loop.

    Iterating gives them in the order of the settings; their binds are held against `fence`. Raises ExtenderSetupError.
    """

    def __init__(self, settings: Iterable[ExtenderSettings], fence: Fence | None = None) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._extenders = [HttpExtender(each, self._opened, fence) for each in settings]

    def __iter__(self) -> "Iterator[HttpExtender]":
        return iter(self._extenders)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # Bindings, which alone are asked for side by side, are bounded where they are begun.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=probing_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            # An answer that unpacks to gigabytes must not.
            auto_decompress=False,
            headers={
                "User-Agent": f"schedcache/{__version__}",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._opened(), None
        await session.close()
        # Connections that were given up in the middle of an answer are closed one turn of the loop later.
        await asyncio.sleep(0)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("HttpExtenders is used outside its 'async with' block")
        return self._session


class HttpExtender:
    """One of `HttpExtenders`; implements `schedcache.ports.Extender`.

    Args:
        settings: what to call, and when.
        session: gives the session to call it with.
        fence: what binds are held against; None lets all through.
    """

    def __init__(
        self,
        settings: ExtenderSettings,
        session: Callable[[], aiohttp.ClientSession],
        fence: Fence | None = None,
    ) -> None:
        self._settings = settings
        self._fence = fence
        self._session = session
        try:
            url = _checked_url(settings.url_prefix)
            _check_timeout(settings.timeout_seconds)
            self._ssl = make_context(settings.tls or TLSSettings(), enable_https=settings.enable_https)
        except (ValueError, TLSError) as error:
            raise ExtenderSetupError(f"extender {settings.url_prefix!r}: {error}") from error
        # Whose password is in the URL does not want it in messages.
        self.name = settings.url_prefix if url.user is None else str(url.with_user(None))
        verbs = (settings.filter_verb, settings.prioritize_verb, settings.preempt_verb, settings.bind_verb)
        self._urls = {verb: URL(f"{settings.url_prefix.rstrip('/')}/{verb}") for verb in verbs if verb}
        self._shown = {verb: f"{self.name.rstrip('/')}/{verb}" for verb in self._urls}
        self._server_name = (settings.tls.server_name if settings.tls else "") or None
        self._proxy = _proxy_for(url)
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_seconds)
        self.weight, self.ignorable = settings.weight, settings.ignorable
        self.filters, self.prioritizes = bool(settings.filter_verb), bool(settings.prioritize_verb)
        self.preempts, self.binds = bool(settings.preempt_verb), bool(settings.bind_verb)

    def is_interested(self, pod: Pod) -> bool:
        return asks_for(pod, self._settings.managed_resources)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterAnswer:
        by_name = self._settings.node_cache_capable
        request = wire.extender_args(pod, nodes, names_only=by_name)
        found = await self._ask(self._settings.filter_verb, request, wire.read_filter_result)
        self._check_error(found.error)
        named = found.node_names if by_name and found.node_names is not None else found.nodes
        known = {node.name for node in nodes}
        stranger = next((name for name in named or () if name not in known), None)
        if stranger is not None:
            raise ExtenderError(
                f"extender {self.name!r} claims a filtered node {stranger[:_SHOWN_CHARACTERS]!r}"
                " which is not found in the input node list",
                ExtenderResult.WRONG,
            )
        return FilterAnswer(named or (), found.failed_nodes, found.failed_and_unresolvable_nodes)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        request = wire.extender_args(pod, nodes, names_only=self._settings.node_cache_capable)
        return await self._ask(self._settings.prioritize_verb, request, wire.read_host_priorities)

    async def process_preemption(self, pod: Pod, candidates: Mapping[str, Victims]) -> Mapping[str, MetaVictims]:
        request = wire.preemption_args(pod, candidates, names_only=self._settings.node_cache_capable)
        return await self._ask(self._settings.preempt_verb, request, wire.read_preemption_result)

    async def bind(self, pod: Pod, node_name: str) -> None:
        request = wire.binding_args(pod, node_name)
        held_back = HeldBackBody(b"".join(request), self._fence, self._settings.timeout_seconds)
        self._check_error(await self._ask(self._settings.bind_verb, request, wire.read_binding_result, held_back))

    def _check_error(self, text: str) -> None:
        if text:
            raise ExtenderError(f"extender {self.name!r}: {text[:_SHOWN_CHARACTERS]}", ExtenderResult.ERROR)

    async def _ask(
        self,
        verb: str,
        request: wire.Body,
        read: Callable[[bytearray], wire.Reading[T]],
        held_back: HeldBackBody | None = None,
    ) -> T:
        """POST, and read the answer. Raises ExtenderError, and FencedError for what is held back."""
        try:
            if held_back is None:
                answer = await self._post(verb, request, _in_turns(request))
            else:
                async with held_back.limit():
                    answer = await self._post(verb, request, held_back.sent())
            return await _in_pieces(read(answer))
        except wire.MalformedAnswerError as error:
            raise self._failure(verb, f"the answer cannot be read: {error}", ExtenderResult.MALFORMED) from error
        except TimeoutError as error:
            text = f"no answer within {self._settings.timeout_seconds:g} s"
            raise self._failure(verb, text, ExtenderResult.TIMEOUT) from error
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise self._failure(verb, str(error), ExtenderResult.UNREACHABLE) from error
        except aiohttp.ClientResponseError as error:
            raise self._failure(verb, f"not HTTP: {error.message}", ExtenderResult.MALFORMED) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"the connection ended: {str(error) or type(error).__name__}"
            raise self._failure(verb, text, ExtenderResult.DISCONNECTED) from error

    async def _post(self, verb: str, request: wire.Body, data: "bytes | Payload | AsyncIterator[bytes]") -> bytearray:
        """The body of the answer."""
        size = sum(map(len, request))
        async with self._session().post(
            self._urls[verb],
            data=data,
            headers={"Content-Length": str(size)},
            timeout=self._timeout,
            ssl=self._ssl,
            server_hostname=self._server_name,
            proxy=self._proxy,
            # Whoever can answer for the extender could send pods, nodes and bindings anywhere.
            allow_redirects=False,
        ) as response:
            if response.status != 200:
                shown = (await response.content.read(_SHOWN_BYTES)).decode(errors="replace").strip()
                response.close()
                # kube-scheduler's words, and the extender's own.
                raise ExtenderError(
                    f"failed {verb} with extender at URL {self._shown[verb]}, code {response.status}"
                    + (f": {shown}" if shown else ""),
                    ExtenderResult.STATUS,
                )
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise wire.MalformedAnswerError("it is compressed, although that was not requested")
            return await self._read(verb, response, SLACK_BYTES + 2 * size)

    async def _read(self, verb: str, response: aiohttp.ClientResponse, limit: int) -> bytearray:
        body = bytearray()
        size = response.content_length or 0
        if size <= limit:
            async for piece in response.content.iter_any():
                body += piece
                if (size := len(body)) > limit:
                    break
        if size > limit:
            response.close()
            text = f"the answer is longer than {limit} bytes"
            raise self._failure(verb, text, ExtenderResult.TOO_LARGE)
        return body

    def _failure(self, verb: str, text: str, result: ExtenderResult) -> ExtenderError:
        return ExtenderError(f"extender {self.name!r}: {verb}: {text[:_SHOWN_CHARACTERS]}", result)


async def _in_pieces(reading: wire.Reading[T]) -> T:
    """What the reading returns; others have their turn in between."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            found: T = end.value
            return found
        await asyncio.sleep(0)


async def _in_turns(body: wire.Body) -> AsyncIterator[bytes]:
    """Others have their turn in between: whole nodes may be many megabytes."""
    pieces, size = [], 0
    for piece in body:
        pieces.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
            await asyncio.sleep(0)
    yield b"".join(pieces)


def _checked_url(text: str) -> URL:
    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("expected a URL such as http://HOST:PORT/PATH")
    return url


def _check_timeout(seconds: float) -> None:
    if seconds <= 0:
        raise ValueError(f"a time-out of {seconds:g} s is too short for any answer")


def _proxy_for(url: URL) -> str | None:
    """As Go finds it: in the environment, and never for loopback."""
    found = getproxies_environment()
    proxy = found.get(url.scheme)
    if not proxy or should_bypass_proxies(str(url), f"localhost,127.0.0.0/8,::1,{found.get('no', '')}"):
        return None
    return proxy
