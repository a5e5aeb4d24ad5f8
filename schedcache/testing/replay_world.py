"""The scheduler in a world in memory that a script drives: virtual time, scripted binds, everything recorded."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from schedcache.kube.watch.decoder import identify
from schedcache.kube.watch.kinds import KINDS, HeldObject
from schedcache.kube.watch.stats import KindStats
from schedcache.kube.watch.store import Listing, ObjectStore
from schedcache.model import PersistentVolume, PersistentVolumeClaim, Pod
from schedcache.ports import ApiError, ConflictError, NotFoundError, OutcomeUnknownError, RefusedError
from schedcache.queue import QueuedPodInfo
from schedcache.scheduling.scheduler import HOUSEKEEPING_SECONDS
from schedcache.testing.memory_api import MemoryApi
from schedcache.testing.virtual_clock import settle
from schedcache.testing.world import World

JSONObject = Mapping[str, Any]
_MOST_ATTEMPTS = 1000


class ScriptedApi(MemoryApi):
    """A bind succeeds unless the script has an answer for the pod; only the script reports its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.watching = False
        self.asked: Counter[str] = Counter()
        """Bind requests by pod."""
        self.bound: list[str] = []
        self.answers: dict[str, list[int]] = {}
        """Pod -> HTTP codes in turn, 0 = the answer is lost."""
        self.writes: list[str] = []
        """All requests that were to change something, in turn, as scripts put them."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.asked[pod.full_name] += 1
        self.writes.append(f"POST pods/{pod.name}/binding")
        codes = self.answers.get(pod.full_name)
        if codes and not 200 <= (code := codes.pop(0)) < 300:
            self.before_bind.append(lambda pod, _node: _raise(code, pod))
        await super().bind(pod, node_name)
        self.bound.append(pod.full_name)

    async def prebind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        self.writes.append(f"PATCH persistentvolumes/{volume.name} claimRef={claim.full_name}")
        return await super().prebind(volume, claim)

    async def select_node(self, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
        self.writes.append(f"PATCH persistentvolumeclaims/{claim.name} selected-node={node_name}")
        return await super().select_node(claim, node_name)

    def change(self, uid: str, **changes: object) -> Pod:
        return super().change(uid, **{"resource_version": self._after(self.by_uid(uid).resource_version), **changes})

    def _after(self, version: str) -> str:
        # Scripts have resourceVersions of their own, and their next event must not be older.
        return str(int(version) + 1)


def _raise(code: int, pod: Pod) -> None:
    kinds: Mapping[int, type[ApiError]] = {0: OutcomeUnknownError, 404: NotFoundError, 409: ConflictError}
    kind = kinds.get(code, OutcomeUnknownError if code >= 500 else RefusedError)
    raise kind(f"the script answers {code} to the binding of {pod.full_name}", status=code)


class ReplayWorld(World):
    """The world in memory, driven by a script.

    Nothing runs in the background: `settle` lets the scheduler work off its queue, `advance` lets time pass.
    """

    api: ScriptedApi

    def __init__(self, config: JSONObject | None = None) -> None:
        """`config`: a KubeSchedulerConfiguration; None is kube-scheduler's default. Raises ConfigError."""
        super().__init__(config or {}, api=ScriptedApi())
        self.attempts: list[str] = []
        """The pod of each scheduling attempt, in turn."""
        self.in_cycle: list[Callable[[Pod], None]] = []
        """Called in each attempt, while the pod is in flight: where a plugin acts."""
        self._told: dict[tuple[str, str], JSONObject] = {}
        self._stores = {name: ObjectStore(kind, self.scheduler.handlers, KindStats()) for name, kind in KINDS.items()}

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
            await settle()
        await settle()

    def attempt(self, info: QueuedPodInfo) -> str:
        """One scheduling cycle. Returns the node, "" for none; the binding has not begun when it returns."""
        self.attempts.append(info.pod.full_name)
        for act in self.in_cycle:
            act(info.pod)
        decision = self.scheduler.cycle.run(info, at_any_price=True)
        if decision is None:
            return ""
        self.scheduler.bindings.start(decision)
        return decision.node_name

    async def advance(self, seconds: float) -> None:
        """Let time pass a second at a time, with the scheduler's housekeeping in each."""
        left = seconds
        while left > 0:
            await self.clock.elapse(min(left, HOUSEKEEPING_SECONDS))
            left -= HOUSEKEEPING_SECONDS
            self.queue.flush_backoff_completed()
            self.queue.flush_unschedulable_leftover()
            await self.scheduler.expiry.run_once()
            await self.settle()

    async def close(self) -> None:
        """End the bindings that are under way."""
        await self.scheduler.drain(0)
