"""A sink that keeps what it is told and checks every call, and event sources on a real API server behind a fault proxy."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf.source import KopfSource
from schedcache.kube.settings import KopfSettings, WatchSettings
from schedcache.kube.watch.reflector import Reflector
from schedcache.testing import Cluster, FaultProxy

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
PATHS = {"Pod": "/api/v1/pods", "Node": "/api/v1/nodes"}


class RecordingSink:
    """Holds what an EventSink is told; a call that contradicts what is held is a fault of the source."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = defaultdict(dict, {"Pod": {}, "Node": {}})
        self.names: set[str] = set()
        self.log: list[tuple[str, str, str]] = []
        self.added: Counter[str] = Counter()
        self.missed: set[str] = set()
        self.malformed: list[Any] = []
        self.synced: list[str] = []
        self.rebuilds = 0
        self.faults: list[str] = []
        self.raise_once: Callable[[str, Any], bool] | None = None
        self._changed = asyncio.Event()

    def on_add(self, kind: str, obj: Any) -> None:
        self._expect(obj.uid not in self.held[kind], f"{obj.name} was added twice")
        self._expect(self._key(kind, obj) not in self.names, f"two {obj.name} at once")
        self.added[obj.uid] += 1
        self._note("add", kind, obj)
        self.held[kind][obj.uid] = obj
        self.names.add(self._key(kind, obj))

    def on_update(self, kind: str, old: Any, new: Any) -> None:
        self._expect(self.held[kind].get(old.uid) is old, f"{old.name} was updated from an object that was not told")
        self._expect(old.uid == new.uid, f"{old.name} changed its UID")
        self._expect(int(new.resource_version) > int(old.resource_version), f"{old.name} went back in time")
        self._note("update", kind, new)
        self.held[kind][new.uid] = new

    def on_delete(self, kind: str, obj: Any, *, missed: bool) -> None:
        self._expect(self.held[kind].get(obj.uid) is obj, f"{obj.name} was deleted, but was not held so")
        self._note("delete", kind, obj)
        del self.held[kind][obj.uid]
        self.names.discard(self._key(kind, obj))
        if missed:
            self.missed.add(obj.uid)

    def on_synced(self, kind: str) -> None:
        self._expect(kind not in self.synced, f"{kind} was synced twice")
        self.synced.append(kind)

    def on_malformed(self, kind: str, error: Any) -> None:
        self.malformed.append(error)

    def on_rebuild(self, objects: Any) -> None:
        self.rebuilds += 1
        self.held.update({kind: {obj.uid: obj for obj in found} for kind, found in objects.items()})
        self.names = {self._key(kind, obj) for kind, found in objects.items() for obj in found}
        self._changed.set()

    def versions(self) -> dict[str, dict[str, str]]:
        return {kind: {o.uid: o.resource_version for o in self.held[kind].values()} for kind in PATHS}

    def _key(self, kind: str, obj: Any) -> str:
        return f"{kind}/{getattr(obj, 'namespace', '')}/{obj.name}"

    def _note(self, what: str, kind: str, obj: Any) -> None:
        if self.raise_once is not None and self.raise_once(what, obj):
            self.raise_once = None
            raise RuntimeError("the sink fails, as a test wants it")
        self.log.append((what, obj.name, obj.uid))

    def _expect(self, condition: bool, fault: str) -> None:
        if not condition:
            self.faults.append(fault)


class World:
    """A source at work, the cluster it watches, and the proxy between them."""

    def __init__(self, kind: str, cluster: Cluster, proxy: FaultProxy, source: Any, sink: RecordingSink) -> None:
        self.kind = kind
        self.cluster = cluster
        self.proxy = proxy
        self.source = source
        self.sink = sink
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.source.run())

    async def synced(self, timeout: float = 30) -> None:
        """Wait until the source has listed everything; it is started now unless it was before."""
        if self.task is None:
            self.start()
        await self.until(self.source.has_synced, timeout)

    async def until(self, condition: Callable[[], bool], timeout: float = 20) -> None:
        async with asyncio.timeout(timeout):
            while not condition():
                assert self.task is not None
                assert not self.task.done(), self.task
                await asyncio.sleep(0.01)

    async def truth(self) -> dict[str, dict[str, str]]:
        found = {}
        for kind, path in PATHS.items():
            params = {"fieldSelector": UNFINISHED} if kind == "Pod" else {}
            items = await self.cluster.list_all(path, **params)
            found[kind] = {i["metadata"]["uid"]: i["metadata"]["resourceVersion"] for i in items}
        return found

    async def agrees(self, timeout: float = 20) -> None:
        """Wait until the sink holds exactly what the API server has, in the same versions."""
        truth = await self.truth()
        try:
            await self.until(lambda: self.sink.versions() == truth, timeout)
        except TimeoutError:
            assert self.sink.versions() == truth
        assert self.sink.faults == []

    async def watching(self) -> list[Any]:
        """The watches of both kinds, once they are open."""
        await self.until(lambda: all(len(self.watches(kind)) == 1 for kind in PATHS))
        return [*self.watches("Pod"), *self.watches("Node")]

    def watches(self, kind: str = "Pod") -> list[Any]:
        return [w for w in self.proxy.watches if w.request.path == PATHS[kind]]


def make_source(
    kind: str, transport: Transport, sink: RecordingSink, settings: Mapping[str, Any] = NO_SETTINGS, **options: Any
) -> Any:
    source, make = (Reflector, WatchSettings) if kind == "reflector" else (KopfSource, KopfSettings)
    quick = {"sweep_interval_seconds": 0.5, "sweep_grace_seconds": 0.3}
    return source(transport, sink, settings=make(**{**quick, **settings}), **options)


@contextlib.asynccontextmanager
async def open_world(kind: str, cluster: Cluster, proxy: FaultProxy, **options: Any) -> AsyncIterator[World]:
    sink = RecordingSink()
    async with Transport(load_credentials(proxy.kubeconfig)) as transport:
        world = World(kind, cluster, proxy, make_source(kind, transport, sink, **options), sink)
        try:
            yield world
        finally:
            if world.task is not None:
                world.task.cancel()
                await asyncio.wait([world.task])
    assert sink.faults == []
