"""A scripted HTTP server for what no real API server does on demand: exact answers at exact moments."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from schedcache.testing import JSONObject, as_stored, node_manifest, pod_manifest

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(name: str, version: int, **fields: Any) -> JSONObject:
    return as_stored(pod_manifest(name, resource_version=version, **fields))


def node(name: str, version: int) -> JSONObject:
    return as_stored(node_manifest(name, resource_version=version))


def event(kind: str, obj: JSONObject) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error(code: int, message: str = "", **fields: Any) -> bytes:
    return event("ERROR", {"kind": "Status", "metadata": {}, "code": code, "message": message, **fields})


def listing(version: int, *items: JSONObject, more: str = "") -> Step:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "List", "metadata": metadata, "items": list(items) or None})

    return answer


def refusal(status: int, message: str = "no", **headers: str) -> Step:
    async def answer(_request: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": status, "message": message, "reason": ""}
        return web.json_response(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def stream(*chunks: bytes, then: str = "close") -> Step:
    """A watch that sends chunks, and then ends in order (close), breaks (reset) or falls silent (hang)."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "reset":
            request.transport.abort()
        return response

    return answer


class FakeApi:
    """Serves what it is told to, in turn: `lists[path]`, `watches[path]` and `probes[path]`; after the last step watches hang.

    A probe that nothing is said about is refused, as a path that the server does not have.

    Attributes:
        requests: (path, query) of all requests, with "watch", "list" or "probe" before them.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Step]] = defaultdict(list)
        self.watches: dict[str, list[Step]] = defaultdict(list)
        self.probes: dict[str, list[Step]] = defaultdict(list)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: list[str] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def asked(self, what: str, path: str = "/api/v1/pods") -> list[dict[str, str]]:
        return [query for kind, where, query in self.requests if (kind, where) == (what, path)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        what = "watch" if "watch" in request.query else "probe" if request.query.get("limit") == "1" else "list"
        self.requests.append((what, request.path, dict(request.query)))
        self.tokens.append(request.headers.get("Authorization", ""))
        steps = (self.watches if what == "watch" else self.lists)[request.path]
        if what == "probe":
            if steps := self.probes[request.path]:
                return await (steps.pop(0) if len(steps) > 1 else steps[0])(request)
            return await refusal(404, "not scripted")(request)
        if what == "watch":
            return await (steps.pop(0) if steps else stream(then="hang"))(request)
        # The last list stays what it is.
        return await (steps.pop(0) if len(steps) > 1 else steps[0])(request)
