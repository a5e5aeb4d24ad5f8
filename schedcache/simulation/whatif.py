"""The simulate command without its flags and colours: cluster files and pods in, the JSON answer out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schedcache.cache import Snapshot
from schedcache.config.types import KubeSchedulerConfiguration
from schedcache.model import MalformedObjectError, Pod
from schedcache.simulation.api_defaults import PriorityClasses, with_api_defaults
from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.simulation.loading import InputError, SourcedObject, in_context
from schedcache.simulation.offline import OfflineScheduler


class Answer(NamedTuple):
    """`report` is what `-o json` prints; `fits`: every pod, or every replica, has a node."""

    report: dict[str, Any]
    fits: bool


class WhatIf:
    """A cluster from files, the API server's defaults applied. Raises InputError, naming file, object and field."""

    def __init__(self, objects: Sequence[SourcedObject], config: KubeSchedulerConfiguration) -> None:
        self._priorities = PriorityClasses(found.obj for found in objects)
        self._config = config
        self.cluster = OfflineCluster(scheduler_names={p.scheduler_name or "" for p in config.profiles or ()})
        for found in objects:
            try:
                self.cluster.add(with_api_defaults(found.obj, self._priorities))
            except MalformedObjectError as error:
                raise in_context(found.source, error) from None

    def pods_of(self, objects: Iterable[SourcedObject]) -> list[Pod]:
        """The pods of a file, which are not in the cluster. Raises InputError."""
        pods = []
        for source, obj in objects:
            if obj.get("kind") != "Pod":
                raise InputError(f"{source}: expected a Pod to place, got a {obj.get('kind')}")
            try:
                pods.append(read_pod(with_api_defaults(obj, self._priorities)))
            except MalformedObjectError as error:
                raise in_context(source, error) from None
        if not pods:
            raise InputError("there is no pod to place")
        for pod in pods:
            self.cluster.pods.pop(pod.uid, None)
        return pods

    def take_out(self, full_name: str) -> Pod:
        """The pod `namespace/name` of the cluster, taken out of it. Raises InputError."""
        namespace, _, name = full_name.rpartition("/")
        pod = self.cluster.find_pod(namespace or "default", name)
        if pod is None:
            finished = any(p.full_name == full_name for p in self.cluster.finished.values())
            raise InputError(f"pod {full_name}: {'has finished' if finished else 'is not among the cluster objects'}")
        self.cluster.remove_pod(pod)
        return pod.with_node("")

    def ask(self, pods: Sequence[Pod], replicas: int | None = None) -> Answer:
        """Each pod alone against the cluster, the others not counted; with `replicas`, that many copies of the only pod.

        Raises InputError and ProfileError.
        """
        if replicas is not None and len(pods) != 1:
            raise InputError(f"replicas are copies of one pod, there are {len(pods)}")
        scheduler = OfflineScheduler(self.cluster, self._config)
        answers = [{"pod": pod.full_name, **scheduler.ask(pod)} for pod in pods]
        fits = all(answer["selected"] for answer in answers)
        copies = None
        if replicas is not None:
            placed, stopped_by = scheduler.place_replicas(pods[0], replicas)
            copies = {"placed": placed, "stopped_by": stopped_by}
            fits = len(placed) == replicas
        return Answer({"pods": answers, "nodes": _nodes(scheduler.snapshot), "replicas": copies}, fits)


def _nodes(snapshot: Snapshot) -> Mapping[str, Any]:
    """What is requested of each node, as quantities, and the number of its pods."""
    nodes = {}
    for name, info in sorted(snapshot.node_info_map.items()):
        total = info.requested
        requested: dict[str, Any] = {"cpu": f"{total.milli_cpu}m", "memory": str(total.memory)}
        if total.ephemeral_storage:
            requested["ephemeral-storage"] = str(total.ephemeral_storage)
        requested |= {resource: str(amount) for resource, amount in sorted(total.scalar.items()) if amount}
        nodes[name] = {"requested": {**requested, "pods": len(info.pods)}}
    return nodes
