"""A scheduler in a world of memory: a small API server, virtual time, and plugins enough to fill nodes."""

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any, Self

from msgspec.structs import replace

from schedcache.cache import ClusterObjects, SchedulerCache
from schedcache.config import profile_with_defaults
from schedcache.config.types import KubeSchedulerProfile, Plugin, Plugins, PluginSet
from schedcache.framework import Code, EventHint, Handle, Registry, Status, unschedulable
from schedcache.model import Node, Pod
from schedcache.ports import ConflictError, NoMetrics, NotFoundError
from schedcache.scheduling import PodStore, Scheduler, make_profiles


class Clock:
    """Virtual time. It starts far from any wall clock, so that mixing the two shows at once."""

    def __init__(self) -> None:
        self.now = 7_000_000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, next(self._numbers), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking each sleeper at its instant and everything it sets off with it."""
        end = self.now + seconds
        while self._sleepers and (first := min(self._sleepers))[0] <= end:
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            if not first[2].done():
                first[2].set_result(None)
            await settle()
        self.now = end
        await settle()


async def settle(turns: int = 30) -> None:
    """Let everything run that does not wait for time."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Fit:
    """CPU alone, row by row."""

    name = "Fit"
    per_node = True

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        free = node_info.allocatable.milli_cpu - node_info.requested.milli_cpu
        return None if pod.requests.resource.milli_cpu <= free else unschedulable("Insufficient cpu")

    def events_to_register(self) -> list[Any]:
        return [
            EventHint("AssignedPod", ("Delete", "UpdatePodScaleDown")),
            EventHint("TargetPod", ("UpdatePodScaleDown",)),
            EventHint("Node", ("Add", "UpdateNodeAllocatable")),
        ]


class Sort:
    name = "Sort"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def sort_key(self, info: Any) -> Any:
        return (-info.pod.priority, info.timestamp_ns)


