"""The scheduler in a world of memory that a script moves: virtual time, scripted binds, everything remembered."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot, Stories
from schedcache.config import config_from_dict
from schedcache.framework import FitError
from schedcache.kube.watch.decoder import identify
from schedcache.kube.watch.kinds import KINDS, HeldObject
from schedcache.kube.watch.stats import KindStats
from schedcache.kube.watch.store import Listing, ObjectStore
from schedcache.model import Pod, PodCondition
from schedcache.plugins.default_plugins import default_registry
from schedcache.ports import ApiError, ConflictError, NoMetrics, NotFoundError, OutcomeUnknownError
from schedcache.queue import QueuedPodInfo
from schedcache.scheduling import PodStore, Scheduler, make_profiles
from schedcache.scheduling.scheduler import HOUSEKEEPING_SECONDS
from schedcache.testing.virtual_clock import VirtualClock

JSONObject = Mapping[str, Any]
_TURNS = 30
_MOST_ATTEMPTS = 1000


class ScriptedApi:
    """The Binder of a replay. A bind succeeds unless the script has an answer for the pod; no watch tells of it."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.posts: list[tuple[str, str]] = []
        self.bound: list[str] = []
        self.answers: dict[str, list[int]] = {}
        """Pod -> HTTP codes in turn, 0 = the answer is lost."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.posts.append((pod.full_name, node_name))
        await asyncio.sleep(0)
        codes = self.answers.get(pod.full_name)
        code = codes.pop(0) if codes else 201
        if code >= 300 or code == 0:
            raise _error(code, pod)
        found = self.pods.get((pod.namespace, pod.name))
        if found is None or found.uid != pod.uid:
            raise _error(404, pod)
        version = str(int(found.resource_version) + 1)
        self.pods[pod.namespace, pod.name] = replace(found, node_name=node_name, resource_version=version)
        self.bound.append(pod.full_name)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        await asyncio.sleep(0)
        return self.pods.get((namespace, name))


def _error(code: int, pod: Pod) -> ApiError:
    kinds: Mapping[int, type[ApiError]] = {0: OutcomeUnknownError, 404: NotFoundError, 409: ConflictError}
    kind = kinds.get(code, OutcomeUnknownError if code >= 500 else ApiError)
    return kind(f"the script answers {code} to the binding of {pod.full_name}", status=code)


class Notebook:
    """EventRecorder and StatusWriter of a replay."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        """(pod, reason, note)."""
        self.patches: list[tuple[str, PodCondition | None, str | None]] = []

    def event(self, regarding: Pod, type_: str, reason: str, action: str, note: str) -> None:
        self.events.append((regarding.full_name, reason, note))

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        self.patches.append((pod.full_name, condition, nominated_node_name))

    def forget(self, uid: str) -> None:
        """Nothing waits here."""


class ReplayWorld:
    """A scheduler with the profiles of a configuration, its default plugins, and validation on.

    Nothing runs by itself: `settle` lets the scheduler work off its queue, `advance` lets time pass.
    """

    def __init__(self, config: JSONObject | None = None) -> None:
        """`config`: a KubeSchedulerConfiguration; None is kube-scheduler's default. Raises ConfigError."""
        self.clock = VirtualClock()
        self.api = ScriptedApi()
        self.notebook = Notebook()
        self.rebuilds: list[str] = []
        self.attempts: list[str] = []
        """The pod of each scheduling attempt, in turn."""
        self.in_cycle: list[Callable[[Pod], None]] = []
        """Called in each attempt, while the pod is in flight: where a plugin acts."""
        self.cache = SchedulerCache(clock=self.clock, validate=True, stories=Stories())
        pods, objects = PodStore(), ClusterObjects(validate=True)
        frameworks, self.queue = make_profiles(
            config_from_dict(config).config.profiles or [],
            default_registry(),
            objects=objects,
            binder=self.api,
            pod_lister=pods.get,
            clock=self.clock,
        )
        self.scheduler = Scheduler(
            cache=self.cache,
            queue=self.queue,
            pods=pods,
            objects=objects,
            frameworks=frameworks,
            binder=self.api,
            status_writer=self.notebook,
            recorder=self.notebook,
            metrics=NoMetrics(),
            clock=self.clock,
            sleep=self._sleep,
            rng=random.Random(0),
            request_rebuild=self.rebuilds.append,
        )
        self._told: dict[tuple[str, str], JSONObject] = {}
        self._stores = {name: ObjectStore(kind, self.scheduler.handlers, KindStats()) for name, kind in KINDS.items()}
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def tell(self, change: str, obj: JSONObject) -> None:
        """A watch event: ADDED, MODIFIED or DELETED. Raises MalformedObjectError, KeyError for an unknown kind."""
        store = self._stores[obj["kind"]]
        if change == "DELETED":
            self._serve(obj, gone=True)
            store.delete(identify(obj).uid, missed=False)
        else:
            store.upsert(self._serve(obj))

    def tell_list(self, kind: str, items: list[JSONObject]) -> None:
        """A list: it replaces what was known of the kind."""
        store, listing = self._stores[kind], Listing()
        if kind == "Pod":
            self.api.pods.clear()
        for item in items:
            obj = self._serve({"kind": kind, **item})
            listing.objects[obj.uid] = obj
        for _ in store.replace(listing):
            pass
        store.synced()

    def _serve(self, obj: JSONObject, *, gone: bool = False) -> HeldObject:
        read = self._stores[obj["kind"]].read(obj)
        self._told[obj["kind"], read.uid] = obj
        if isinstance(read, Pod):
            self.api.pods.pop((read.namespace, read.name), None)
            if not gone:
                self.api.pods[read.namespace, read.name] = read
        return read

    def last_told(self, kind: str, name: str) -> JSONObject:
        """The object as the script gave it last. Raises KeyError."""
        for (of_kind, _), obj in reversed(self._told.items()):
            if of_kind == kind and obj["metadata"]["name"] == name:
                return obj
        raise KeyError(f"{kind} {name}")

    async def settle(self) -> None:
        """Try every pod that waits for an attempt, and let the bindings run as far as they get without time passing.

        Pods that are made active again and again stop it after a thousand attempts.
        """
        last = len(self.attempts) + _MOST_ATTEMPTS
        while len(self.attempts) < last and (info := self.queue.pop_nowait()) is not None:
            self.attempt(info)
            await self._turn()
        await self._turn()

    def attempt(self, info: QueuedPodInfo) -> str:
        """One scheduling cycle. Returns the node, "" for none; the binding has not begun when it returns."""
        self.attempts.append(info.pod.full_name)
        for act in self.in_cycle:
            act(info.pod)
        decision = self.scheduler.cycle.run(info)
        if decision is None:
            return ""
        self.scheduler.bindings.start(decision)
        return decision.node_name

    async def advance(self, seconds: float) -> None:
        """Let time pass a second at a time, with the scheduler's housekeeping in each."""
        left = seconds
        while left > 0:
            self.clock.advance(min(left, HOUSEKEEPING_SECONDS))
            left -= HOUSEKEEPING_SECONDS
            self.queue.flush_backoff_completed()
            self.queue.flush_unschedulable_leftover()
            self._wake()
            await self.scheduler.expiry.run_once()
            await self.settle()

    def snapshot(self) -> Snapshot:
        """The cluster as the next cycle would see it."""
        snapshot = Snapshot()
        self.cache.update_snapshot(snapshot)
        return snapshot

    def verdict(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Node -> the reasons that speak against it now; nodes that speak for themselves are left out."""
        framework = self.scheduler.frameworks[pod.scheduler_name]
        try:
            framework.schedule(pod, self.snapshot(), self.queue.nominated_pods_for_node, random.Random(0))
        except FitError as error:
            return {name: tuple(status.reasons) for name, status in error.diagnosis.statuses.items()}
        return {}

    def find_pod(self, full_name: str) -> Pod:
        """The pod as the API server has it. Raises KeyError."""
        namespace, _, name = full_name.rpartition("/")
        return self.api.pods[namespace or "default", name]

    def posts(self) -> Counter[str]:
        """Bind requests by pod."""
        return Counter(pod for pod, _ in self.api.posts)

    async def close(self) -> None:
        """End the bindings that are under way."""
        await self.scheduler.drain(0)

    async def _sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.clock.now + seconds, woken))
        await woken.wait()

    def _wake(self) -> None:
        for due, woken in self._sleepers:
            if due <= self.clock.now:
                woken.set()
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self.clock.now]

    async def _turn(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
