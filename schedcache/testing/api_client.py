"""A small client of the Kubernetes API for tests: raw JSON in, raw JSON out, no cache, no retries."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
import msgspec

from schedcache.testing.builders import JSONObject
from schedcache.testing.connections import Connector

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
T = TypeVar("T")

CONCURRENT_REQUESTS = 32
REQUEST_SECONDS = 60.0
LIST_PAGE = 500


class ApiStatusError(Exception):
    """The API server answered with an error.

    Attributes:
        status: HTTP status code.
        reason: machine-readable reason of the Status object, such as ``AlreadyExists``.
        message: its text.
        request: method and path.
    """

    def __init__(self, request: str, status: int, body: Any) -> None:
        details = body if isinstance(body, dict) else {}
        self.request = request
        self.status = status
        self.reason: str = details.get("reason", "")
        self.message: str = details.get("message", str(body))
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")


class Resource(NamedTuple):
    """A kind that the API server serves."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        """As in an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Path of one object, or of the collection; of all namespaces if ``namespace`` is ``None``."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is not None and self.namespaced:
            path += f"/namespaces/{namespace}"
        return f"{path}/{self.plural}" + (f"/{name}" if name is not None else "")


class ApiClient:
    """An async context manager, for use within one event loop.

    Args:
        server: URL such as ``https://127.0.0.1:6443``.
        ca_file: certificate authority in PEM form.
        token: bearer token; ``None``: anonymous.
        user_agent: as it appears in the audit log.
    """

    def __init__(
        self, server: str, ca_file: Path, token: str | None = None, user_agent: str = "schedcache-testing"
    ) -> None:
        self.server = server
        self._ca_file = ca_file
        self._headers = {"User-Agent": user_agent, "Accept": JSON}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None
        self._resources: list[Resource] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self.server,
            connector=Connector(self._ca_file),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            headers=self._headers,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("ApiClient is used outside its 'async with' block")
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send one request. Returns the decoded answer.

        Raises:
            ApiStatusError: the answer's status is 400 or more.
            aiohttp.ClientError: no answer.
            TimeoutError: no answer within 60 s.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept} | ({} if data is None else {"Content-Type": content_type})
        async with self._open_session.request(method, path, data=data, params=params, headers=headers) as response:
            answer = await response.read()
            if response.status >= 400:
                raise ApiStatusError(f"{method} {path}", response.status, _decoded(answer))
            return _decoded(answer)

    async def get(self, path: str, **params: str) -> JSONObject:
        """GET an object or one page of a list."""
        return _object(await self.request("GET", path, params=params))

    async def create(self, path: str, body: JSONObject) -> JSONObject:
        """POST to a collection or a subresource."""
        return _object(await self.request("POST", path, body))

    async def replace(self, path: str, body: JSONObject) -> JSONObject:
        """PUT."""
        return _object(await self.request("PUT", path, body))

    async def patch(self, path: str, body: JSONObject, *, content_type: str = MERGE_PATCH) -> JSONObject:
        """PATCH; by default a JSON merge patch (RFC 7386): ``None`` removes a field, lists are replaced."""
        return _object(await self.request("PATCH", path, body, content_type=content_type))

    async def delete(self, path: str, *, grace_seconds: int | None = None, uid: str | None = None) -> JSONObject:
        """DELETE; with ``uid``, only the object with that UID (409 otherwise)."""
        options: JSONObject = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        return _object(await self.request("DELETE", path, options))

    async def list_all(self, path: str, **params: str) -> list[JSONObject]:
        """All items of a collection, page by page. ``params`` such as ``fieldSelector`` and ``labelSelector``."""
        items, _ = await self.list_with_version(path, **params)
        return items

    async def list_with_version(self, path: str, **params: str) -> tuple[list[JSONObject], str]:
        """All items of a collection, and the resourceVersion from which to start a watch."""
        items: list[JSONObject] = []
        query = {"limit": str(LIST_PAGE), **params}
        while True:
            page = await self.get(path, **query)
            items += page["items"] or []
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return items, page["metadata"]["resourceVersion"]

    async def watch(self, path: str, version: str, **params: str) -> AsyncIterator[tuple[str, JSONObject]]:
        """(type, object) of each event after resourceVersion ``version``, until the server ends the watch.

        Raises:
            ApiStatusError: the watch was refused, or ended with an ERROR event (410: ``version`` is too old).
            aiohttp.ClientError: the connection broke.
        """
        query = {"watch": "1", "resourceVersion": version, **params}
        session = self._open_session
        endless = aiohttp.ClientTimeout(total=None)
        async with session.get(path, params=query, timeout=endless, read_bufsize=2**20) as response:
            if response.status >= 400:
                raise ApiStatusError(f"GET {path}", response.status, _decoded(await response.read()))
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = _decoded(line)
                    if event["type"] == "ERROR":
                        raise ApiStatusError(f"GET {path}", event["object"].get("code", 0), event["object"])
                    yield event["type"], event["object"]

    async def resources(self, *, refresh: bool = False) -> list[Resource]:
        """Every kind that the server serves, in every version; the preferred version of a group first."""
        if self._resources is None or refresh:
            found = await asyncio.gather(*(self.request("GET", path, accept=DISCOVERY) for path in ("/api", "/apis")))
            self._resources = [resource for groups in found for resource in _discovered(groups)]
        return self._resources

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of an object.

        Raises:
            LookupError: the server does not serve it.
        """
        for refresh in (False, True):
            for resource in await self.resources(refresh=refresh):
                if (resource.api_version, resource.kind) == (api_version, kind):
                    return resource
        raise LookupError(f"the API server serves no kind {kind} in apiVersion {api_version}")


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data.decode(errors="replace")


def _object(answer: Any) -> JSONObject:
    if not isinstance(answer, dict):
        raise TypeError(f"expected a JSON object, the API server sent {answer!r:.200}")
    return answer


def _discovered(groups: JSONObject) -> list[Resource]:
    return [
        Resource(
            group=group["metadata"].get("name", ""),
            version=version["version"],
            plural=resource["resource"],
            kind=resource["responseKind"]["kind"],
            namespaced=resource["scope"] == "Namespaced",
            verbs=frozenset(resource["verbs"]),
        )
        for group in groups["items"]
        for version in group["versions"]
        for resource in version.get("resources", ())
        if resource.get("responseKind")
    ]


async def in_parallel(calls: Iterable[Callable[[], Awaitable[T]]], limit: int = CONCURRENT_REQUESTS) -> list[T]:
    """Await calls, at most ``limit`` at a time. Returns results in the order of the calls. The first error cancels the rest."""
    waiting = list(enumerate(calls))[::-1]
    results: dict[int, T] = {}

    async def worker() -> None:
        while waiting:
            index, call = waiting.pop()
            results[index] = await call()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(waiting))):
                group.create_task(worker())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[index] for index in range(len(results))]


async def wait_until(condition: Callable[[], Awaitable[bool]], timeout: float = 30.0, interval: float = 0.05) -> None:
    """Check ``condition`` every ``interval`` seconds until it is true.

    Raises:
        TimeoutError: it did not become true within ``timeout`` seconds.
    """
    async with asyncio.timeout(timeout):
        while not await condition():  # noqa: ASYNC110 - the condition is the server's, nobody here could set an event
            await asyncio.sleep(interval)
