"""The simulate command without its flags and colours: cluster files and pods in, the JSON answer out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schedcache.cache import Snapshot
from schedcache.config import KubeSchedulerConfiguration
from schedcache.model import MalformedObjectError, Pod
from schedcache.simulation.admission import Admission
from schedcache.simulation.api_defaults import with_api_defaults
from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.simulation.loading import InputError, SourcedObject, reading
from schedcache.simulation.manifest_checks import READ
from schedcache.simulation.offline import OfflineScheduler


class Answer(NamedTuple):
    """`report` is what `-o json` prints; `fits`: every pod, or every replica, has a node.

    `cluster_warnings` are about other pods than those in question, whose warnings are in the report.
    """

    report: dict[str, Any]
    fits: bool
    cluster_warnings: Sequence[str] = ()


class WhatIf:
    """A cluster from files, the API server's defaults applied. Raises InputError, naming file, object and field."""

    def __init__(self, objects: Sequence[SourcedObject], config: KubeSchedulerConfiguration) -> None:
        self._admission = Admission()
        self._config = config
        self._given: dict[tuple[str, str, str], SourcedObject] = {}
        self._objections: dict[str, list[str]] = {}
        """By the pod's full name, with its file."""
        self.cluster = OfflineCluster(scheduler_names={p.scheduler_name for p in config.profiles})
        for found in objects:
            with reading(found.source):
                self._admission.note(found.obj)
        for found in objects:
            with reading(found.source):
                self._add(found)

    def _add(self, found: SourcedObject) -> None:
        made = with_api_defaults(found.obj, self._admission)
        if made["kind"] in READ:
            self._refuse_namesake(found, made)
        self.cluster.add(made)
        if made["kind"] == "Pod":
            self._note_objections(found, made)

    def _note_objections(self, found: SourcedObject, made: Mapping[str, Any]) -> None:
        name = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
        texts = self._admission.objections(found.obj)
        self._objections[name] = [f"{found.source}: Pod {name}: {text}" for text in texts]

    def _refuse_namesake(self, found: SourcedObject, made: Mapping[str, Any]) -> None:
        metadata = made["metadata"]
        key = (made["kind"], metadata.get("namespace") or "", metadata["name"])
        earlier = self._given.get(key, found)
        if not _alike(earlier.obj, found.obj):
            kind, *names = key
            text = f"is that of another {kind} too, in {earlier.source}"
            raise MalformedObjectError(kind, "/".join(filter(None, names)), "metadata.name", text)
        self._given[key] = found

    def pods_of(self, objects: Iterable[SourcedObject], source: str = "the pods") -> list[Pod]:
        """The pods of a file, called `source` in messages; they are not added to the cluster. Raises InputError."""
        pods = []
        for found in objects:
            if found.obj.get("kind") != "Pod":
                raise InputError(f"{found.source}: expected a Pod to place, got a {found.obj.get('kind')}")
            with reading(found.source):
                made = with_api_defaults(found.obj, self._admission)
                pods.append(read_pod(made))
            self._note_objections(found, made)
        if not pods:
            raise InputError(f"{source}: there is no pod to place")
        for pod in pods:
            known = self.cluster.find_pod(pod.namespace, pod.name)
            if known is not None:
                self.cluster.remove_pod(known)
        return pods

    def take_out(self, full_name: str) -> Pod:
        """Take the pod `namespace/name` out of the cluster. Raises InputError."""
        namespace, _, name = full_name.rpartition("/")
        pod = self.cluster.find_pod(namespace or "default", name)
        if pod is None:
            finished = any(p.full_name == full_name for p in self.cluster.finished.values())
            raise InputError(f"pod {full_name}: {'has finished' if finished else 'is not among the cluster objects'}")
        self.cluster.remove_pod(pod)
        return pod.with_node("")

    def ask(self, pods: Sequence[Pod], replicas: int | None = None, *, preempt: bool = False) -> Answer:
        """Each pod alone against the cluster, without counting the others; with `replicas`, that many copies of the only pod.

        `preempt`: each copy that does not fit may have pods evicted. Raises InputError and ProfileError.
        """
        if replicas is not None and len(pods) != 1:
            raise InputError(f"replicas are copies of one pod, but there are {len(pods)}")
        scheduler = OfflineScheduler(self.cluster, self._config)
        answers = [{"pod": pod.full_name, **self._ask_one(scheduler, pod)} for pod in pods]
        fits = all(answer["selected"] for answer in answers)
        copies = None
        if replicas is not None:
            found = scheduler.place_replicas(pods[0], replicas, preempt=preempt)
            copies = found.want()
            fits = len(found.placed) == replicas
        report = {"pods": answers, "nodes": _nodes(scheduler.snapshot), "replicas": copies}
        asked = {pod.full_name for pod in pods}
        others = [text for name, texts in self._objections.items() if name not in asked for text in texts]
        return Answer(report, fits, others)

    def _ask_one(self, scheduler: OfflineScheduler, pod: Pod) -> dict[str, Any]:
        answer = scheduler.ask(pod)
        return {**answer, "warnings": [*self._objections.get(pod.full_name, ()), *answer["warnings"]]}


def _alike(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether it is the same object, seen twice: files may overlap, and come from different moments."""
    uids = [(obj.get("metadata") or {}).get("uid") for obj in (a, b)]
    return bool(uids[0] == uids[1] and (uids[0] or a == b))


def _nodes(snapshot: Snapshot) -> Mapping[str, Any]:
    """The requests on each node, as quantities, and the number of its pods."""
    nodes = {}
    for name, info in sorted(snapshot.node_info_map.items()):
        total = info.requested
        requested: dict[str, Any] = {"cpu": f"{total.milli_cpu}m", "memory": str(total.memory)}
        if total.ephemeral_storage:
            requested["ephemeral-storage"] = str(total.ephemeral_storage)
        requested |= {resource: str(amount) for resource, amount in sorted(total.scalar.items()) if amount}
        nodes[name] = {"requested": {**requested, "pods": len(info.pods)}}
    return nodes
