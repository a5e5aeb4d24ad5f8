"""Requests to the API server, and what their answers mean: lists and watches use one aiohttp session, all else kept connections."""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Self

import aiohttp
import structlog
from yarl import URL

from schedcache import __version__
from schedcache.kube.held_back_body import HeldBackBody
from schedcache.kube.http.credentials import Access, CredentialError, Credentials
from schedcache.kube.http.outcomes import (
    CONNECTION_FAILURES,
    WATCH,
    ThrottledError,
    done,
    failure,
    refusal,
    refusal_of,
)
from schedcache.kube.http.request_stats import RequestStats
from schedcache.kube.http.write_connections import WriteConnections
from schedcache.kube.settings import RequestSettings
from schedcache.kube.sockets import probing_socket
from schedcache.ports import Fence

__all__ = ["Transport"]

USER_AGENT = f"schedcache/{__version__}"
JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

log = structlog.get_logger()


class Transport:
    """One HTTP session, opened with `async with`; for use within one event loop.

    Attributes:
        settings: as given.
        unauthorized: the last request was answered 401, and there were no other credentials to try.
        stats: how requests went.

    Args:
        credentials: who we are; renewed in the background and after an answer of 401.
        settings: deadlines and tries.
        clock: seconds, monotonic.
        sleep: waits that many seconds.
        rng: for the jitter of retries.
    """

    def __init__(
        self,
        credentials: Credentials,
        settings: RequestSettings = RequestSettings(),
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.credentials = credentials
        self.unauthorized = False
        self.settings = settings
        self.stats = RequestStats()
        self._writes = WriteConnections(USER_AGENT, settings.connect_timeout_seconds, settings.idle_connection_seconds)
        self._timeout = self._client_timeout(settings.request_timeout_seconds)
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._refresh_at = clock() + settings.credentials_check_seconds
        self._reloaded_at = float("-inf")
        self._reloading = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._adopt(credentials.access)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # Senders limit themselves; a limit here would let a burst of binds starve the watches.
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=self.settings.idle_connection_seconds, socket_factory=probing_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            # Inside a cluster, bytes are cheap and the time to compress them is not.
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        self._writes.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
        # Connections that were abandoned in the middle of an answer are closed one turn of the loop later.
        await asyncio.sleep(0)

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> bytes:
        """The body of a GET, retried when throttled. Raises RefusedError (NotFoundError) or UnavailableError.

        Args:
            path: of an object or a collection.
            params: the query.
            accept: the media type wanted.
            timeout: seconds for the request; None for the transport's.
        """
        if params is None and timeout is None and accept == JSON and self._access.proxy is None:
            # One object. After a fault there are as many of these as there were binds under way.
            return await self._retry_throttled(lambda: self._ask("GET", path, b"", JSON))
        limit = self._timeout if timeout is None else self._client_timeout(timeout)
        return await self._retry_throttled(lambda: self._read(path, params, accept, limit))

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = JSON, *, fence: Fence | None = None
    ) -> bytes:
        """The body of the answer to a write, retried when throttled.

        Args:
            method: of HTTP.
            path: of an object, or of what is created.
            body: of the request.
            content_type: of the body.
            fence: asked before each attempt, when only the bytes are left to be sent; it may shorten the request.

        Raises RefusedError (NotFoundError), UnavailableError (FencedError) or OutcomeUnknownError (ConflictError).
        """
        return await self._retry_throttled(lambda: self._ask(method, path, body, content_type, fence))

    def _client_timeout(self, total: float | None, silence: float | None = None) -> aiohttp.ClientTimeout:
        # sock_connect would leave out names that are not resolved and proxies that do not answer.
        connect = self.settings.connect_timeout_seconds
        return aiohttp.ClientTimeout(total=total, connect=connect, sock_read=silence)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], inactivity_timeout: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a GET, as it arrives. Raises RefusedError or UnavailableError, and so does reading it inside the block.

        Args:
            path: of the collection.
            params: the query.
            inactivity_timeout: seconds without a byte after which the watch is given up.
        """
        timeout = self._client_timeout(None, inactivity_timeout)
        try:
            try:
                response = await self._open("GET", path, None, params, {"Accept": JSON}, timeout)
            except CONNECTION_FAILURES:
                self.stats.failed("GET")
                raise
            self.stats.watched(response.status)
            async with response:
                if not done(response.status):
                    raise refusal_of(WATCH, path, response, await response.read())
                try:
                    yield response.content
                finally:
                    # The watch has not ended. Closed politely, the connection would stay until the server closes it too.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
        except CONNECTION_FAILURES as error:
            raise failure(WATCH, path, error) from error

    async def _retry_throttled(self, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        tries = 1
        while True:
            try:
                return await ask()
            except ThrottledError as error:
                if tries >= self.settings.throttled_tries:
                    raise
                tries += 1
                pause = min(self.settings.retry_after_limit_seconds, error.retry_after or 1.0)
            await self._sleep(pause * self._rng.uniform(1.0, 1.2))

    async def _read(
        self, path: str, params: Mapping[str, str] | None, accept: str, timeout: aiohttp.ClientTimeout
    ) -> bytes:
        return await self._answer("GET", path, None, params, {"Accept": accept}, timeout)

    async def _ask(self, method: str, path: str, body: bytes, content_type: str, fence: Fence | None = None) -> bytes:
        """A small request, over kept connections."""
        if self._access.proxy is not None:
            held_back = HeldBackBody(body, fence, self.settings.request_timeout_seconds)
            headers = {"Content-Type": content_type, "Content-Length": str(len(body))}
            return await self._answer(method, path, held_back, None, headers, self._timeout)
        self._require_open()
        while True:
            access = self._access
            started = perf_counter()
            try:
                answer = await self._writes.send(
                    access, method, path, body, content_type, self.settings.request_timeout_seconds, fence
                )
            except CONNECTION_FAILURES as error:
                self.stats.failed(method, perf_counter() - started)
                if isinstance(error.__cause__, ssl.SSLError) and await self._renewed_after(access):
                    continue
                raise failure(method, path, error) from error
            self.stats.answered(method, answer.status, perf_counter() - started, len(body), len(answer.body))
            if answer.status != 401 or not await self._renewed_after(access):
                break
        self.unauthorized = answer.status == 401
        if not done(answer.status):
            raise refusal(method, path, answer.status, answer.reason, answer.headers.get("retry-after"), answer.body)
        return answer.body

    async def _answer(
        self,
        method: str,
        path: str,
        body: HeldBackBody | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> bytes:
        started = perf_counter()
        try:
            async with body.limit() if body is not None else nullcontext():
                response = await self._open(method, path, body, params, headers, timeout)
                # The body is read to its end, so that the connection can be used again.
                async with response:
                    answer = await response.read()
        except CONNECTION_FAILURES as error:
            self.stats.failed(method, perf_counter() - started)
            raise failure(method, path, error) from error
        sent = 0 if body is None else len(body)
        self.stats.answered(method, response.status, perf_counter() - started, sent, len(answer))
        if not done(response.status):
            raise refusal_of(method, path, response, answer)
        return answer

    async def _open(
        self,
        method: str,
        path: str,
        body: HeldBackBody | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        session = self._require_open()
        while True:
            access = self._access
            url = URL(access.server + path, encoded=True)
            try:
                response = await session.request(
                    method,
                    url,
                    data=None if body is None else body.sent(),
                    params=params,
                    headers={**self._authorization, **headers},
                    timeout=timeout,
                    ssl=access.ssl_context or True,
                    server_hostname=access.server_hostname,
                    proxy=access.proxy,
                    allow_redirects=False,
                )
            except aiohttp.ClientSSLError:
                # The certificate authority may be another by now, and the kubeconfig may have it.
                if await self._renewed_after(access):
                    continue
                raise
            if response.status != 401 or not await self._renewed_after(access):
                self.unauthorized = response.status == 401
                return response
            response.release()

    def _require_open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("Transport is used outside its 'async with' block")
        if self._clock() >= self._refresh_at:
            self._renew_in_background()
        return self._session

    async def _renewed_after(self, refused: Access) -> bool:
        """Whether there are other credentials to try than the refused ones."""
        # A request that is refused while they are being read waits for them, too.
        async with self._reloading:
            if (
                self._access is refused
                and self._clock() - self._reloaded_at >= self.settings.credentials_reload_seconds
            ):
                self._reloaded_at = self._clock()
                await self._renew(self.credentials.reload)
        return self._access is not refused

    def _renew_in_background(self) -> None:
        self._refresh_at = self._clock() + self.settings.credentials_check_seconds
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew(self.credentials.refresh))

    async def _renew(self, how: Callable[[], Access]) -> None:
        try:
            # An exec plugin may take seconds.
            self._adopt(await asyncio.to_thread(how))
        except CredentialError as error:
            # What we have may still work; if not, the request that is refused will show it.
            log.warning("credentials could not be renewed", error=str(error))

    def _adopt(self, access: Access) -> None:
        self._access = access
        self.stats.host = URL(access.server).authority
        self._authorization = {"Authorization": access.authorization} if access.authorization else {}
