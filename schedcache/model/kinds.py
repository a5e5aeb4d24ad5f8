"""The kinds besides Pod and Node that scheduling reads: one list, for both the watch and the simulation."""

from collections.abc import Mapping

from schedcache.model.objects import (
    ClusterObject,
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from schedcache.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

CLUSTER_OBJECTS: Mapping[str, type[ClusterObject]] = {
    model.__name__: model
    for model in (
        Namespace,
        Service,
        ReplicationController,
        ReplicaSet,
        StatefulSet,
        PodDisruptionBudget,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
        VolumeAttachment,
    )
}
"""Model classes by the name of the kind."""
