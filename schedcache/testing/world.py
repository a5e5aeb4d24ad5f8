"""A scheduler in a world in memory: an API server made of a few dictionaries, virtual time, and a record of all that it writes."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any, Self

from schedcache.cache import CacheError, ClusterObjects, SchedulerCache, Snapshot, Stories
from schedcache.config import config_from_dict
from schedcache.framework import Extenders, Registry
from schedcache.model import Pod
from schedcache.plugins.default_binder import DefaultBinder
from schedcache.plugins.default_plugins import default_registry
from schedcache.plugins.priority_sort import PrioritySort
from schedcache.ports import Extender, Metrics, NoMetrics
from schedcache.scheduling import PodStore, Preemptions, Scheduler, make_profiles
from schedcache.scheduling.binding_cycle import MAX_BINDING
from schedcache.testing.memory_api import MemoryApi, Recorder
from schedcache.testing.virtual_clock import VirtualClock, settle

SCHEDULER_NAME = "schedcache"


class World:
    """A scheduler with its cache, queue and plugins, which checks itself after every change, and its surroundings.

        async with World(plugins=[MaintenanceWindow]) as world:
            world.add(make_node("a"), make_pod("web-0", cpu="500m"))
            await world.settle()
            assert world.node_of("web-0") == "a"

    Within `async with` it schedules; at the end of the block, its loop must still be running. Without it, nothing runs, and a
    test calls the parts.

    Attributes:
        clock: the time; `advance` lets it pass.
        api: the pods as an API server has them; also makes binds fail.
        recorder: the events and conditions that were written.
        cache: the scheduler's, as are `queue`, `objects` and `pods`.
        scheduler: with `handlers`, which take nodes and other objects, and `frameworks` by scheduler name.
        preemptions: the evictions under way, all of them through `api`.
        rebuilds: why everything was to be read again, in turn.
    """

    def __init__(  # noqa: PLR0913  what a world may be made of, all but the first by keyword
        self,
        config: Mapping[str, Any] | None = None,
        *,
        plugins: Iterable[type[Any]] = (),
        defaults: bool = True,
        extenders: Iterable[Extender] = (),
        observe: bool = False,
        api: MemoryApi | None = None,
        metrics: Metrics | None = None,
        max_binding: int = MAX_BINDING,
        canary: bool = False,
    ) -> None:
        """Make it.

        Args:
            config: a KubeSchedulerConfiguration. None: one profile, `schedcache`, with the default plugins and `plugins`.
            plugins: classes that profiles can name beside the default plugins.
            defaults: False, without `config`: the profile has `plugins` alone, in this order, and the default queue sort and
                binder if none of them is one.
            extenders: in the order of a configuration; `config` has none of its own here.
            observe: without profiles: it follows the cluster and schedules nothing.
            api: in place of a MemoryApi that always succeeds.
            metrics: takes the measurements; None for none.
            max_binding: bindings under way at the same time.
            canary: a contradiction in the cache is answered as in the program, by reading everything again, and not raised.

        Raises:
            ConfigError: of `config`.
            PluginSetError: the plugins of a profile do not make sense together.
        """
        known = list(plugins)
        configuration = config_from_dict(_profile(known, defaults=defaults) if config is None else config).config
        self.clock = VirtualClock(7_000_000.0)  # far from any clock that is not virtual: mixing the two shows at once
        self.api = api or MemoryApi()
        self.recorder = Recorder()
        self.rebuilds: list[str] = []
        self.pods = PodStore()
        contradicted = self._contradicted if canary else None
        self.cache = SchedulerCache(clock=self.clock, validate=True, on_corruption=contradicted, stories=Stories())
        self.objects = ClusterObjects(validate=True, on_corruption=contradicted)
        metrics = metrics or NoMetrics()
        self.preemptions = Preemptions(self.api, self.api.nominate, self.recorder, metrics)
        frameworks, self.queue = make_profiles(
            [] if observe else configuration.profiles,
            Registry({**default_registry(), **{plugin.name: plugin for plugin in known}}),
            objects=self.objects,
            binder=self.api,
            volume_writer=self.api,
            node_lister=self.cache.get_node,
            preemption=self.preemptions,
            percentage_of_nodes_to_score=configuration.percentage_of_nodes_to_score,
            pod_lister=self.pods.get,
            metrics=metrics,
            clock=self.clock,
            sleep=self.clock.sleep,
            extenders=Extenders(extenders, metrics=metrics, clock=self.clock),
        )
        self.scheduler = Scheduler(
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            objects=self.objects,
            frameworks=frameworks,
            binder=self.api,
            status_writer=self.recorder,
            recorder=self.recorder,
            metrics=metrics,
            clock=self.clock,
            sleep=self.clock.sleep,
            rng=random.Random(0),
            request_rebuild=self.rebuilds.append,
            preemptions=self.preemptions,
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
        assert not self._task.done(), "the loop ended before the end of the test"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.scheduler.drain(0)
        assert not self.queue.in_flight()

    def _contradicted(self, error: CacheError) -> None:
        self.scheduler.state.contradicted("validation", error)

    def add(self, *objects: Any) -> None:
        """Add objects of the model: pods to the API server, nodes and others as events of their watch."""
        for obj in objects:
            if isinstance(obj, Pod):
                self.api.add(obj)
            else:
                self.scheduler.handlers.on_add(type(obj).__name__, obj)

    def update(self, old: Any, new: Any) -> None:
        """Have a node or another object of the model change, as its watch tells of it; pods change by `api.change`."""
        self.scheduler.handlers.on_update(type(new).__name__, old, new)

    def delete(self, *objects: Any) -> None:
        """Have objects of the model go: pods at the API server, nodes and others as their watch tells of them."""
        for obj in objects:
            if isinstance(obj, Pod):
                self.api.delete(obj.uid)
            else:
                self.scheduler.handlers.on_delete(type(obj).__name__, obj, missed=False)

    async def settle(self) -> None:
        """Let the scheduler do all that it can without time passing."""
        await settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and let everything that waits for it happen at its time."""
        await self.clock.elapse(seconds)

    def pod(self, name: str) -> Pod:
        """The pod as the API server has it, by `namespace/name`, or by its name in `default`. Raises KeyError."""
        namespace, _, name = name.rpartition("/")
        return self.api.pods[namespace or "default", name]

    def node_of(self, name: str) -> str:
        """The node that the pod of that name is bound to, "" for none. Raises KeyError."""
        return self.pod(name).node_name

    def notes(self, name: str) -> list[str]:
        """The notes of the events about the pod of that name, in order. Raises KeyError."""
        return self.recorder.notes(self.pod(name).uid)

    def snapshot(self) -> Snapshot:
        """The cluster as the next cycle would see it."""
        snapshot = Snapshot()
        self.cache.update_snapshot(snapshot)
        return snapshot

    def verdict(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Node -> the reasons against it now, if the pod fits nowhere; empty if it fits somewhere."""
        framework = self.scheduler.frameworks[pod.scheduler_name]
        found = framework.evaluate(pod, self.snapshot(), self.queue.nominated_pods_for_node)
        if found.error is not None:
            raise found.error
        diagnosis = None if found.fits else found.diagnosis()
        return {} if diagnosis is None else {name: status.reasons for name, status in diagnosis.statuses.items()}

    def check_at_rest(self) -> None:
        """Nothing is assumed, nothing in flight, and the cache holds exactly what the API server has. Raises AssertionError."""
        assert self.cache.dump().assumed_pods == frozenset()
        assert self.queue.in_flight() == []
        assert self.queue.in_flight_events() == []
        assert len(self.scheduler.bindings) == 0
        cached = {uid: info.name for info in self.cache.dump().nodes.values() for uid in info.pods_by_uid}
        bound = {pod.uid: pod.node_name for pod in self.api.pods.values() if pod.node_name and not pod.finished}
        assert cached == bound


def _profile(plugins: list[type[Any]], *, defaults: bool) -> dict[str, Any]:
    names = [plugin.name for plugin in plugins]
    disabled = []
    if not defaults:
        disabled = ["*"]
        names += [
            default.name
            for default, method in ((PrioritySort, "sort_key"), (DefaultBinder, "bind"))
            if not any(hasattr(plugin, method) for plugin in plugins)
        ]
    sets = {"enabled": [{"name": name} for name in names], "disabled": [{"name": name} for name in disabled]}
    return {"profiles": [{"schedulerName": SCHEDULER_NAME, "plugins": {"multiPoint": sets}}]}