class Gates:
    name = "Gates"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unschedulable("gated") if pod.scheduling_gates else None

    def events_to_register(self) -> list[Any]:
        return [EventHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",))]


class Bind:
    name = "Bind"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._binder = handle.binder

    async def bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        await self._binder.bind(pod, node_name)
        return None


class Patience:
    """A Permit plugin that lets pods of odd priority wait; whom it rejected may come again when a node grows."""

    name = "Patience"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def permit(self, state: Any, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 10.0) if pod.priority % 2 else (None, 0.0)

    def events_to_register(self) -> list[Any]:
        return [EventHint("Node", ("Add", "UpdateNodeAllocatable"))]


class Recorder:
    """Both the EventRecorder and the StatusWriter: remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.patches: list[tuple[str, Any, str | None]] = []

    def event(self, regarding: Pod, type_: str, reason: str, action: str, note: str) -> None:
        self.events.append((regarding.uid, reason, note))

    def patch_status(self, pod: Pod, condition: Any, nominated_node_name: str | None = None) -> None:
        self.patches.append((pod.uid, condition, nominated_node_name))

    def forget(self, uid: str) -> None: ...

    def reasons(self, uid: str) -> list[str]:
        return [reason for who, reason, _ in self.events if who == uid]


class Api:
    """Pods as a server keeps them. `send` says when its watch tells: at once, or when a test calls `deliver`."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.posts: list[tuple[str, str]] = []
        self.reads = 0
        self.before_bind: list[Callable[[Pod, str], Any]] = []
        self.after_bind: list[Callable[[Pod, str], Any]] = []
        self.on_get: list[Exception] = []
        self.watching = True
        self._pending: list[Callable[[], None]] = []
        self._version = itertools.count(1000)
        self.handlers: Any = None

    def version(self) -> str:
        return str(next(self._version))

    # ---- as people and controllers use it

    def create(self, uid: str, name: str = "", *, cpu: str = "100m", node: str = "", **spec: Any) -> Pod:
        pod = make_pod(uid, name or uid, cpu=cpu, node=node, version=self.version(), **spec)
        self.pods[pod.namespace, pod.name] = pod
        self._tell(lambda: self.handlers.on_add("Pod", pod))
        return pod

    def change(self, uid: str, **changes: Any) -> Pod:
        old = self.by_uid(uid)
        new = replace(old, resource_version=self.version(), **changes)
        self.pods[new.namespace, new.name] = new
        self._tell(lambda: self.handlers.on_update("Pod", old, new))
        return new

    def delete(self, uid: str, *, missed: bool = False, last_known: Pod | None = None) -> None:
        pod = self.by_uid(uid)
        del self.pods[pod.namespace, pod.name]
        told = last_known or pod
        self._tell(lambda: self.handlers.on_delete("Pod", told, missed=missed))

    def by_uid(self, uid: str) -> Pod:
        return next(pod for pod in self.pods.values() if pod.uid == uid)

    def node_of(self, uid: str) -> str:
        return self.by_uid(uid).node_name

    def deliver(self) -> None:
        pending, self._pending = self._pending, []
        for tell in pending:
            tell()

    def _tell(self, tell: Callable[[], None]) -> None:
        if self.watching:
            self.deliver()
            tell()
        else:
            self._pending.append(tell)

    # ---- the Binder

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.posts.append((pod.uid, node_name))
        await asyncio.sleep(0)
        if self.before_bind:
            await run(self.before_bind.pop(0), pod, node_name)
        self._bind(pod, node_name)
        if self.after_bind:
            await run(self.after_bind.pop(0), pod, node_name)

    def _bind(self, pod: Pod, node_name: str) -> None:
        found = self.pods.get((pod.namespace, pod.name))
        if found is None:
            raise NotFoundError(f"pods {pod.name!r} not found", status=404)
        if found.uid != pod.uid or found.node_name or found.terminating:
            raise ConflictError(f"pod {pod.name} is already assigned to node, deleted or another", status=409)
        self.change(pod.uid, node_name=node_name)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        self.reads += 1
        await asyncio.sleep(0)
        if self.on_get:
            raise self.on_get.pop(0)
        return self.pods.get((namespace, name))


async def run(act: Callable[[Pod, str], Any], pod: Pod, node: str) -> None:
    result = act(pod, node)
    if asyncio.iscoroutine(result):
        await result


def raises(error: Exception) -> Callable[[Pod, str], None]:
    def act(pod: Pod, node: str) -> None:
        raise error

    return act


def make_pod(
    uid: str,
    name: str,
    *,
    cpu: str = "100m",
    node: str = "",
    version: str = "1",
    scheduler: str = "schedcache",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    return Pod.from_dict(
        {
            "metadata": {
                "uid": uid,
                "name": name,
                "namespace": "default",
                "resourceVersion": version,
                "labels": labels,
            },
            "spec": {
                "schedulerName": scheduler,
                "nodeName": node,
                "priority": priority,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                **spec,
            },
            "status": status or {},
        }
    )


def make_node(name: str, cpu: str = "4", version: str = "1", uid: str = "", **spec: Any) -> Node:
    return Node.from_dict(
        {
            "metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": version},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
        }
    )


class World:
    """The scheduler under test with all that surrounds it."""

    def __init__(
        self,
        *,
        extra: dict[str, Any] | None = None,
        observe: bool = False,
        metrics: Any = None,
        max_binding: int = 128,
        api: Api | None = None,
        canary: bool = False,
    ) -> None:
        """`canary`: what validation finds is answered as in the program, instead of raised."""
        self.clock = Clock()
        self.api = api or Api()
        self.recorder = Recorder()
        self.rebuilds: list[str] = []
        self.pods = PodStore()
        self.metrics = metrics or Metrics()
        extra = extra or {}
        registry = Registry({"Fit": Fit, "Sort": Sort, "Bind": Bind, "Gates": Gates, **extra})
        names = ["Gates", "Sort", "Fit", *extra, "Bind"]
        plugins = Plugins(
            multi_point=PluginSet(enabled=[Plugin(name=name) for name in names], disabled=[Plugin(name="*")])
        )
        contradicted = (lambda error: self.scheduler.state.contradicted("validation", error)) if canary else None
        self.cache = SchedulerCache(ttl=30.0, clock=self.clock, validate=True, on_corruption=contradicted)
        objects = ClusterObjects(validate=True, on_corruption=contradicted)
        profile = profile_with_defaults(KubeSchedulerProfile(scheduler_name="schedcache", plugins=plugins))
        frameworks, self.queue = make_profiles(
            [] if observe else [profile],
            registry,
            objects=objects,
            binder=self.api,
            pod_lister=self.pods.get,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.scheduler = Scheduler(
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            objects=objects,
            frameworks=frameworks,
            binder=self.api,
            status_writer=self.recorder,
            recorder=self.recorder,
            metrics=self.metrics,
            clock=self.clock,
            sleep=self.clock.sleep,
            rng=random.Random(1),
            request_rebuild=self.rebuilds.append,
            max_binding=max_binding,
        )
        self.api.handlers = self.scheduler.handlers
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.scheduler.run())
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        assert not self._task.done(), "the loop ended by itself"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.scheduler.drain(0)
        assert not self.queue.in_flight()

    def add_node(self, name: str, cpu: str = "4") -> Node:
        node = make_node(name, cpu, version=self.api.version())
        self.scheduler.handlers.on_add("Node", node)
        return node

    def requested(self, name: str) -> int:
        info = self.cache.dump().nodes.get(name)
        return 0 if info is None else info.requested.milli_cpu

    def check_at_rest(self) -> None:
        """Nothing assumed, nothing in flight, and the cache holds exactly what the API has."""
        assert self.cache.dump().assumed_pods == frozenset()
        assert self.queue.in_flight() == []
        assert self.queue.in_flight_events() == []
        assert len(self.scheduler.bindings) == 0
        cached = {uid: info.name for info in self.cache.dump().nodes.values() for uid in info.pods_by_uid}
        bound = {pod.uid: pod.node_name for pod in self.api.pods.values() if pod.node_name and not pod.finished}
        assert cached == bound


class Metrics(NoMetrics):
    """Remembers what the tests ask for."""

    def __init__(self) -> None:
        self.doubts: list[str] = []
        self.errors: list[str] = []
        self.attempts: list[str] = []

    def bind_doubt(self, outcome: str) -> None:
        self.doubts.append(str(outcome))

    def cache_error(self, kind: str) -> None:
        self.errors.append(kind)

    def schedule_attempt(self, profile: str, result: str, seconds: float) -> None:
        self.attempts.append(result)
