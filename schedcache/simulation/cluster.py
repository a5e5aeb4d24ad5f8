"""A cluster made only from objects: what a scheduler would know of it, without an API server."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from schedcache.cache import ClusterObjects, Snapshot
from schedcache.model import MalformedObjectError, Node, Pod
from schedcache.model.kinds import CLUSTER_OBJECTS


class OfflineCluster:
    """Nodes, pods and the other objects, without finished pods. Serves as the nominator of its pending pods.

    Only nominations of the pods of `scheduler_names` count (None: all). Objects of kinds that scheduling does not read are
    left out. Raises MalformedObjectError, naming object and field.
    """

    def __init__(
        self, objects: Iterable[Mapping[str, Any]] = (), scheduler_names: Collection[str] | None = None
    ) -> None:
        self._scheduler_names = scheduler_names
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """By UID."""
        self.finished: dict[str, Pod] = {}
        self.objects = ClusterObjects()
        for obj in objects:
            self.add(obj)

    def add(self, obj: Mapping[str, Any]) -> None:
        """Add one object, or the items of a List. Raises MalformedObjectError."""
        kind = _mapping(obj, "object").get("kind")
        if isinstance(kind, str) and kind.endswith("List"):
            for item in obj.get("items") or ():
                self.add({"kind": kind.removesuffix("List"), **_mapping(item, f"item of a {kind}")})
        elif kind == "Node":
            node = Node.from_dict(obj)
            self.nodes[node.name] = node
        elif kind == "Pod":
            self.add_pod(read_pod(obj))
        elif isinstance(kind, str) and kind in CLUSTER_OBJECTS:
            self.objects.add(kind, CLUSTER_OBJECTS[kind].from_dict(obj))

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, or replace it by a newer state. Raises MalformedObjectError for another pod with the same UID."""
        known = self.pods.get(pod.uid)
        if pod.finished:
            self.finished[pod.uid] = pod
        elif known is not None and known.full_name != pod.full_name:
            raise MalformedObjectError(
                "Pod", pod.full_name, "metadata.uid", f"is that of {self.pods[pod.uid].full_name}"
            )
        else:
            self.pods[pod.uid] = pod

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod, as if it had never been there."""
        del self.pods[pod.uid]

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        return next((p for p in self.pods.values() if p.namespace == namespace and p.name == name), None)

    def snapshot(self) -> Snapshot:
        """The snapshot for a cycle; a pod on a node that does not exist uses nothing, not even its claims."""
        return Snapshot.build(self.placed(), self.nodes.values())

    def placed(self) -> Sequence[Pod]:
        """The pods on nodes that exist."""
        return [pod for pod in self.pods.values() if pod.node_name in self.nodes]

    def nominated_nodes(self) -> Collection[str]:
        return {pod.nominated_node_name for pod in self._nominated()}

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        return [pod for pod in self._nominated() if pod.nominated_node_name == node_name]

    def _nominated(self) -> Iterable[Pod]:
        names = self._scheduler_names
        waiting = (pod for pod in self.pods.values() if pod.nominated_node_name and not pod.node_name)
        return (pod for pod in waiting if names is None or pod.scheduler_name in names)


def _mapping(found: object, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise MalformedObjectError(what, "", "", f"expected fields and values, got {type(found).__name__}")
    return found


def read_pod(obj: Mapping[str, Any]) -> Pod:
    """A pod; its name becomes the UID if it has none. Raises MalformedObjectError."""
    metadata = _mapping(obj, "Pod").get("metadata")
    metadata = {} if metadata is None else metadata
    if isinstance(metadata, Mapping) and not metadata.get("uid"):
        name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or ''}"
        obj = {**obj, "metadata": {**metadata, "uid": name}}
    return Pod.from_dict(obj)
