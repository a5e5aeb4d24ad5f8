"""Pods for which room was made on a node, and which do not run there yet."""

from collections.abc import Callable

from schedcache.model import Pod

PodLister = Callable[[str, str], Pod | None]
"""Namespace and name -> the newest object, None = there is no such pod."""


class Nominator:
    """At most one node per pod UID; the pods of a node are in the order in which they were nominated.

    The queue adds pods, and plugins read: it is made first, and passed to the queue and to the plugins' handle.
    """

    def __init__(self, pod_lister: PodLister | None = None) -> None:
        """`pod_lister` None: every pod counts as alive and unassigned."""
        self._pod_lister = pod_lister
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}

    def nominated_nodes(self) -> list[str]:
        """The nodes that have nominated pods."""
        return list(self._pods)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """The pods nominated for that node, the first nominated first."""
        return list(self._pods.get(node_name, {}).values())

    def add(self, pod: Pod, node_name: str | None) -> None:
        """Nominate the pod again, behind those already there. None: its own status decides; "": it no longer has a node.

        A pod that is gone, was replaced under its name, or has a node is not nominated: its reservation would stay for ever.
        """
        self.delete(pod)
        node_name = pod.nominated_node_name if node_name is None else node_name
        if node_name and self._is_waiting(pod):
            self._node_of[pod.uid] = node_name
            self._pods.setdefault(node_name, {})[pod.uid] = pod

    def update(self, old: Pod, new: Pod) -> None:
        """Apply an update. One that does not mention a nomination keeps what was decided here and not yet written."""
        node_name = None if old.nominated_node_name or new.nominated_node_name else self._node_of.get(old.uid)
        self.delete(old)
        self.add(new, node_name)

    def delete(self, pod: Pod) -> None:
        """Drop the pod's nomination, if it has one."""
        node_name = self._node_of.pop(pod.uid, None)
        if node_name is None:
            return
        pods = self._pods[node_name]
        del pods[pod.uid]
        if not pods:
            del self._pods[node_name]

    def _is_waiting(self, pod: Pod) -> bool:
        if self._pod_lister is None:
            return True
        newest = self._pod_lister(pod.namespace, pod.name)
        return newest is not None and newest.uid == pod.uid and not newest.node_name
