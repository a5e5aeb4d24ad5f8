"""Objects for the tests of the queue."""

from typing import Any

from schedcache.model import Node, Pod
from schedcache.queue import EventHint, QueuedPodInfo, SchedulingQueue

# What the fitting plugin of these tests waits for.
FIT = EventHint("Node", ("Add", "UpdateNodeAllocatable"), by_shape=True, plugin="Fit")


class Lister(dict):
    """What the API server holds, by namespace and name."""

    def hold(self, pod: Pod) -> Pod:
        self[pod.namespace, pod.name] = pod
        return pod

    def drop(self, pod: Pod) -> None:
        del self[pod.namespace, pod.name]

    def __call__(self, namespace: str, name: str) -> Pod | None:
        return self.get((namespace, name))


def make_pod(name: str, uid: str = "", *, version: int = 1, **spec: Any) -> Pod:
    """A pod of namespace `ns`; `cpu`, `labels`, `node`, `nominated` are set where they belong, the rest goes to its spec."""
    cpu, labels = spec.pop("cpu", "1"), spec.pop("labels", {})
    status = {"nominatedNodeName": spec.pop("nominated", None)}
    node = spec.pop("node", None)
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {
        "namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "labels": labels,
    }  # fmt: skip
    return Pod.from_dict(
        {"metadata": metadata, "spec": {"containers": [container], "nodeName": node, **spec}, "status": status}
    )


def make_node(name: str = "n1", *, cpu: str = "4", **more: Any) -> Node:
    """A node; `labels`, `annotations` go to its metadata, `conditions`, `images` to its status, the rest to its spec."""
    metadata = {"name": name, "uid": f"uid-{name}"}
    metadata |= {k: more.pop(k) for k in ("labels", "annotations", "resourceVersion") if k in more}
    status = {"allocatable": {"cpu": cpu, "pods": "110"}}
    status |= {k: more.pop(k) for k in ("conditions", "images", "declaredFeatures") if k in more}
    return Node.from_dict({"metadata": metadata, "spec": more, "status": status})


def reject(queue: SchedulingQueue, info: QueuedPodInfo, *plugins: str, pending: tuple[str, ...] = ()) -> None:
    """End the attempt at a popped pod in a rejection; without plugins, in an error."""
    info.unschedulable_plugins, info.pending_plugins = set(plugins), set(pending)
    queue.add_unschedulable(info)


def pop(queue: SchedulingQueue) -> QueuedPodInfo:
    """The next pod, which there has to be."""
    info = queue.pop_nowait()
    assert info is not None
    return info


def names(infos: list[QueuedPodInfo]) -> list[str]:
    return [info.pod.name for info in infos]
