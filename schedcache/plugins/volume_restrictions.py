"""VolumeRestrictions: disks that only one pod of a node may mount, and claims that only one pod of the cluster may use."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.cache.cluster_objects import PERSISTENT_VOLUME_CLAIM
from schedcache.framework import (
    SKIP,
    Code,
    CycleState,
    EventHint,
    Handle,
    RowView,
    Status,
    Verdicts,
    one_reason,
    unschedulable,
)
from schedcache.model import Pod, Volume
from schedcache.plugins.nodes.matching import Mask
from schedcache.plugins.nodes.row_numbers import RowNumbers
from schedcache.plugins.volumes.pod_claims import claim_of, claim_volumes, hint_by_name, not_found

if TYPE_CHECKING:
    from schedcache.cache import NodeInfo, Snapshot

_REASON_DISK = unschedulable("node(s) had no available disk")
_REASON_CLAIM = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_NO_STATE = Status(Code.ERROR, ('cannot read "PreFilterVolumeRestrictions" from cycleState',))
_STATE_KEY = "VolumeRestrictions"
_READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_GCE, _EBS, _ISCSI, _RBD = "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"
_RESTRICTED = frozenset({_GCE, _EBS, _ISCSI, _RBD})


class _ExclusiveClaims:
    """The pod's ReadWriteOncePod claims, by name, and how many of them other pods use."""

    __slots__ = ("in_use", "names")

    def __init__(self, names: frozenset[str], in_use: int) -> None:
        self.names = names
        self.in_use = in_use

    def references(self, pods: Iterable[Pod]) -> int:
        """How often the pods refer to claims of these names, as kube-scheduler counts: in whatever namespace."""
        return sum(v.claim_name in self.names for pod in pods for v in claim_volumes(pod, ephemeral=False))


class VolumeRestrictions:
    """In-tree disks conflict on a node; a ReadWriteOncePod claim in use keeps the pod from every node.

    GCE disks, iSCSI and RBD may be shared when all mount them read-only, EBS volumes never.
    """

    name = "VolumeRestrictions"
    kinds = (PERSISTENT_VOLUME_CLAIM,)

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._objects = handle.cluster_objects
        self._disks = RowNumbers(_count_disks)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> Status | None:
        exclusive = set()
        for volume in claim_volumes(pod, ephemeral=False):
            claim = claim_of(self._objects, pod, volume)
            if claim is None:
                return not_found(PERSISTENT_VOLUME_CLAIM, volume.claim_name)
            if _READ_WRITE_ONCE_POD in claim.access_modes:
                exclusive.add(claim.name)
        in_use = sum(snapshot.is_pvc_used(f"{pod.namespace}/{name}") for name in exclusive)
        if not in_use and not _disks(pod):
            return SKIP
        state[_STATE_KEY] = _ExclusiveClaims(frozenset(exclusive), in_use)
        return None

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        conflicts = self._disk_conflicts(pod, view)
        claims: _ExclusiveClaims | None = state.get(_STATE_KEY)
        if claims is None:
            return Verdicts(np.where(conflicts, 1, 2).astype(np.int16), (None, _REASON_DISK, _NO_STATE))
        in_use = np.full(len(view), claims.in_use, np.int64)
        if claims.names:
            for position in _with_pods_of(claims, view):
                in_use[position] += claims.references(view.added(position)) - claims.references(view.removed(position))
        taken = in_use > 0
        if not conflicts.any():
            return one_reason(taken, _REASON_CLAIM)
        codes = np.where(conflicts, 1, np.where(taken, 2, 0)).astype(np.int16)
        return Verdicts(codes, (None, _REASON_DISK, _REASON_CLAIM))

    def _disk_conflicts(self, pod: Pod, view: RowView) -> Mask:
        """Rows with a pod that has one of the disks; only rows with any such disk, or with pods added in thought, are looked at."""
        conflicts = np.zeros(len(view), np.bool_)
        disks = _disks(pod)
        if disks:
            suspects = np.flatnonzero(self._disks.of(view.columns)[view.rows]).tolist()
            for position in {*suspects, *filter(view.added, view.changed)}:
                conflicts[position] = any(conflict(disks, other) for other in view.pods(position))
        return conflicts

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("AssignedPod", ("Delete",), _frees_a_volume),
            EventHint("Node", ("Add",)),
            EventHint(PERSISTENT_VOLUME_CLAIM, ("Add",), hint_by_name(ephemeral=False)),
        ]


def _with_pods_of(claims: _ExclusiveClaims, view: RowView) -> Iterator[int]:
    """The changed positions where pods may have come or gone that use one of the claims."""
    infos, rows, names = view.columns.infos, view.rows, claims.names
    for position in view.changed:
        used = infos[rows[position]].pvc_ref_counts
        if view.added(position) or (used and any(key.partition("/")[2] in names for key in used)):
            yield position


def conflict(disks: Iterable[Volume], other: Pod) -> bool:
    """Whether the other pod has one of the disks in a way that excludes sharing."""
    theirs = _disks(other)
    return bool(theirs) and any(_same_disk(disk, volume) for disk in disks for volume in theirs)


def _same_disk(a: Volume, b: Volume) -> bool:
    if a.source_kind != b.source_kind:
        return False
    if a.source_kind == _EBS:
        return a.source == b.source
    if a.read_only and b.read_only:
        return False
    if a.source_kind == _RBD:
        (pool, image, *monitors), (other_pool, other_image, *other_monitors) = a.source, b.source
        return (pool, image) == (other_pool, other_image) and not set(monitors).isdisjoint(other_monitors)
    # A GCE disk is told by its name, an iSCSI disk by its IQN whatever the portal.
    return a.source[0] == b.source[0]


def _disks(pod: Pod) -> list[Volume]:
    return [v for v in pod.volumes if v.source_kind in _RESTRICTED]


def _count_disks(info: "NodeInfo") -> int:
    return sum(len(_disks(pod)) for pod in info.pods if pod.volumes)


def _frees_a_volume(pod: Pod, deleted: Pod, _new: Pod | None) -> bool:
    if deleted.namespace != pod.namespace:
        return False
    if conflict(_disks(pod), deleted):
        return True
    wanted = {v.claim_name for v in claim_volumes(pod, ephemeral=False)}
    return any(v.claim_name in wanted for v in claim_volumes(deleted, ephemeral=False))
