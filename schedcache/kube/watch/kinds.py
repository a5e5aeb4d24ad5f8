"""The kinds of objects that can be watched: where the API server serves them and what reads them."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from schedcache.model import Node, Pod
from schedcache.model.kinds import CLUSTER_OBJECTS

STORAGE = "storage.k8s.io"


class HeldObject(Protocol):
    """What the watch path needs to know about a model object."""

    @property
    def uid(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of Kubernetes objects.

    Attributes:
        name: as in an object's `kind`.
        group, version, plural: as in a path of the API.
        namespaced: whether its objects live in namespaces.
        from_json, from_dict: read one object. Raise MalformedObjectError.
        field_selector: the objects that are listed and watched, "" for all.
    """

    name: str
    group: str = ""
    version: str = "v1"
    plural: str
    namespaced: bool = True
    from_json: Callable[[msgspec.Raw | bytes], HeldObject]
    from_dict: Callable[[Mapping[str, Any]], HeldObject]
    field_selector: str = ""

    @property
    def path(self) -> str:
        """Of the collection in all namespaces."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{prefix}/{self.plural}"

    def key_of(self, obj: HeldObject) -> str:
        """`namespace/name`, or the name of an object without a namespace: unique at any one time, not over time."""
        return f"{obj.namespace}/{obj.name}" if self.namespaced else obj.name  # type: ignore[attr-defined]  # namespaced kinds have it


_SERVED = {
    "Namespace": ("", "namespaces"),
    "Service": ("", "services"),
    "ReplicationController": ("", "replicationcontrollers"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets"),
    "PersistentVolume": ("", "persistentvolumes"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "StorageClass": (STORAGE, "storageclasses"),
    "CSINode": (STORAGE, "csinodes"),
    "CSIDriver": (STORAGE, "csidrivers"),
    "CSIStorageCapacity": (STORAGE, "csistoragecapacities"),
    "VolumeAttachment": (STORAGE, "volumeattachments"),
}
"""Group and plural of each kind besides Pod and Node."""


def _kind(name: str) -> Kind:
    model = CLUSTER_OBJECTS[name]
    group, plural = _SERVED[name]
    return Kind(
        name=name,
        group=group,
        plural=plural,
        namespaced=model.namespaced,
        from_json=model.from_json,
        from_dict=model.from_dict,
    )


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="Pod",
            plural="pods",
            from_json=Pod.from_json,
            from_dict=Pod.from_dict,
            # kube-scheduler's own selector: a pod that finishes is reported as deleted.
            field_selector="status.phase!=Succeeded,status.phase!=Failed",
        ),
        Kind(name="Node", plural="nodes", namespaced=False, from_json=Node.from_json, from_dict=Node.from_dict),
        *map(_kind, CLUSTER_OBJECTS),
    )
}
"""By name. All are served in v1 of their group."""
