"""A proxy in front of an API server that can produce everything that goes wrong on a network."""

import asyncio
import contextlib
import socket
import ssl
import struct
import weakref
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from schedcache.testing.api_client import JSON
from schedcache.testing.connections import Connector, abort_connections
from schedcache.testing.control_plane import ControlPlane
from schedcache.testing.faults import (
    FINAL_FAULTS,
    LINE_FAULTS,
    Answer,
    Cut,
    Delay,
    Fault,
    Hang,
    LoseResponse,
    Request,
    Reset,
    Rule,
    WatchStream,
    status_object,
)

PROTOBUF = "application/vnd.kubernetes.protobuf"
HOP_BY_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"})
LARGEST_BODY_BYTES = 2**24


class FaultProxy:
    """An HTTPS proxy on loopback, within the event loop that opens it, as an async context manager.

    It serves with the API server's own certificate, so a client needs only :attr:`kubeconfig`. Requests pass unchanged
    unless a rule says otherwise: watches event by event, everything else when the answer is complete. If the API server
    cannot be reached, connections are reset.

    All rules that match a request are applied, in the order in which they were added, up to and including the first that
    answers it (Answer, Reset, Hang, LoseResponse)::

        async with FaultProxy(control_plane) as proxy:
            proxy.add(Answer(409), method="POST", path=r"/binding$", times=3)
            proxy.add(Inject(error_event(410), after_events=2), path=r"^/api/v1/pods$", times=1)

    Attributes:
        url: of the proxy.
        kubeconfig: the admin's, through the proxy.
        watches: the open ones, oldest first; see :class:`~schedcache.testing.faults.WatchStream`.

    Args:
        control_plane: a running one.
    """

    url: str
    kubeconfig: Path

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._rules: list[Rule] = []
        self._tasks: set[asyncio.Task[web.Response]] = set()
        self._connections: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self.watches: list[WatchStream] = []

    async def __aenter__(self) -> Self:
        certificates = self._control_plane.certificates
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(certificates.certificate, certificates.key)
        self._upstream = aiohttp.ClientSession(
            connector=Connector(certificates.authority),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=2**20,
        )
        application = web.Application(client_max_size=LARGEST_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._handle)
        # A client that hangs up ends its watch here and at the API server.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=serving)
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        self.kubeconfig = self.kubeconfig_for(self._control_plane.admin_token)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in list(self.watches):
            watch.cut()
        await self._runner.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._upstream.close()
        await abort_connections(list(self._connections))

    def add(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",
        watch: bool | None = None,
        where: Callable[[Request], bool] | None = None,
        times: int | None = None,
    ) -> Rule:
        """Apply a fault to the requests that match; the arguments are the attributes of :class:`Rule`."""
        rule = Rule(fault, method=method, path=path, watch=watch, where=where, times=times)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules and release the watches that are held."""
        self._rules.clear()
        for watch in self.watches:
            watch.release()

    def kubeconfig_for(self, token: str) -> Path:
        """Write a kubeconfig with a bearer token, through the proxy."""
        return self._control_plane.kubeconfig_for(token, user="through-proxy", server=self.url)

    async def _handle(self, received: web.Request) -> web.StreamResponse:
        request = Request(
            received.method, received.path, received.query, received.headers.copy(), await received.read()
        )
        if received.transport is not None:
            self._connections.add(received.transport)
        faults = self._due(request)
        delays = [fault for fault in faults if isinstance(fault, Delay)]
        before = sum(delay.seconds for delay in delays if not delay.response)
        after = sum(delay.seconds for delay in delays if delay.response)
        final = next((fault for fault in faults if isinstance(fault, FINAL_FAULTS)), None)
        if request.watch and final is None:
            await asyncio.sleep(before)
            return await self._watch(received, request, faults)
        match final:
            case Answer():
                await asyncio.sleep(before + after)
                return _answer(final)
            case Reset():
                await asyncio.sleep(before)
                return _reset(received)
            case Hang():
                return await _say_nothing()
        response = await self._in_background(self._forward(received.rel_url, request, before))
        if response.status == 0:
            return _reset(received)
        await asyncio.sleep(after)
        if isinstance(final, LoseResponse):
            return await _say_nothing() if final.silent else _reset(received)
        return response

    def _due(self, request: Request) -> list[Fault]:
        faults: list[Fault] = []
        for rule in self._rules:
            if rule.matches(request):
                rule.hit()
                faults.append(rule.fault)
                if isinstance(rule.fault, FINAL_FAULTS):
                    break
        return faults

    async def _in_background(self, work: Coroutine[None, None, web.Response]) -> web.Response:
        """Await work that goes on if the client hangs up."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def _target(self, path: URL) -> URL:
        return URL(self._control_plane.server + path.raw_path_qs, encoded=True)

    async def _forward(self, path: URL, request: Request, delay: float) -> web.Response:
        """The API server's answer; status 0 if there was none."""
        await asyncio.sleep(delay)
        headers = _end_to_end(request.headers)
        target = self._target(path)
        try:
            async with self._upstream.request(
                request.method, target, data=request.body or None, headers=headers, allow_redirects=False
            ) as answer:
                return web.Response(status=answer.status, body=await answer.read(), headers=_end_to_end(answer.headers))
        except aiohttp.ClientError:
            return web.Response(status=0)

    async def _watch(self, received: web.Request, request: Request, faults: list[Fault]) -> web.StreamResponse:
        # Events must be separable: kube-apiserver 1.37 compresses watches that begin with the initial events.
        headers = _end_to_end(request.headers)
        headers["Accept-Encoding"] = "identity"
        if any(isinstance(fault, LINE_FAULTS) for fault in faults):
            headers["Accept"] = headers.get("Accept", JSON).replace(PROTOBUF, JSON)
        try:
            upstream = await self._upstream.get(self._target(received.rel_url), headers=headers)
        except aiohttp.ClientError:
            return _reset(received)
        async with upstream:
            if upstream.status != 200:
                body = await upstream.read()
                return web.Response(status=upstream.status, body=body, headers=_end_to_end(upstream.headers))
            response = web.StreamResponse(headers=_end_to_end(upstream.headers))
            response.enable_chunked_encoding()
            try:
                await response.prepare(received)
            except ConnectionError:
                return _reset(received)  # the client has hung up meanwhile, which is its own affair
            json_lines = PROTOBUF not in upstream.headers.get("Content-Type", "")
            stream = WatchStream(request, response, faults, json_lines=json_lines)
            self.watches.append(stream)
            try:
                end = await _pump(upstream, stream)
            finally:
                self.watches.remove(stream)
        if end.reset:
            return _reset(received)
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response


