"""VolumeBinding: the pod's claims, bound or to be bound on the node (kube-scheduler 1.37)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from schedcache.cache import CacheError
from schedcache.cache.cluster_objects import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from schedcache.config.plugin_args import VolumeBindingArgs
from schedcache.framework import (
    SKIP,
    Code,
    CycleState,
    EventHint,
    Handle,
    RowView,
    Scores,
    Status,
    Verdicts,
    add_amounts,
    failing,
    percent,
    unresolvable,
)
from schedcache.model import CSIDriver, CSINode, CSIStorageCapacity, Pod, StorageClass, Volume
from schedcache.plugins.resources.shape_score import broken_line
from schedcache.plugins.volumes.assumed import AssumedVolumes
from schedcache.plugins.volumes.binder import PodClaims, PodVolumes, VolumeBinder, volume_limit
from schedcache.plugins.volumes.csi_nodes import CSI_NODE, MIGRATED_PLUGINS_ANNOTATION
from schedcache.plugins.volumes.pod_claims import claim_of, claim_volumes, hint_by_name, not_found_text, ownership_fault
from schedcache.plugins.volumes.waiting import VolumeBindingError, VolumeWaiting
from schedcache.ports import ApiError

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_STATE_KEY = "VolumeBinding"
_NOT_FOUND = "not found"
_UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")
_CLAIM_LOST = "Lost"


class _State:
    """What PreFilter and Filter found and Reserve assumed; `claims` None: the pod has no claims."""

    __slots__ = ("assumed", "claims", "row_of", "volumes")

    def __init__(self, claims: PodClaims | None = None) -> None:
        self.claims = claims
        self.volumes: PodVolumes | None = None
        self.row_of: Mapping[str, int] = {}
        self.assumed: AssumedVolumes | None = None


class VolumeBinding:
    """Bound volumes must be reachable from the node, unbound claims must find a volume or room for one there.

    Where claims are still to be bound, nodes of which less of the volume, or of the room, would be used score higher.
    """

    name = "VolumeBinding"
    kinds = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, "StorageClass", CSI_NODE, "CSIDriver", "CSIStorageCapacity")

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        self._objects = handle.cluster_objects
        self._binder = VolumeBinder(handle.cluster_objects, handle.metrics)
        self._metrics = handle.metrics
        args = args or VolumeBindingArgs()
        self._line = broken_line(args.shape)
        self._writer = handle.volume_writer
        self._waiting = VolumeWaiting(handle, args.bind_timeout_seconds)

    def pre_filter(self, state: CycleState, pod: Pod, _snapshot: "Snapshot") -> Status | None:
        if not pod.volumes or next(claim_volumes(pod), None) is None:
            state[_STATE_KEY] = _State()
            return SKIP
        fault = next(filter(None, (self._fault(pod, volume) for volume in claim_volumes(pod))), "")
        if fault:
            return unresolvable(fault)
        claims = self._binder.pod_claims(pod)
        if isinstance(claims, Status):
            return claims
        if claims.immediate:
            return _UNBOUND_IMMEDIATE
        state[_STATE_KEY] = _State(claims)
        return None

    def _fault(self, pod: Pod, volume: Volume) -> str:
        """Why the pod cannot have the claim on any node."""
        claim = claim_of(self._objects, pod, volume)
        if claim is None:
            if volume.ephemeral:
                wanted = volume.claim_name
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{wanted}"'
            return not_found_text(PERSISTENT_VOLUME_CLAIM, volume.claim_name)
        if claim.phase == _CLAIM_LOST:
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        if claim.deletion_timestamp:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        return ownership_fault(pod, claim) if volume.ephemeral else ""

    def filter(self, state: CycleState, _pod: Pod, view: RowView) -> Verdicts:
        found: _State | None = state.get(_STATE_KEY)
        if found is None or found.claims is None:
            return failing(len(view), _NOT_FOUND)
        if found.volumes is None:
            found.volumes = self._binder.new_volumes(found.claims, len(view.columns.generation))
            found.row_of = view.columns.row_of
        return self._binder.find(found.claims, found.volumes, view)

    def explain(self, state: CycleState, _pod: Pod, view: RowView) -> str:
        """Which volumes keep the pod off the row of the view."""
        found: _State | None = state.get(_STATE_KEY)
        return "" if found is None or found.claims is None else "; ".join(self._binder.out_of_reach(found.claims, view))

    @staticmethod
    def pre_score(state: CycleState, _pod: Pod, _view: RowView) -> Status | None:
        found: _State | None = state.get(_STATE_KEY)
        if found is None:
            return Status(Code.ERROR, (_NOT_FOUND,))
        return None if found.volumes is not None and found.volumes.order else SKIP

    def score(self, state: CycleState, _pod: Pod, view: RowView) -> Scores:
        """The mean over storage classes; volumes that are there count alone, before room for new ones."""
        found: _State | None = state.get(_STATE_KEY)
        if found is None:
            raise LookupError(_NOT_FOUND)
        if found.volumes is None:
            return np.zeros(len(view), np.int64)
        total = np.zeros(len(view), np.int64)
        classes = np.zeros(len(view), np.int64)
        for use in _use_by_class(found.volumes, view):
            full = (use.capacity == 0) | (use.requested > use.capacity)
            used = percent(np.where(full, 1, use.requested), np.where(full, 1, use.capacity))
            total += np.where(use.counts, self._line[used], 0)
            classes += use.counts
        rounded: Scores = np.where(classes == 0, 0, (2 * total + classes) // np.maximum(2 * classes, 1))
        return rounded

    def reserve(self, state: CycleState, _pod: Pod, node_name: str) -> Status | None:
        """Show others in thought what PreBind will write: a volume that is taken, a claim that is provisioned for the node."""
        found: _State | None = state.get(_STATE_KEY)
        if found is not None and found.volumes is not None and found.volumes.order:
            found.assumed = AssumedVolumes(self._objects, node_name)
            try:
                found.assumed.assume(*found.volumes.on(found.row_of[node_name]))
            except CacheError:
                self._metrics.volume_stage_failed("assume")
                raise
        return None

    @staticmethod
    def unreserve(state: CycleState, _pod: Pod, _node_name: str) -> None:
        """What has been written stays; there is no undoing it in the API."""
        found: _State | None = state.get(_STATE_KEY)
        if found is not None and found.assumed is not None:
            found.assumed.revert()

    @staticmethod
    def pre_bind_pre_flight(state: CycleState, _pod: Pod, _node_name: str) -> Status | None:
        found: _State | None = state.get(_STATE_KEY)
        return SKIP if found is None or found.assumed is None else None

    async def pre_bind(self, state: CycleState, _pod: Pod, _node_name: str) -> Status | None:
        """Write what was assumed, and wait until the volume controller and the provisioners have done their part."""
        found: _State | None = state.get(_STATE_KEY)
        if found is None or found.assumed is None:
            return None
        if self._writer is None:
            return Status(Code.ERROR, ("there is no way to write volumes here",))
        try:
            await found.assumed.write(self._writer)
            await self._waiting.until_bound(found.assumed)
        except ApiError:
            self._metrics.volume_stage_failed("bind")
            raise
        except VolumeBindingError as error:
            self._metrics.volume_stage_failed("bind")
            return Status(Code.ERROR, (f"binding volumes: {error}",))
        return None

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("StorageClass", ("Add", "Update"), _class_helps, by_shape=True),
            EventHint(PERSISTENT_VOLUME_CLAIM, ("Add", "Update"), hint_by_name(ephemeral=True)),
            EventHint(PERSISTENT_VOLUME, ("Add", "Update")),
            EventHint("Node", ("Add", "UpdateNodeLabel")),
            EventHint(CSI_NODE, ("Add", "Update"), _migration_changed, by_shape=True),
            EventHint("CSIDriver", ("Update",), _capacity_no_longer_tracked),
            EventHint("CSIStorageCapacity", ("Add", "Update"), _room_grew, by_shape=True),
        ]


class _Use(msgspec.Struct):
    """Of one storage class, by position: bytes asked for, bytes there are, and whether it counts."""

    requested: Scores
    capacity: Scores
    counts: Any


def _use_by_class(volumes: PodVolumes, view: RowView) -> list[_Use]:
    size = len(view)
    static, room = volumes.static[:, view.rows], volumes.room[:, view.rows]
    any_static = (static >= 0).any(axis=0)
    # One entry more for -1, which is masked out.
    volume_sizes = np.array([*(v.capacity for v in volumes.volumes), 0], np.int64)
    room_sizes = np.array([*(c.capacity or 0 for c in volumes.capacities), 0], np.int64)
    uses: dict[str, _Use] = {}
    for i, claim in enumerate(volumes.order):
        use = uses.setdefault(
            claim.storage_class_name or "",
            _Use(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)),
        )
        bound = static[i] >= 0
        provisioned = ~any_static & (room[i] >= 0)
        use.requested = add_amounts(use.requested, claim.requested * (bound | provisioned))
        use.capacity = add_amounts(use.capacity, np.where(bound, volume_sizes[static[i]], 0))
        # All volumes of the class come out of the same room.
        use.capacity = np.where(provisioned, room_sizes[room[i]], use.capacity)
        use.counts |= bound | provisioned
    return list(uses.values())


def _class_helps(_pod: Pod, old: StorageClass | None, new: StorageClass) -> bool:
    return old is None or old.allowed_topologies != new.allowed_topologies


def _migration_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> bool:
    key = MIGRATED_PLUGINS_ANNOTATION
    return old is None or old.annotations.get(key, "") != new.annotations.get(key, "")


def _capacity_no_longer_tracked(pod: Pod, old: CSIDriver, new: CSIDriver) -> bool:
    """As in kube-scheduler, this looks at the pod's inline CSI volumes."""
    if not old.storage_capacity or new.storage_capacity:
        return False
    return any(v.source_kind == "csi" and v.source[0] == new.name for v in pod.volumes)


def _room_grew(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    if old is None:
        return True
    before, now = volume_limit(old), volume_limit(new)
    return now is not None and (before is None or now > before)
