"""A change in the cluster, as plugins and the queue see it (kube-scheduler's framework.ClusterEvent, 1.37)."""

import msgspec

WILDCARD = "*"
ALL = "All"


class ClusterEvent(msgspec.Struct, frozen=True, gc=False):
    """`resource` is a kind (`Node`, `AssignedPod`, `UnscheduledPod`, `TargetPod`, `PersistentVolumeClaim` ... or `*`).

    `actions` are upstream's action names (`Add`, `Delete`, `Update`, `UpdateNodeAllocatable`, `UpdatePodLabel` ...).
    `label` is the event's name in metrics, by default resource and action without a space.
    """

    resource: str
    actions: tuple[str, ...]
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or self.resource + "".join(self.actions)