async def _pump(upstream: aiohttp.ClientResponse, stream: WatchStream) -> Cut:
    """Pass a watch on until it is cut or the API server ends it. Returns how it ended."""

    async def pass_on() -> Cut:
        await stream.act()
        try:
            async for chunk in upstream.content.iter_any():
                await stream.feed(chunk)
        except aiohttp.ClientError:
            return Cut(reset=True)
        return Cut()

    passing = asyncio.create_task(pass_on())
    try:
        await asyncio.wait((passing, stream.ended), return_when=asyncio.FIRST_COMPLETED)
        return stream.ended.result() if stream.ended.done() else await passing
    finally:
        passing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await passing


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict({key: value for key, value in headers.items() if key.lower() not in HOP_BY_HOP})


def _answer(fault: Answer) -> web.Response:
    body = fault.body
    if body is None:
        body = msgspec.json.encode(status_object(fault.status, fault.message, fault.reason))
    headers = {"Content-Type": "application/json"}
    if fault.retry_after is not None:
        headers["Retry-After"] = str(fault.retry_after)
    return web.Response(status=fault.status, body=body, headers=headers)


async def _say_nothing() -> web.Response:
    """Until the client hangs up or the proxy is closed, which cancel this task."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def _reset(received: web.Request) -> web.Response:
    """Reset the connection under the response: RST, where a plain close would send FIN."""
    transport = received.transport
    if transport is not None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()
