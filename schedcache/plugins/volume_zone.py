"""VolumeZone: bound volumes that carry zone or region labels, on nodes that do."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedcache.cache.cluster_objects import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from schedcache.framework import (
    SKIP,
    CycleState,
    EventHint,
    Handle,
    RowView,
    Status,
    Verdicts,
    one_reason,
    unresolvable,
)
from schedcache.model import (
    REGION_LABEL,
    ZONE_LABEL,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Requirement,
    StorageClass,
    Volume,
)
from schedcache.model.labels import EXISTS, IN
from schedcache.model.node import BETA_REGION_LABEL, BETA_ZONE_LABEL
from schedcache.model.storage import WAIT_FOR_FIRST_CONSUMER
from schedcache.plugins.nodes.matching import Mask, matches_requirement
from schedcache.plugins.volumes.csi_translation import ZONE_DELIMITER
from schedcache.plugins.volumes.pod_claims import claim_of, claim_volumes, hint_by_name, not_found

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_REASON = unresolvable("node(s) had no available volume zone")
_STATE_KEY = "VolumeZone"
_STORAGE_CLASS = "StorageClass"
_CURRENT = {
    BETA_ZONE_LABEL: ZONE_LABEL,
    BETA_REGION_LABEL: REGION_LABEL,
    ZONE_LABEL: ZONE_LABEL,
    REGION_LABEL: REGION_LABEL,
}
"""Topology label -> its current name."""


class Topology(NamedTuple):
    """A volume can be attached where the node's label `key` has one of the values."""

    key: str
    values: tuple[str, ...]


class VolumeZone:
    """The zone and region labels of the pod's bound volumes must match the node's.

    A node without any such label passes: it is in a cluster of one zone. The volume's node affinity is VolumeBinding's.
    """

    name = "VolumeZone"
    kinds = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, _STORAGE_CLASS)

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._objects = handle.cluster_objects

    def pre_filter(self, state: CycleState, pod: Pod, _snapshot: "Snapshot") -> Status | None:
        found = self._topologies(pod)
        if isinstance(found, Status):
            return found
        if not found:
            return SKIP
        state[_STATE_KEY] = found
        return None

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        topologies = state.get(_STATE_KEY)
        if topologies is None:
            # The profile has this filter without its PreFilter.
            found = self._topologies(pod)
            if isinstance(found, Status):
                return one_reason(np.ones(len(view), np.bool_), found)
            topologies = found
        elsewhere = np.zeros(len(view), np.bool_)
        for topology in topologies:
            elsewhere |= ~_in_place(topology, view)
        if elsewhere.any():
            elsewhere &= _has_topology(view)
        return one_reason(elsewhere, _REASON)

    def _topologies(self, pod: Pod) -> list[Topology] | Status:
        topologies: list[Topology] = []
        for volume in claim_volumes(pod, ephemeral=False):
            found = self._volume_of(pod, volume)
            if isinstance(found, Status):
                return found
            if found is not None:
                topologies += topologies_of(found)
        return topologies

    def _volume_of(self, pod: Pod, volume: Volume) -> PersistentVolume | Status | None:
        """The PersistentVolume, None where it is still to be found, or why there is none."""
        if not volume.claim_name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = claim_of(self._objects, pod, volume)
        if claim is None:
            return not_found(PERSISTENT_VOLUME_CLAIM, volume.claim_name)
        if not claim.volume_name:
            return self._unbound(claim)
        found: PersistentVolume | None = self._objects.get(PERSISTENT_VOLUME, "", claim.volume_name)
        return found or not_found(PERSISTENT_VOLUME, claim.volume_name)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        class_name = claim.storage_class_name
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class: StorageClass | None = self._objects.get(_STORAGE_CLASS, "", class_name)
        if storage_class is None:
            return not_found(_STORAGE_CLASS, class_name)
        if not storage_class.volume_binding_mode:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return unresolvable("PersistentVolume had no name")

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint(_STORAGE_CLASS, ("Add",), _waits_for_consumer, by_shape=True),
            EventHint("Node", ("Add", "UpdateNodeLabel")),
            EventHint(PERSISTENT_VOLUME_CLAIM, ("Add", "Update"), hint_by_name(ephemeral=False)),
            EventHint(PERSISTENT_VOLUME, ("Add", "Update"), _moved, by_shape=True),
        ]


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """The volume's zone and region labels; several values are joined by `__`, and a label with an empty one means nothing."""
    found = []
    for key in _CURRENT:
        if key in volume.labels:
            values = tuple(sorted({value.strip() for value in volume.labels[key].split(ZONE_DELIMITER)}))
            if all(values):
                found.append(Topology(key, values))
    return found


def _in_place(topology: Topology, view: RowView) -> Mask:
    """Where the node's label has one of the values; nodes without a beta label are asked for the current one."""
    key = topology.key
    here = matches_requirement(Requirement(key, IN, topology.values), view)
    if _CURRENT[key] != key:
        unlabelled = ~matches_requirement(Requirement(key, EXISTS), view)
        here |= unlabelled & matches_requirement(Requirement(_CURRENT[key], IN, topology.values), view)
    return here


def _has_topology(view: RowView) -> Mask:
    labelled = np.zeros(len(view), np.bool_)
    for key in _CURRENT:
        labelled |= matches_requirement(Requirement(key, EXISTS), view)
    return labelled


def _waits_for_consumer(_pod: Pod, _old: StorageClass | None, new: StorageClass) -> bool:
    return new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _moved(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> bool:
    return old is None or topologies_of(old) != topologies_of(new)
