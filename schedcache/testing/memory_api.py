"""An API server in memory, as far as a scheduler needs one: it keeps pods, binds them, reports changes, and can be made to fail."""

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from schedcache.model import SELECTED_NODE_ANNOTATION, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition
from schedcache.ports import ConflictError, EventSink, NotFoundError

Act = Callable[[Pod, str], Awaitable[None] | None]
"""Called with the pod and the node of a bind; what it raises is the bind's outcome."""


class MemoryApi:
    """Pods as a server keeps them, and the Binder, the VolumeWriter and the Evictor of a scheduler.

    Of volumes and claims it keeps nothing: what is written to them is taken as it is, and told. What a volume controller would do then
    is for the test to tell.

    Attributes:
        pods: by namespace and name.
        posts: (UID, node) of every bind that was requested, in order.
        reads: how often a pod was read.
        volume_writes: (volume, claim) or (claim, node) of each, in turn.
        before_bind: each is called in one bind, in turn, before it is carried out: to delay it, or to refuse it.
        after_bind: as `before_bind`, but after it is carried out and before the answer: to lose the answer.
        on_get: raised by the next reads, in turn.
        evictions: UID of every pod that was to be evicted, in turn, and before it that of its preemptor when it was nominated.
        before_evict: as `before_bind`, for evictions.
        grace: evicted pods are terminating until somebody deletes them; otherwise they are gone at once.
        watching: changes are reported at once; otherwise when `deliver` is called, or with the next change that is reported.
        handlers: take the changes; set by the `World`.
    """

    handlers: EventSink

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.posts: list[tuple[str, str]] = []
        self.reads = 0
        self.volume_writes: list[tuple[str, str]] = []
        self.before_bind: list[Act] = []
        self.after_bind: list[Act] = []
        self.on_get: list[Exception] = []
        self.evictions: list[str] = []
        self.before_evict: list[Act] = []
        self.grace = False
        self.watching = True
        self._pending: list[Callable[[], None]] = []
        self._versions = itertools.count(1000)

    def version(self) -> str:
        """The next resourceVersion."""
        return str(next(self._versions))

    # ---- as people and controllers use it

    def add(self, pod: Pod) -> Pod:
        """Create a pod. Returns it as stored, with a resourceVersion from here."""
        stored = replace(pod, resource_version=self.version())
        self.pods[stored.namespace, stored.name] = stored
        self._tell(lambda: self.handlers.on_add("Pod", stored))
        return stored

    def change(self, uid: str, **changes: object) -> Pod:
        """Change fields of the model's Pod, such as `node_name` and `phase`. Returns it as stored. Raises KeyError."""
        old = self.by_uid(uid)
        new = replace(old, **{"resource_version": self.version(), **changes})
        self.pods[new.namespace, new.name] = new
        self._tell(lambda: self.handlers.on_update("Pod", old, new))
        return new

    def delete(self, uid: str, *, missed: bool = False, last_known: Pod | None = None) -> None:
        """Delete a pod. Raises KeyError.

        Args:
            uid: of the pod.
            missed: no watch saw the deletion, a list showed it.
            last_known: the last state as the watch reports it; None for the stored one.
        """
        pod = self.by_uid(uid)
        del self.pods[pod.namespace, pod.name]
        told = last_known or pod
        self._tell(lambda: self.handlers.on_delete("Pod", told, missed=missed))

    def by_uid(self, uid: str) -> Pod:
        """The pod as stored. Raises KeyError."""
        for pod in self.pods.values():
            if pod.uid == uid:
                return pod
        raise KeyError(f"no pod has the UID {uid!r}")

    def node_of(self, uid: str) -> str:
        """The node that a pod is bound to, "" for none. Raises KeyError."""
        return self.by_uid(uid).node_name

    def deliver(self) -> None:
        """Report the changes that were held back while it was not `watching`."""
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
        """Raises NotFoundError, ConflictError, and whatever `before_bind` and `after_bind` raise."""
        self.posts.append((pod.uid, node_name))
        await asyncio.sleep(0)
        if self.before_bind:
            await _act(self.before_bind.pop(0), pod, node_name)
        self._bind(pod, node_name)
        if self.after_bind:
            await _act(self.after_bind.pop(0), pod, node_name)

    def _bind(self, pod: Pod, node_name: str) -> None:
        found = self.pods.get((pod.namespace, pod.name))
        if found is None:
            raise NotFoundError(f"pods {pod.name!r} not found", status=404)
        if found.uid != pod.uid or found.node_name or found.terminating:
            raise ConflictError(f"pod {pod.name} is already assigned to node, deleted or another", status=409)
        self.change(pod.uid, node_name=node_name)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod as stored, None if there is none. Raises what is in `on_get`."""
        self.reads += 1
        await asyncio.sleep(0)
        if self.on_get:
            raise self.on_get.pop(0)
        return self.pods.get((namespace, name))

    # ---- the VolumeWriter

    async def prebind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Takes it as written."""
        self.volume_writes.append((volume.name, claim.name))
        await asyncio.sleep(0)
        stored = replace(volume, resource_version=self._after(volume.resource_version))
        self._tell(lambda: self.handlers.on_update("PersistentVolume", volume, stored))
        return stored

    async def select_node(self, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
        """Takes it as written."""
        self.volume_writes.append((claim.name, node_name))
        await asyncio.sleep(0)
        annotations = {**claim.annotations, SELECTED_NODE_ANNOTATION: node_name}
        stored = replace(claim, annotations=annotations, resource_version=self._after(claim.resource_version))
        self._tell(lambda: self.handlers.on_update("PersistentVolumeClaim", claim, stored))
        return stored

    def _after(self, _version: str) -> str:
        return self.version()

    # ---- the Evictor

    async def nominate(self, pod: Pod, node_name: str) -> None:
        """Raises NotFoundError."""
        self.evictions.append(pod.uid)
        await asyncio.sleep(0)
        found = self.pods.get((pod.namespace, pod.name))
        if found is None or found.uid != pod.uid:
            raise NotFoundError(f"pods {pod.name!r} not found", status=404)
        self.change(pod.uid, nominated_node_name=node_name)

    async def evict(self, victim: Pod, condition: PodCondition) -> bool:
        """Raises whatever `before_evict` raises."""
        self.evictions.append(victim.uid)
        await asyncio.sleep(0)
        if self.before_evict:
            await _act(self.before_evict.pop(0), victim, victim.node_name)
        found = self.pods.get((victim.namespace, victim.name))
        if found is None or found.uid != victim.uid:
            return False
        self.change(victim.uid, conditions=(*found.conditions, condition), deletion_timestamp="2026-01-05T12:00:00Z")
        if not self.grace:
            self.delete(victim.uid)
        return True


async def _act(act: Act, pod: Pod, node_name: str) -> None:
    result = act(pod, node_name)
    if inspect.isawaitable(result):
        await result


class Recorder:
    """Both the EventRecorder and the StatusWriter of a scheduler: remembers all calls.

    Attributes:
        events: (UID of the pod, reason, note), in order.
        patches: (UID, condition, node nominated or None), in turn.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.patches: list[tuple[str, PodCondition | None, str | None]] = []

    def event(
        self, regarding: Pod, type_: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None:
        self.events.append((regarding.uid, reason, note))

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        self.patches.append((pod.uid, condition, nominated_node_name))

    def forget(self, uid: str) -> None:
        """Does nothing: no write waits here."""

    def reasons(self, uid: str) -> list[str]:
        """Of the events of a pod."""
        return [reason for who, reason, _ in self.events if who == uid]

    def notes(self, uid: str) -> list[str]:
        """Of the events of a pod."""
        return [note for who, _, note in self.events if who == uid]
