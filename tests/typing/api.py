"""What an embedder and an author of plugins write with the public names: checked by `make types`, run by nobody.

A name that goes, a parameter that is renamed and a type that is narrowed break this file before they break theirs.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, assert_type

import numpy as np
import numpy.typing as npt

from schedcache.app import Ports, Program, Settings, StopSettings, assembled, configuration_of, run_until, served
from schedcache.cache import (
    AlreadyAddedError,
    CacheError,
    ClusterObjects,
    Columns,
    Dump,
    NodeInfo,
    PodNotFoundError,
    SchedulerCache,
    Snapshot,
    Stories,
    Story,
)
from schedcache.config import (
    ConfigError,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LoadedConfig,
    config_from_dict,
    load_config,
    to_yaml,
)
from schedcache.framework import (
    SKIP,
    BindPlugin,
    Code,
    CycleState,
    EnqueueExtensions,
    EventHint,
    ExplainsPlugin,
    FilterPlugin,
    FitError,
    Framework,
    Handle,
    NormalizeScorePlugin,
    PermitPlugin,
    PodNominator,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    Registry,
    ReservePlugin,
    RowView,
    ScheduleResult,
    ScorePlugin,
    Status,
    Verdicts,
    WaitingPod,
    WatchesKinds,
    unresolvable,
    unschedulable,
)
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf.source import KopfSource
from schedcache.kube.settings import WatchSettings
from schedcache.kube.watch.reflector import Reflector
from schedcache.model import MalformedObjectError, Node, Pod, PodCondition, Resource, parse_quantity
from schedcache.plugins.default_plugins import default_registry, installed_registry
from schedcache.ports import (
    Binder,
    EventRecorder,
    EventSink,
    EventSource,
    NoMetrics,
    OutcomeUnknownError,
    RefusedError,
    StatusWriter,
    UnavailableError,
)
from schedcache.queue import Nominator, QueuedPodInfo, SchedulingQueue
from schedcache.scheduling import PodStore, Scheduler, make_cache_sink, make_profiles
from schedcache.simulation import Answer, InputError, WhatIf, parse_objects, simulate
from schedcache.testing import (
    Cluster,
    ControlPlane,
    FaultProxy,
    VirtualClock,
    World,
    make_node,
    make_pod,
    node_manifest,
    pod_manifest,
    wait_until,
)


def objects_from_json(raw: bytes, obj: Mapping[str, Any]) -> Pod | None:
    try:
        pod = Pod.from_json(raw)
    except MalformedObjectError as error:
        assert_type(error.field, str)
        return None
    assert_type(Node.from_dict(obj).allocatable, Resource)
    assert_type(pod.requests.resource.milli_cpu, int)
    assert_type(pod.with_node("a"), Pod)
    assert_type(parse_quantity("100m"), int)
    return pod


def a_cache(pod: Pod, node: Node) -> None:
    cache = SchedulerCache(ttl=30.0, clock=lambda: 0.0, validate=True, stories=Stories(100))
    cache.add_node(node)
    cache.assume_pod(pod, cause="decided")
    cache.finish_binding(pod)
    cache.add_pod(pod)
    try:
        cache.remove_pod(pod)
    except (AlreadyAddedError, PodNotFoundError) as error:
        assert_type(error.kind, str)
    except CacheError:
        cache.reset()
    assert_type(cache.expired_pods(0.0), list[Pod])
    assert_type(cache.dump(), Dump)
    assert_type(cache.stories.of(uid=pod.uid), Iterator[Story])
    cache.check()


def snapshots(cache: SchedulerCache, pods: Sequence[Pod], nodes: Sequence[Node]) -> list[str]:
    built = Snapshot.build(pods, nodes)
    built.assume(pods[0].with_node("a"))
    built.forget_all()
    kept = Snapshot()
    cache.update_snapshot(kept)
    for _ in cache.update_snapshot_in_pieces(kept, size=100):
        assert kept.half_updated
    assert_type(kept.node_info_list, list[NodeInfo])
    columns = assert_type(kept.columns, Columns)
    free = columns.allocatable - columns.requested
    assert_type(columns.allocatable, npt.NDArray[np.int64])
    assert free.shape == columns.requested.shape
    return [columns.names[row] for row in columns.changed_since(columns.version)]


class PerNode:
    """A plugin for one node at a time, as docs/plugins.md begins."""

    name = "PerNode"
    per_node = True

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        assert_type(handle.cluster_objects, ClusterObjects)

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        if node_info.node is not None and node_info.node.annotations.get("example.com/maintenance"):
            return unresolvable("node(s) were about to be serviced")
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:
        return 100 - len(node_info.pods)


class Everywhere:
    """A plugin that takes part in every extension point."""

    name = "Everywhere"
    kinds: ClassVar[Sequence[str]] = ("PersistentVolumeClaim",)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle

    def sort_key(self, info: QueuedPodInfo) -> tuple[int, str]:
        return -info.pod.priority, info.pod.name

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unschedulable("held back") if pod.scheduling_gates else None

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult | Status | None:
        state[self.name] = pod.requests
        return PreFilterResult(frozenset({"a"})) if pod.spec.node_selector else SKIP

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        full = view.requested("cpu") + pod.requests.resource.milli_cpu > view.allocatable("cpu")
        return Verdicts(full.astype(np.int16), (None, unschedulable("node(s) were full")))

    def explain(self, state: CycleState, pod: Pod, view: RowView) -> str:
        return f"{view.name(0)} is full"

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, rejected: Mapping[str, Status]
    ) -> tuple[str | None, Status]:
        return None, Status(Code.UNSCHEDULABLE)

    def pre_score(self, state: CycleState, pod: Pod, view: RowView) -> Status | None:
        return None

    def score(self, state: CycleState, pod: Pod, view: RowView) -> npt.NDArray[np.int64]:
        return view.allocatable("cpu") - view.requested("cpu")

    def normalize_score(self, state: CycleState, pod: Pod, scores: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return scores * 100 // max(int(scores.max()), 1)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        del state[self.name]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        for waiting in self._handle.waiting_pods:
            assert_type(waiting, WaitingPod).allow(self.name)
        return Status(Code.WAIT), 30.0

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return SKIP

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def events_to_register(self) -> Sequence[EventHint]:
        return [EventHint("Node", ("Add", "UpdateNodeAllocatable")), EventHint("Pod", ("Delete",), by_spec=True)]


def it_is_a_plugin_of_each_kind(plugin: Everywhere) -> None:
    _sort: QueueSortPlugin = plugin
    _pre_enqueue: PreEnqueuePlugin = plugin
    _pre_filter: PreFilterPlugin = plugin
    _filter: FilterPlugin = plugin
    _explains: ExplainsPlugin = plugin
    _post_filter: PostFilterPlugin = plugin
    _pre_score: PreScorePlugin = plugin
    _score: ScorePlugin = plugin
    _normalize: NormalizeScorePlugin = plugin
    _reserve: ReservePlugin = plugin
    _permit: PermitPlugin = plugin
    _pre_bind: PreBindPlugin = plugin
    _bind: BindPlugin = plugin
    _post_bind: PostBindPlugin = plugin
    _hints: EnqueueExtensions = plugin
    _kinds: WatchesKinds = plugin


def a_framework(profile: KubeSchedulerProfile, pod: Pod, snapshot: Snapshot) -> str:
    registry = Registry({**default_registry(), "PerNode": PerNode, "Everywhere": Everywhere})
    registry.register("Again", PerNode)
    nominations: PodNominator = Nominator()
    framework = Framework(profile, registry, Handle(cluster_objects=ClusterObjects(), nominator=nominations))
    try:
        result = framework.schedule(pod, snapshot, nominations.nominated_pods_for_node, random.Random(0))
    except FitError as error:
        return assert_type(error.message(), str)
    return assert_type(result, ScheduleResult).node_name


def configurations(text: str) -> KubeSchedulerConfiguration:
    try:
        loaded = assert_type(load_config(text, "config.yaml"), LoadedConfig)
    except ConfigError:
        return config_from_dict(None).config
    assert_type(to_yaml(loaded.config), str)
    return loaded.config


def what_if(objects: Sequence[Mapping[str, Any]], pod: Mapping[str, Any], text: str) -> bool:
    told = assert_type(simulate(objects, pod, {"profiles": [{"schedulerName": "mine"}]}), dict[str, Any])
    try:
        cluster = WhatIf(list(parse_objects(text, "cluster.yaml")), configurations(""))
    except InputError:
        return False
    answer = assert_type(cluster.ask([cluster.take_out("default/web-0")], 20), Answer)
    return answer.fits and bool(told["feasible"])


class Simulator:
    """Binder, recorder and writer of a simulator."""

    async def bind(self, pod: Pod, node_name: str) -> None: ...

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        return None

    def event(
        self, regarding: Pod, type_: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None: ...

    def patch_status(
        self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None
    ) -> None: ...

    def forget(self, uid: str) -> None: ...


def a_scheduler(world: Simulator, profile: KubeSchedulerProfile) -> Scheduler:
    _binder: Binder = world
    _recorder: EventRecorder = world
    _writer: StatusWriter = world
    pods, objects, clock = PodStore(), ClusterObjects(), lambda: 0.0
    frameworks, queue = make_profiles(
        [profile], installed_registry(), objects=objects, binder=world, pod_lister=pods.get, clock=clock
    )
    assert_type(frameworks, dict[str, Framework])
    assert_type(queue, SchedulingQueue)
    scheduler = Scheduler(
        cache=SchedulerCache(),
        queue=queue,
        pods=pods,
        objects=objects,
        frameworks=frameworks,
        binder=world,
        status_writer=world,
        recorder=world,
        metrics=NoMetrics(),
        clock=clock,
        sleep=asyncio.sleep,
        rng=random.Random(0),
        request_rebuild=print,
    )
    _sink: EventSink = scheduler.handlers
    return scheduler


async def a_bind(binder: Binder, pod: Pod) -> str:
    try:
        await binder.bind(pod, "a")
    except RefusedError as error:
        return f"not bound: {error}"
    except UnavailableError:
        return "not bound: nobody was asked"
    except OutcomeUnknownError:
        found = await binder.get_pod(pod.namespace, pod.name)
        return found.node_name if found is not None else ""
    return "a"


async def sources(cache: SchedulerCache) -> None:
    sink = make_cache_sink(cache, ClusterObjects(), PodStore())
    async with Transport(load_credentials("kubeconfig")) as transport:
        for source in (Reflector(transport, sink, kinds=("Pod", "Node")), KopfSource(transport, sink)):
            _source: EventSource = source
            await source.run()


async def the_whole(stop: asyncio.Event) -> int:
    settings = Settings(
        configuration=configuration_of(Path("config.yaml"), "mine"),
        port=0,
        observe=True,
        watch=WatchSettings(page_limit=100),
        stop=StopSettings(drain_seconds=5.0),
    )
    async with assembled(settings) as program, served(program) as ports:
        assert_type(ports, Ports)
        return await run_until(assert_type(program, Program), stop)


async def a_test_in_memory() -> None:
    async with World(plugins=[PerNode]) as world:
        world.add(make_node("a", annotations={"example.com/maintenance": "planned"}), make_node("b"))
        world.add(make_pod("web-0", cpu="500m"))
        await world.settle()
        await world.advance(30.0)
        assert_type(world.node_of("web-0"), str)
        assert_type(world.clock, VirtualClock)


async def a_test_with_an_api_server() -> None:
    async with ControlPlane() as control_plane, Cluster(control_plane) as cluster:
        await cluster.create_node(node_manifest("a", zone="z"))
        await cluster.create_pods([pod_manifest("p", requests={"cpu": "1"})])
        async with FaultProxy(control_plane) as proxy:
            assert_type(proxy, FaultProxy)

        async def so() -> bool:
            return bool(await cluster.list_pods("default"))

        await wait_until(so, 10)


def every_node(view: RowView) -> Iterator[tuple[str, NodeInfo]]:
    for row in range(len(view)):
        yield view.name(row), view.node_info(row)
