"""The scheduler cache: which pods hold what on which node, including decisions that are not yet confirmed."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from schedcache.cache.checks.pieces import Failures, batches, check_placed, check_shown, failures
from schedcache.cache.checks.validation import (
    check_entries,
    check_node,
    check_pod_states,
    check_snapshot,
    check_snapshot_itself,
)
from schedcache.cache.checks.validator import Validator, run
from schedcache.cache.errors import (
    AlreadyAddedError,
    AlreadyCachedError,
    CacheCorruptedError,
    InconsistentSnapshotError,
    NotAssumedError,
    NotExpiredError,
    NoUIDError,
    PodIsAssumedError,
    PodNotFoundError,
    SnapshotInUseError,
    UnknownNodeError,
    WrongNodeError,
)
from schedcache.cache.image_states import ImageStates
from schedcache.cache.node_entries import NodeEntries
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.node_tree import NodeTree
from schedcache.cache.pod_state import PodState
from schedcache.cache.snapshot import Snapshot, SnapshotChanges
from schedcache.cache.stories import PROCESS_STORIES, Stories
from schedcache.model import Node, Pod


class Dump(msgspec.Struct, frozen=True):
    """The whole cache at one moment: frozen NodeInfo objects, newest change first.

    `generation` rises with every change of a node or its pods, disappearances included.
    """

    nodes: dict[str, NodeInfo]
    assumed_pods: frozenset[str]
    generation: int


class SchedulerCache:
    """kube-scheduler 1.34's scheduler cache (the last with FinishBinding and a time to live).

    `ttl` in seconds: how long an unconfirmed assumed pod is kept after its binding finished, 0 = for ever.
    Nothing expires by itself: see `expired_pods`. `clock` gives seconds, monotonic. `validate` recomputes and compares everything
    after each call (see `Validator` for large clusters) and raises CacheCorruptedError on a difference, or passes it to
    `on_corruption`, which must not call the cache: then no call is cut short, and no further difference is reported before a `reset`.

    Methods may be called from any thread; the properties and `pod_states` give live data, to be read only while nobody changes
    it. A call that raises has changed nothing, unless it says otherwise; one about a cached pod raises PodNotOnNodeError if the
    pod's node does not count it. `cause` is for the stories: why a call was made; by default the object's resourceVersion.

    Raises ValueError for a time to live that is negative or not a number.
    """

    def __init__(
        self,
        ttl: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        validate: bool = False,
        stories: Stories = PROCESS_STORIES,
        on_corruption: Callable[[CacheCorruptedError], None] | None = None,
    ) -> None:
        if not 0 <= ttl < math.inf:
            raise ValueError(f"ttl: expected seconds, or 0 for no limit, got {ttl!r}")
        self._ttl = ttl
        self.validate = validate
        self.stories = stories
        self.pod_states: dict[str, PodState] = {}
        self.assumed_pods: dict[str, PodState] = {}
        """UID -> state, in the order of assumption."""
        self._clock = clock
        self._lock = threading.Lock()
        self._entries = NodeEntries()
        self._validator = Validator(clock, on_corruption)

    @property
    def ttl(self) -> float:
        return self._ttl

    @property
    def nodes(self) -> OrderedDict[str, NodeInfo]:
        """The live entries by name, most recently changed first; `dump` gives entries that do not change."""
        return self._entries.nodes

    @property
    def node_tree(self) -> NodeTree:
        return self._entries.tree

    @property
    def image_states(self) -> ImageStates:
        return self._entries.images

    def node_count(self) -> int:
        """The number of nodes, including those known only from their pods."""
        return len(self._entries.nodes)

    def pod_count(self) -> int:
        return len(self.pod_states)

    def get_node(self, name: str) -> Node | None:
        """The newest object of the node; None for one that the API does not have (any more)."""
        info = self._entries.nodes.get(name)
        return None if info is None else info.node

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
                raise AlreadyCachedError(f"pod {uid} ({pod.full_name}) is already in the cache")
            info = self._entries.place(pod)
            self.pod_states[uid] = self.assumed_pods[uid] = PodState(pod)
            self._done("assume_pod", uid, info, cause or pod.resource_version)

    def finish_binding(self, pod: Pod, cause: str = "") -> None:
        """The API has accepted the binding: the deadline runs from now on. Does nothing for a pod that is not assumed.

        Raises NoUIDError.
        """
        with self._lock:
            state = self.assumed_pods.get(_uid(pod))
            if state is not None:
                info = self._entries.holder(state.pod)
                state.binding_finished = True
                state.deadline = self._clock() + self.ttl if self.ttl else None
                self._done("finish_binding", pod.uid, info, cause or pod.resource_version)

    def forget_pod(self, pod: Pod, cause: str = "") -> None:
        """Withdraw an assumption. Raises NoUIDError, PodNotFoundError, WrongNodeError, NotAssumedError."""
        with self._lock:
            state = self._known(pod)
            cached = state.pod
            if cached.node_name != pod.node_name:
                raise WrongNodeError(f"pod {pod.uid} is cached on {cached.node_name!r}, not on {pod.node_name!r}")
            if pod.uid not in self.assumed_pods:
                raise NotAssumedError(f"pod {pod.uid} ({cached.full_name}) is confirmed and cannot be forgotten")
            self._drop("forget_pod", cached, cause)

    def add_pod(self, pod: Pod, cause: str = "") -> None:
        """The API shows the pod on its node: confirms an assumption, even on another node, or adds the pod.

        Raises NoUIDError, NoNodeNameError, AlreadyAddedError.
        """
        with self._lock:
            uid, left = _uid(pod), ""
            state = self.pod_states.get(uid)
            if state is None:
                info = self._entries.place(pod)
                self.pod_states[uid] = PodState(pod)
            elif uid in self.assumed_pods:
                left = state.pod.node_name
                info = self._entries.replace(state.pod, pod)
                del self.assumed_pods[uid]
                state.pod, state.deadline = pod, None
            else:
                raise AlreadyAddedError(f"pod {uid} ({pod.full_name}) is already confirmed")
            self._done("add_pod", uid, info, cause or pod.resource_version, left)

    def update_pod(self, old: Pod, new: Pod, cause: str = "") -> None:
        """A confirmed pod has changed. Another UID in `new` means a deletion and an addition seen as one change.

        Raises NoUIDError, PodNotFoundError, PodIsAssumedError, CacheCorruptedError if `new` is on another node than
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
            info = self._entries.replace(state.pod, new)
            state.pod = new
            self._done("update_pod", uid, info, cause or new.resource_version)

    def remove_pod(self, pod: Pod, cause: str = "") -> None:
        """The pod is gone; works for assumed pods too. An empty node name (a stale tombstone) is accepted.

        Raises NoUIDError, PodNotFoundError, CacheCorruptedError if the node is not the cached pod's.
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
        """Drop every assumed pod past its deadline, and return them. It does not ask the API, so it is not for live use."""
        with self._lock:
            expired = [state.pod for state in self.assumed_pods.values() if _expired(state, now)]
            for pod in expired:
                self._entries.holder(pod)
            for pod in expired:
                self._drop("expire_pod", pod, "", more=True)
            if expired and self.validate:
                self._validate(*{pod.node_name for pod in expired})
            return expired

    def add_node(self, node: Node, cause: str = "") -> None:
        """A node appears; pods that arrived before it, or outlived its last object, are counted on it.

        Raises NoNodeNameError.
        """
        with self._lock:
            self._done("add_node", "", self._entries.set_node(node), cause or node.resource_version)

    def update_node(self, old: Node | None, new: Node, cause: str = "") -> None:
        """A node has changed; an unknown one is added. `old` is ignored, since the cache has its own.

        Raises NoNodeNameError.
        """
        with self._lock:
            self._done("update_node", "", self._entries.set_node(new), cause or new.resource_version)

    def remove_node(self, node: Node, cause: str = "") -> None:
        """A node is gone. While it has pods, its entry stays without a node object, as a ghost.

        Raises UnknownNodeError; an entry without a node object becomes the most recently changed one all the same.
        """
        with self._lock:
            info = self._entries.nodes.get(node.name)
            if info is None:
                raise UnknownNodeError(f"node {node.name!r} is not in the cache")
            known = info.node is not None
            info = self._entries.remove_node(info)
            if not known:
                if self.validate:
                    self._validate(info.name)
                raise UnknownNodeError(f"node {node.name!r} is in the cache only because of its pods")
            self._done("remove_node", "", info, cause or node.resource_version)

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring a snapshot up to date; takes time in proportion to the nodes changed since its last update.

        Raises InconsistentSnapshotError if it disagreed with the node tree or could not be updated; it has been rebuilt by then.
        """
        with self._lock:
            self._apply(self._entries.changes(snapshot), snapshot)
            if self.validate:
                self._validator.after("update_snapshot", lambda: check_snapshot(self._entries, snapshot))

    def update_snapshot_in_pieces(self, snapshot: Snapshot, size: int = 200) -> Iterator[None]:
        """The same in pieces of `size` nodes, for a reader that must not block the event loop; shows the moment of the first piece.

        The snapshot must not be used before the iterator is exhausted. Raises ValueError for a size below 1,
        InconsistentSnapshotError if the snapshot has to be rebuilt, which its next update does, and SnapshotInUseError if
        another update came between two pieces.
        """
        if size < 1:
            raise ValueError(f"size: expected at least 1 node per piece, got {size}")
        with self._lock:
            changes = self._entries.changes(snapshot)
        try:
            yield from snapshot.apply_in_pieces(changes, size)
        except SnapshotInUseError:
            raise
        except Exception as error:  # however damage shows in the update, the snapshot cannot be trusted
            with self._lock:
                self._entries.refile()
            raise _inconsistent(error) from error
        if self.validate:
            with self._lock:
                self._validator.after("update_snapshot_in_pieces", lambda: check_snapshot_itself(snapshot))

    def check(self, snapshot: Snapshot | None = None) -> None:
        """Recompute and compare everything now; a snapshot is brought up to date first.

        Raises CacheCorruptedError, what `update_snapshot` raises, and SnapshotInUseError while an update in pieces is under way.
        """
        with self._lock:
            run(self._check)
            if snapshot is not None:
                if snapshot.half_updated:
                    raise SnapshotInUseError("an update of the snapshot in pieces is under way")
                changes = self._entries.changes(snapshot)
                behind = changes.generation != snapshot.generation or changes.order is not None
                if behind or changes.anew or snapshot.assumed:
                    self._apply(changes, snapshot)
                run(lambda: check_snapshot(self._entries, snapshot))

    def check_in_pieces(self, snapshots: Sequence[Snapshot] = (), size: int = 50) -> Iterator[Failures]:
        """The same as far as it can be done in pieces of `size` nodes, between which anything may change; gives what each found.

        Each node's sums are compared with its pods, each pod with its node, and each row of the snapshots, which may be
        behind, with its node.
        """
        parts: list[tuple[Iterable[str], int, Callable[[Iterable[str]], None]]] = [
            (self._entries.nodes, size, self._check_nodes),
            (self.pod_states, 20 * size, self._check_placed),
        ]
        parts += [(s.node_info_map, size, partial(check_shown, self._entries, s)) for s in snapshots]
        for names, at_once, check in parts:
            for batch in batches(names, at_once):
                with self._lock:
                    found = failures(check, batch)
                yield found

    def dump(self) -> Dump:
        """Everything, at this moment.

        Takes a fraction of a microsecond per node, and up to 10 if the counts of its images have changed since it was last shown.
        """
        with self._lock:
            return Dump(self._entries.frozen(), frozenset(self.assumed_pods), self._entries.generation)

    def reset(self, keep_assumed: Iterable[str] = ()) -> None:
        """Forget everything for a rebuild from the API, except the assumed pods with these UIDs.

        They have no node in the API. For those whose binding it has accepted that is odd, so they are past their deadline at once.
        Generations keep rising, and a snapshot's next update replaces everything.
        """
        with self._lock:
            kept = {uid: self.assumed_pods[uid] for uid in keep_assumed if uid in self.assumed_pods}
            self._entries = NodeEntries()
            self.pod_states, self.assumed_pods = dict(kept), kept
            for state in kept.values():
                self._entries.place(state.pod)
                if state.binding_finished:
                    state.deadline = self._clock()
            self.stories.append((self._clock(), "reset", "", "", 0, f"{len(kept)} assumed pods kept"))
            if self.validate:
                self._validator.start_over()
                self._validator.after("reset", self._check)

    def _apply(self, changes: SnapshotChanges, snapshot: Snapshot) -> None:
        """Raises InconsistentSnapshotError if the snapshot had to be rebuilt."""
        try:
            snapshot.apply(changes)
        except Exception as error:  # as in update_snapshot_in_pieces
            self._entries.refile()
            snapshot.apply(self._entries.changes(snapshot))
            raise _inconsistent(error) from error

    def _known(self, pod: Pod) -> PodState:
        state = self.pod_states.get(_uid(pod))
        if state is None:
            raise PodNotFoundError(f"pod {pod.uid} ({pod.full_name}) is not in the cache")
        return state

    def _drop(self, operation: str, cached: Pod, cause: str, more: bool = False) -> None:
        info = self._entries.unplace(cached)
        del self.pod_states[cached.uid]
        self.assumed_pods.pop(cached.uid, None)
        self._done(operation, cached.uid, info, cause, more=more)

    def _succeed(self, old: Pod, new: Pod, cause: str) -> None:
        """A pod with the same name and another UID replaces `old` (kubernetes/kubernetes#85726)."""
        known = self.pod_states.get(new.uid)
        if known is not None and new.uid not in self.assumed_pods:
            raise AlreadyAddedError(f"pod {new.uid} ({new.full_name}) is already confirmed")
        cause = cause or new.resource_version
        if not new.node_name:
            self._drop("remove_pod", old, cause)
            return
        left = self._entries.holder(known.pod).name if known is not None else ""
        self._drop("remove_pod", old, cause, more=True)
        if known is not None:
            info = self._entries.replace(known.pod, new)
            del self.assumed_pods[new.uid]
        else:
            info = self._entries.place(new)
        self.pod_states[new.uid] = PodState(new)
        self._done("add_pod", new.uid, info, cause, old.node_name, left)

    def _done(self, operation: str, uid: str, info: NodeInfo, cause: str, *left: str, more: bool = False) -> None:
        """Tell the story, and validate unless the call does `more`; `left` are the other nodes that it has changed."""
        generation = info.generation if info.name in self._entries.nodes else 0
        self.stories.append((self._clock(), operation, uid, info.name, generation, cause))
        if self.validate and not more:
            self._validate(info.name, *left)

    def _validate(self, *names: str) -> None:
        self._validator.after("change", self._check, lambda: self._check_nodes(names))

    def _check(self) -> None:
        check_pod_states(self.pod_states, self.assumed_pods, self.ttl, self._clock())
        check_entries(self._entries, self.pod_states)

    def _check_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            info = self._entries.nodes.get(name)
            if info is not None:
                check_node(self._entries, self.pod_states, info)

    def _check_placed(self, uids: Iterable[str]) -> None:
        check_placed(self._entries, self.pod_states, uids)


def _inconsistent(error: Exception) -> InconsistentSnapshotError:
    if isinstance(error, InconsistentSnapshotError):
        return error
    return InconsistentSnapshotError(f"the snapshot could not be updated: {type(error).__name__}: {error}")


def _uid(pod: Pod) -> str:
    if not pod.uid:
        raise NoUIDError(f"pod {pod.full_name} has no UID")
    return pod.uid


def _expired(state: PodState, now: float) -> bool:
    return state.binding_finished and state.deadline is not None and now > state.deadline
