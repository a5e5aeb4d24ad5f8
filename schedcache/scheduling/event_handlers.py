"""Events of the cluster, routed to cache and queue: the sink of every event source."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import structlog

from schedcache.cache import CacheError, ClusterObjects
from schedcache.model import MalformedObjectError, Node, Pod
from schedcache.model.objects import ClusterObject
from schedcache.ports import ALL, WILDCARD, ClusterEvent, KubernetesObject
from schedcache.queue.events import ADD, DELETE, NODE_ADD, NODE_DELETE, UPDATE, cluster_event, node_update_events
from schedcache.scheduling.pod_events import PodEvents
from schedcache.scheduling.state import SchedulingState

POD = "Pod"
NODE = "Node"
_REBUILT = ClusterEvent(WILDCARD, (ALL,), "Rebuilt")
_log = structlog.get_logger(__name__)


class EventHandlers:
    """The EventSink of a scheduler.

    If cache and events contradict each other, the cache is no longer trusted: that is counted and logged, and everything is
    requested to be read again. Any other exception goes to the source, which does the same.
    """

    def __init__(
        self,
        state: SchedulingState,
        pods: PodEvents,
        objects: ClusterObjects,
    ) -> None:
        self._state = state
        self._pods = pods
        self.objects = objects
        self._nodes: dict[str, Node] = {}
        self._synced: set[str] = set()
        objects.on_restored = self._restored

    @property
    def synced_kinds(self) -> frozenset[str]:
        """The kinds whose first complete list has been applied."""
        return frozenset(self._synced)

    def on_add(self, kind: str, obj: KubernetesObject) -> None:
        self._apply(kind, ADD, self._add, obj)

    def on_update(self, kind: str, old: KubernetesObject, new: KubernetesObject) -> None:
        self._apply(kind, UPDATE, self._update, old, new)

    def on_delete(self, kind: str, obj: KubernetesObject, *, missed: bool) -> None:
        self._apply(kind, DELETE, self._delete, obj)

    def on_end_read(self, pod: Pod) -> None:
        """A pod was read live, and is finished or gone."""
        self._apply(POD, DELETE, lambda _kind, ended: self._pods.end(ended), pod)

    def on_synced(self, kind: str) -> None:
        self._synced.add(kind)

    def on_malformed(self, kind: str, error: MalformedObjectError) -> None:
        self._state.metrics.malformed_object(kind)
        _log.warning(
            "ignoring an object that cannot be read",
            kind=kind,
            name=error.name,
            field=error.field,
            problem=error.problem,
        )

    def _apply(self, kind: str, action: str, handle: Callable[..., None], *objects: Any) -> None:
        started = self._state.clock()
        try:
            handle(kind, *objects)
        except CacheError as error:
            self._state.contradicted(f"{kind} {action}", error)
        self._state.metrics.event_handled(kind + action, self._state.clock() - started)

    def _add(self, kind: str, obj: Any) -> None:
        if kind == POD:
            self._pods.add(obj)
        elif kind == NODE:
            self._add_node(obj)
        else:
            self.objects.add(kind, obj)
            self._state.queue.move(cluster_event(kind, ADD), None, obj)

    def _update(self, kind: str, old: Any, new: Any) -> None:
        if kind == POD:
            self._pods.update(new)
        elif kind == NODE:
            self._add_node(new)
        else:
            self.objects.update(kind, new)
            self._state.queue.move(cluster_event(kind, UPDATE), old, new)

    def _delete(self, kind: str, obj: Any) -> None:
        if kind == POD:
            self._pods.delete(obj)
        elif kind == NODE:
            self._delete_node(obj)
        else:
            self.objects.remove(kind, obj)
            self._state.queue.move(cluster_event(kind, DELETE), obj, None)

    def _restored(self, kind: str, assumed: ClusterObject, held: ClusterObject) -> None:
        """A volume that was assumed to be taken is free again: pods that found none must learn of it, as of any change."""
        self._state.queue.move(cluster_event(kind, UPDATE), assumed, held)

    def _add_node(self, node: Node) -> None:
        held = self._nodes.get(node.name)
        if held is not None and held.uid != node.uid:
            self._delete_node(held)
            held = None
        self._nodes[node.name] = node
        if held is None:
            self._state.cache.add_node(node)
            self._state.queue.move(NODE_ADD, None, node)
            return
        self._state.cache.update_node(held, node)
        for event in node_update_events(held, node):
            self._state.queue.move(event, held, node)

    def _delete_node(self, node: Node) -> None:
        """The queue comes first, so that hints that look at the node still find it."""
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid:
            return
        self._state.queue.move(NODE_DELETE, held, None)
        del self._nodes[node.name]
        self._state.cache.remove_node(held)

    def on_rebuild(self, objects: Mapping[str, Sequence[KubernetesObject]]) -> None:
        """Replace all that is held by what was read again; pods that are being bound stay assumed."""
        pods = [pod for pod in cast("Sequence[Pod]", objects.get(POD, ())) if not pod.finished]
        nodes = cast("Sequence[Node]", objects.get(NODE, ()))
        unbound = {pod.uid for pod in pods if not pod.node_name and not pod.terminating}
        self._state.cache.reset(keep_assumed=unbound)
        self._nodes = {node.name: node for node in nodes}
        for node in nodes:
            self._state.cache.add_node(node)
        for kind in objects.keys() - {POD, NODE}:
            self.objects.replace(kind, cast("Sequence[ClusterObject]", objects[kind]))
        self._pods.replace(pods)
        self._synced |= objects.keys()
        self._state.queue.move(_REBUILT)
        self._state.metrics.rebuilt()
