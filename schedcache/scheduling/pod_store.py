"""The pods that the event source reported; kube-scheduler has its informer's lister for this."""

from collections.abc import Iterable

from schedcache.model import Pod


class PodStore:
    """The unfinished pods of the cluster as last reported, by namespace and name: of every scheduler, with and without a node.

    Cache and queue decide; this only says whether a pod still exists, and under which UID.
    """

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], Pod] = {}

    def get(self, namespace: str, name: str) -> Pod | None:
        """The pod that has the name now."""
        return self._pods.get((namespace, name))

    def held(self, pod: Pod) -> Pod | None:
        """The newest object of the same pod; None if it is gone or another one has its name."""
        found = self._pods.get((pod.shape.namespace, pod.name))
        return found if found is not None and found.uid == pod.uid else None

    def put(self, pod: Pod) -> None:
        """Hold the pod, in place of any other of its name."""
        self._pods[pod.shape.namespace, pod.name] = pod

    def discard(self, pod: Pod) -> None:
        """Drop the pod, if it is the one held."""
        if self.held(pod) is not None:
            del self._pods[pod.shape.namespace, pod.name]

    def values(self) -> Iterable[Pod]:
        """All pods, in no particular order."""
        return self._pods.values()

    def __len__(self) -> int:
        return len(self._pods)
