"""Objects for the tests of the queue."""

from functools import partial

from schedcache import testing
from schedcache.model import Pod
from schedcache.queue import EventHint, QueuedPodInfo, SchedulingQueue

make_pod = partial(testing.make_pod, cpu="1")
make_node = partial(testing.make_node, "n1")

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
