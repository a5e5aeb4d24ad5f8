"""The scheduler cache: which pods hold what on which node, the decisions not confirmed yet included."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import msgspec

from schedcache.cache.errors import (
    AlreadyAddedError,
    AlreadyCachedError,
    CacheCorruptedError,
    InconsistentSnapshotError,
    NoNodeNameError,
    NotAssumedError,
    NotExpiredError,
    NoUIDError,
    PodIsAssumedError,
    PodNotFoundError,
    PodNotOnNodeError,
    UnknownNodeError,
    WrongNodeError,
)
from schedcache.cache.image_states import ImageStates, summaries
from schedcache.cache.node_info import NodeInfo, next_generation
from schedcache.cache.node_tree import NodeTree
from schedcache.cache.snapshot import Snapshot, SnapshotChanges
from schedcache.cache.stories import PROCESS_STORIES, Stories
from schedcache.cache.validation import Validator
from schedcache.model import Node, Pod


class PodState:
    """A cached pod. `deadline` (clock's seconds, None = never) counts once the binding has finished."""

    __slots__ = ("binding_finished", "deadline", "pod")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.deadline: float | None = None
        self.binding_finished = False


class Dump(msgspec.Struct, frozen=True):
    """The whole cache at one moment: frozen NodeInfo objects, newest change first.

    `generation` rises with every change of a node or its pods, disappearances included.
    """

    nodes: dict[str, NodeInfo]
    assumed_pods: frozenset[str]
    generation: int


class SchedulerCache:
    """kube-scheduler 1.34's scheduler cache (the last with FinishBinding and a time to live).

    `ttl` in seconds: how long an assumed pod is kept after its binding finished without being confirmed, 0 = for ever.
    Nothing expires by itself: see `expired_pods`. `clock` gives seconds. `validate` recomputes and compares everything
    after each call (see `Validator` for large clusters) and raises CacheCorruptedError on a difference.

    Methods may be called from any thread. A call that raises has changed nothing, unless it says so. `cause` is what a
    story tells about why a call was made; by default the resourceVersion of the object.
    """

    def __init__(
        self,
        ttl: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        validate: bool = False,
        stories: Stories = PROCESS_STORIES,
    ) -> None:
        self.ttl = ttl
        self.validate = validate
        self.stories = stories
        self.nodes: OrderedDict[str, NodeInfo] = OrderedDict()
        """A doubly linked list by name: the most recently changed node first."""
        self.node_tree = NodeTree()
        self.image_states = ImageStates()
        self.pod_states: dict[str, PodState] = {}
        self.assumed_pods: dict[str, PodState] = {}
        """UID -> state, in the order of assumption."""
        self._clock = clock
        self._lock = threading.Lock()
        self._epoch = object()
        self._gone_at = 0
        self._validator = Validator()

    def node_count(self) -> int:
        """Nodes, those known through pods alone included."""
        return len(self.nodes)

    def pod_count(self) -> int:
        return len(self.pod_states)

    def get_pod(self, pod: Pod) -> Pod:
        """The newest object of this UID. Raises NoUIDError, PodNotFoundError."""
        return self._known(pod).pod

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Raises NoUIDError."""
        return _uid(pod) in self.assumed_pods

    def assume_pod(self, pod: Pod, cause: str = "") -> None:
        """Count a pod on its node before the API knows. Raises NoUIDError, NoNodeNameError, AlreadyCachedError."""
        with self._lock:
            uid = _uid(pod)
            if uid in self.pod_states:
                raise AlreadyCachedError(f"pod {uid} ({pod.full_name}) is in the cache already")
            info = self._place(pod)
            self.pod_states[uid] = self.assumed_pods[uid] = PodState(pod)
            self._done("assume_pod", uid, info, cause or pod.resource_version)

    def finish_binding(self, pod: Pod, cause: str = "") -> None:
        """The API has accepted the binding: the deadline runs from now on. Nothing for a pod that is not assumed.

        Raises NoUIDError.
        """
        with self._lock:
            state = self.assumed_pods.get(_uid(pod))
            if state is not None:
                state.binding_finished = True
                state.deadline = self._clock() + self.ttl if self.ttl else None
                self._done("finish_binding", pod.uid, self._holder(state.pod), cause or pod.resource_version)

    def forget_pod(self, pod: Pod, cause: str = "") -> None:
        """Take an assumption back. Raises NoUIDError, PodNotFoundError, WrongNodeError, NotAssumedError."""
        with self._lock:
            state = self._known(pod)
            cached = state.pod
            if cached.node_name != pod.node_name:
                raise WrongNodeError(f"pod {pod.uid} is cached on {cached.node_name!r}, not on {pod.node_name!r}")
            if pod.uid not in self.assumed_pods:
                raise NotAssumedError(f"pod {pod.uid} ({cached.full_name}) is confirmed and cannot be forgotten")
            self._drop("forget_pod", cached, cause)

    def add_pod(self, pod: Pod, cause: str = "") -> None:
        """The API shows the pod on its node: confirms an assumption, on whichever node, or adds the pod.

        Raises NoUIDError, NoNodeNameError, AlreadyAddedError.
        """
        with self._lock:
            uid = _uid(pod)
            state = self.pod_states.get(uid)
            if state is None:
                info = self._place(pod)
                self.pod_states[uid] = PodState(pod)
            elif uid in self.assumed_pods:
                info = self._replace(state.pod, pod)
                del self.assumed_pods[uid]
                state.pod, state.deadline = pod, None
            else:
                raise AlreadyAddedError(f"pod {uid} ({pod.full_name}) is confirmed already")
            self._done("add_pod", uid, info, cause or pod.resource_version)

    def update_pod(self, old: Pod, new: Pod, cause: str = "") -> None:
        """A confirmed pod has changed. Another UID in `new` is a deletion and an addition seen as one change.

        Raises NoUIDError, PodNotFoundError, PodIsAssumedError, CacheCorruptedError when `new` is on another node than
        the cached pod, and for another UID what `add_pod` raises.
        """
        with self._lock:
            uid = _uid(old)
            _uid(new)
            state = self._known(old)
            if uid in self.assumed_pods:
                raise PodIsAssumedError(f"pod {uid} ({new.full_name}) is only assumed and cannot be updated")
            if new.uid != uid:
                self._succeed(state.pod, new, cause)
                return
            if new.node_name != state.pod.node_name:
                raise CacheCorruptedError(
                    f"pod {uid} ({new.full_name}) is cached on {state.pod.node_name!r} but its update is on {new.node_name!r}"
                )
            info = self._replace(state.pod, new)
            state.pod = new
            self._done("update_pod", uid, info, cause or new.resource_version)

    def remove_pod(self, pod: Pod, cause: str = "") -> None:
        """The pod is gone; works for assumed pods too. An empty node name (a stale tombstone) is accepted.

        Raises NoUIDError, PodNotFoundError, CacheCorruptedError for another node than the cached pod's.
        """
        with self._lock:
            cached = self._known(pod).pod
            if pod.node_name and pod.node_name != cached.node_name:
                raise CacheCorruptedError(
                    f"pod {pod.uid} ({pod.full_name}) is cached on {cached.node_name!r} but was deleted on {pod.node_name!r}"
                )
            self._drop("remove_pod", cached, cause or pod.resource_version)

    def expired_pods(self, now: float) -> list[Pod]:
        """Assumed pods whose binding finished more than `ttl` before `now`; changes nothing."""
        with self._lock:
            return [state.pod for state in self.assumed_pods.values() if _expired(state, now)]

    def expire_pod(self, pod: Pod, cause: str = "") -> None:
        """Drop an assumed pod past its deadline. Raises NoUIDError, PodNotFoundError, NotAssumedError, NotExpiredError."""
        with self._lock:
            state = self._known(pod)
            if pod.uid not in self.assumed_pods:
                raise NotAssumedError(f"pod {pod.uid} ({state.pod.full_name}) is confirmed and never expires")
            if not _expired(state, self._clock()):
                raise NotExpiredError(f"pod {pod.uid} ({state.pod.full_name}) is not past its deadline")
            self._drop("expire_pod", state.pod, cause)

    def cleanup_expired(self, now: float) -> list[Pod]:
        """Drop every assumed pod past its deadline, and say which: blind to what the API knows, so not for live use."""
        with self._lock:
            expired = [state.pod for state in self.assumed_pods.values() if _expired(state, now)]
            for pod in expired:
                self._drop("expire_pod", pod, "")
            return expired

    def add_node(self, node: Node, cause: str = "") -> None:
        """A node appears; pods that arrived before it, or outlived its last object, are counted on it."""
        with self._lock:
            self._set_node("add_node", node, cause)

    def update_node(self, old: Node | None, new: Node, cause: str = "") -> None:
        """A node has changed; an unknown one is added. `old` does not count: what the cache holds is the better old object."""
        with self._lock:
            self._set_node("update_node", new, cause)

    def remove_node(self, node: Node, cause: str = "") -> None:
        """A node is gone. While it has pods its entry stays without node object, a ghost.

        Raises UnknownNodeError; for an entry without node object that still makes it the most recently changed one.
        """
        with self._lock:
            info = self.nodes.get(node.name)
            if info is None:
                raise UnknownNodeError(f"node {node.name!r} is not in the cache")
            known = info.node
            info = self._thawed(info)
            if known is None:
                info.touch()
                self._changed(info)
                if self.validate:
                    self._validator.after_call(self, info)
                raise UnknownNodeError(f"node {node.name!r} is in the cache only for its pods")
            info.set_node(None, ())
            self.node_tree.remove(node.name)
            self.image_states.replace_node(known, None, info.image_refs)
            self._done("remove_node", "", self._changed(info), cause or node.resource_version)

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring a snapshot up to date; costs time in proportion to the nodes changed since it last was.

        Raises InconsistentSnapshotError when it disagreed with the node tree; it has been rebuilt by then.
        """
        with self._lock:
            try:
                snapshot.apply(self._changes(snapshot))
            except InconsistentSnapshotError:
                self._refile()
                snapshot.apply(self._changes(snapshot))
                raise
            if self.validate:
                self._validator.after_update(self, snapshot)

    def update_snapshot_in_pieces(self, snapshot: Snapshot, size: int = 200) -> Iterator[None]:
        """The same for a reader that may not stop the loop: the moment is that of the first piece, each then takes `size` nodes.

        The snapshot is of no use before the iterator is exhausted. Raises InconsistentSnapshotError at its end.
        """
        with self._lock:
            changes = self._changes(snapshot)
        yield
        yield from snapshot.apply_in_pieces(changes, size)

    def dump(self) -> Dump:
        """Everything, at this moment; costs a fraction of a microsecond a node."""
        with self._lock:
            nodes = {info.name: self._frozen(info) for info in list(self.nodes.values())}
            return Dump(nodes, frozenset(self.assumed_pods), max(self._newest(), self._gone_at))

    def reset(self, keep_assumed: Iterable[str] = ()) -> None:
        """Forget everything for a rebuild from the API, but for the assumed pods of these UIDs.

        Generations go on rising, and a snapshot's next update brings everything anew.
        """
        with self._lock:
            kept = {uid: self.assumed_pods[uid] for uid in keep_assumed if uid in self.assumed_pods}
            self.nodes, self.node_tree, self.image_states = OrderedDict(), NodeTree(), ImageStates()
            self.pod_states, self.assumed_pods = dict(kept), kept
            self._epoch = object()
            self._gone_at = next_generation()
            for state in kept.values():
                self._place(state.pod)
            self.stories.append((self._clock(), "reset", "", "", 0, f"{len(kept)} assumed pods kept"))
            if self.validate:
                self._validator.after_call(self, None)

    def _known(self, pod: Pod) -> PodState:
        state = self.pod_states.get(_uid(pod))
        if state is None:
            raise PodNotFoundError(f"pod {pod.uid} ({pod.full_name}) is not in the cache")
        return state

    def _newest(self) -> int:
        return next(iter(self.nodes.values())).generation if self.nodes else 0

    def _thawed(self, info: NodeInfo) -> NodeInfo:
        """The entry to change in place: a copy if others look at the present one."""
        if info.frozen:
            info = self.nodes[info.name] = info.copy()
        return info

    def _entry(self, name: str) -> NodeInfo:
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        return self._thawed(info)

    def _changed(self, info: NodeInfo) -> NodeInfo:
        """To the head of the list; an entry without node and pods goes."""
        if info.node is None and not info.pods_by_uid:
            del self.nodes[info.name]
            self._gone_at = next_generation()
        else:
            self.nodes.move_to_end(info.name, last=False)
        return info

    def _place(self, pod: Pod) -> NodeInfo:
        _require_node_name(pod)
        info = self._entry(pod.node_name)
        info.add_pod(pod)
        return self._changed(info)

    def _holder(self, pod: Pod) -> NodeInfo:
        info = self.nodes.get(pod.node_name)
        if info is None:
            raise PodNotOnNodeError(
                f"pod {pod.uid} ({pod.full_name}) is cached on node {pod.node_name!r}, which has no entry"
            )
        return info

    def _unplace(self, pod: Pod) -> NodeInfo:
        info = self._thawed(self._holder(pod))
        info.remove_pod(pod)
        return self._changed(info)

    def _replace(self, old: Pod, new: Pod) -> NodeInfo:
        info = self._holder(old)
        if old.node_name != new.node_name or (info.node is None and len(info.pods_by_uid) == 1):
            # A ghost's entry ends with its last pod, even when that comes back at once, as in kube-scheduler.
            _require_node_name(new)
            self._unplace(old)
            return self._place(new)
        info = self._thawed(info)
        info.replace_pod(old, new)
        return self._changed(info)

    def _drop(self, operation: str, cached: Pod, cause: str) -> None:
        info = self._unplace(cached)
        del self.pod_states[cached.uid]
        self.assumed_pods.pop(cached.uid, None)
        self._done(operation, cached.uid, info, cause)

    def _succeed(self, old: Pod, new: Pod, cause: str) -> None:
        """A pod of the same name but another UID in the place of `old` (kubernetes/kubernetes#85726)."""
        known = self.pod_states.get(new.uid)
        if known is not None and new.uid not in self.assumed_pods:
            raise AlreadyAddedError(f"pod {new.uid} ({new.full_name}) is confirmed already")
        self._drop("remove_pod", old, cause or new.resource_version)
        if not new.node_name:
            return
        if known is not None:
            info = self._replace(known.pod, new)
            del self.assumed_pods[new.uid]
        else:
            info = self._place(new)
        self.pod_states[new.uid] = PodState(new)
        self._done("add_pod", new.uid, info, cause or new.resource_version)

    def _set_node(self, operation: str, node: Node, cause: str) -> None:
        info = self._entry(node.name)
        refs = self.image_states.replace_node(info.node, node, info.image_refs)
        info.set_node(node, refs)
        self.node_tree.set(node.name, node.zone_key)
        self._done(operation, "", self._changed(info), cause or node.resource_version)

    def _done(self, operation: str, uid: str, info: NodeInfo, cause: str) -> None:
        generation = info.generation if info.name in self.nodes else 0
        self.stories.append((self._clock(), operation, uid, info.name, generation, cause))
        if self.validate:
            self._validator.after_call(self, info)

    def _frozen(self, info: NodeInfo) -> NodeInfo:
        """The entry as others may see it: never changed again, its image counts those of now."""
        version = self.image_states.version
        ghost = info.node is None and bool(info.image_refs)  # its records may have been given up without a new version
        if info.frozen and info.images_version == version and not ghost:
            return info
        if info.images_version != version or ghost:
            shown = summaries(info.image_refs)
            if info.frozen and shown != info.image_states:
                info = self.nodes[info.name] = info.copy()
            info.image_states, info.images_version = shown, version
        info.frozen = True
        return info

    def _changes(self, snapshot: Snapshot) -> SnapshotChanges:
        following = snapshot.epoch is self._epoch
        since = snapshot.generation if following else -1
        held = snapshot.node_info_map
        changed: list[NodeInfo] = []
        new_nodes = 0
        for info in self.nodes.values():
            if info.generation <= since:
                break
            if info.node is not None:
                changed.append(info)
                new_nodes += info.name not in held
        gone: list[str] = []
        if not following or len(held) + new_nodes > len(self.node_tree):
            gone = [name for name in held if name not in self.node_tree]
        return SnapshotChanges(
            infos=[self._frozen(info) for info in reversed(changed)],
            removed=gone,
            order=self.node_tree.list() if new_nodes or gone or not following else None,
            num_nodes=len(self.node_tree),
            generation=max(self._newest(), snapshot.generation),
            epoch=self._epoch,
        )

    def _refile(self) -> None:
        """Make the node tree anew from the nodes."""
        self.node_tree = NodeTree()
        for info in reversed(self.nodes.values()):
            if info.node is not None:
                self.node_tree.set(info.name, info.node.zone_key)


def _uid(pod: Pod) -> str:
    if not pod.uid:
        raise NoUIDError(f"pod {pod.full_name} has no UID")
    return pod.uid


def _require_node_name(pod: Pod) -> None:
    if not pod.node_name:
        raise NoNodeNameError(f"pod {pod.uid} ({pod.full_name}) has no node name, so no node can count it")


def _expired(state: PodState, now: float) -> bool:
    return state.binding_finished and state.deadline is not None and now > state.deadline
