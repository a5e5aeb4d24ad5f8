"""The kinds beside Pod and Node that scheduling reads: one list, so that what is watched and what is simulated agree."""

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
"""Their models by the name of the kind."""
