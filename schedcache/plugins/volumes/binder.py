"""Which volumes a pod would get on each node (kube-scheduler's SchedulerVolumeBinder, 1.37), all nodes at once.

What is bound must be reachable from the node. What waits for a consumer gets the smallest free volume that suits the claim
and is reachable; what finds none is provisioned if the storage class can do that there.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS
from schedcache.framework import Code, Rows, RowView, Status, Verdicts, unresolvable
from schedcache.model import (
    SELECTED_NODE_ANNOTATION,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from schedcache.model.storage import WAIT_FOR_FIRST_CONSUMER
from schedcache.plugins.nodes.matching import Mask
from schedcache.plugins.volumes.csi_nodes import CSINodes
from schedcache.plugins.volumes.csi_translation import IN_TREE_PLUGINS, TranslationError, translate_volume
from schedcache.plugins.volumes.matching import VolumeMatching
from schedcache.plugins.volumes.places import (
    Ranks,
    first_reaching,
    place_of_selector,
    place_of_terms,
    place_of_topologies,
    reaches,
)
from schedcache.plugins.volumes.pod_claims import claim_of, claim_volumes
from schedcache.ports import Metrics

NO_PROVISIONER = "kubernetes.io/no-provisioner"

# Bits of a row's code: a row can have several of the reasons.
_NODE_CONFLICT, _BIND_CONFLICT, _NO_SPACE, _NO_VOLUME = 1, 2, 4, 8
_REASONS = (
    (_NODE_CONFLICT, "node(s) didn't match PersistentVolume's node affinity"),
    (_BIND_CONFLICT, "node(s) didn't find available persistent volumes to bind"),
    (_NO_SPACE, "node(s) did not have enough free storage"),
    (_NO_VOLUME, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
)
_NOT_JUDGED = -1
_STATUSES: tuple[Status | None, ...] = (
    None,
    *(unresolvable(*(reason for bit, reason in _REASONS if bits & bit)) for bits in range(1, 16)),
)


class PodClaims(msgspec.Struct, frozen=True, gc=False):
    """A pod's claims by what is left to do about them, each in the order of the pod's volumes.

    `immediate` ones should have been bound by the controller before the pod came.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


class PodVolumes:
    """What was found for the delayed claims, row by row; `order` lists these claims as they were served.

    `static[i, row]` is the index in `volumes` of the volume that claim i gets there, -1 if it is provisioned. Then
    `room[i, row]` is the index in `capacities` of what tells that there is room, -1 if nothing has to.

    No pod on a node changes any of it, so a row that was judged once need not be again in the attempt: its verdict is kept
    for nominated pods and preemption, which ask many times.
    """

    def __init__(self, order: Sequence[PersistentVolumeClaim], volumes: Sequence[PersistentVolume], rows: int) -> None:
        self.order = order
        self.volumes = volumes
        self.capacities: list[CSIStorageCapacity] = []
        self.static = np.full((len(order), rows), -1, np.int32)
        self.room = np.full((len(order), rows), -1, np.int32)
        self._codes = np.full(rows, _NOT_JUDGED, np.int16)
        self._table = list(_STATUSES)

    def unjudged(self, view: RowView) -> RowView:
        """The rows of the view that there is no verdict on yet."""
        positions = np.flatnonzero(self._codes[view.rows] == _NOT_JUDGED)
        return view if len(positions) == len(view) else view.take(positions)

    def enter(self, rows: Rows, verdicts: Verdicts) -> None:
        """Keep the verdicts on these rows; those of one call number their errors from the same start."""
        shift = len(self._table) - len(_STATUSES)
        self._codes[rows] = verdicts.codes + np.where(verdicts.codes < len(_STATUSES), 0, shift)
        self._table += verdicts.table[len(_STATUSES) :]

    def verdicts(self, view: RowView) -> Verdicts:
        return Verdicts(self._codes[view.rows], self._table)

    def on(self, row: int) -> tuple[list[tuple[PersistentVolumeClaim, PersistentVolume]], list[PersistentVolumeClaim]]:
        """What has to be bound, and what has to be provisioned, for the pod to run on a row that passed."""
        found = list(zip(self.order, self.static[:, row].tolist(), strict=True))
        return [(c, self.volumes[i]) for c, i in found if i >= 0], [c for c, i in found if i < 0]


class _Findings:
    """The verdicts on the rows of one view while they come together."""

    def __init__(self, size: int) -> None:
        self.codes = np.zeros(size, np.int16)
        self.open = np.ones(size, np.bool_)
        """Rows on which the claims served so far can be had."""
        self.table = list(_STATUSES)

    def refuse(self, rows: Mask, reason: int) -> None:
        """A claim cannot be had on these rows; an error that a row has stays what it has."""
        self.codes[rows & self._sound()] |= reason
        self.open &= ~rows

    def fault(self, rows: Mask, text: str) -> None:
        """Judging the rows ends with an error."""
        if rows.any():
            self.codes[rows] = len(self.table)
            self.table.append(Status(Code.ERROR, (text,)))
            self.open &= ~rows

    def reopen(self) -> None:
        """Go on with further claims, which give their reasons beside those there are."""
        self.open = self._sound()

    def _sound(self) -> Mask:
        sound: Mask = self.codes < len(_STATUSES)
        return sound

    def verdicts(self) -> Verdicts:
        return Verdicts(self.codes, self.table)


class VolumeBinder:
    """Looks at claims, volumes, classes and CSI objects as assumed at the moment; keeps nothing but columns of CSINodes."""

    def __init__(self, objects: ClusterObjects, metrics: Metrics) -> None:
        self._objects = objects
        self._metrics = metrics
        self._csi_nodes = CSINodes(objects)

    def pod_claims(self, pod: Pod) -> PodClaims | Status:
        """Sort the pod's claims, all of which exist; an error for a class without binding mode."""
        bound: list[PersistentVolumeClaim] = []
        delayed: list[PersistentVolumeClaim] = []
        immediate: list[PersistentVolumeClaim] = []
        for volume in claim_volumes(pod):
            claim = claim_of(self._objects, pod, volume)
            if claim is None:
                continue
            if claim.fully_bound:
                bound.append(claim)
                continue
            storage_class = self._class(claim)
            if storage_class is not None and not storage_class.volume_binding_mode:
                return Status(Code.ERROR, (f'VolumeBindingMode not set for StorageClass "{storage_class.name}"',))
            waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            # A claim that names its volume waits for the controller, whatever the class.
            (delayed if waits and not claim.volume_name else immediate).append(claim)
        return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))

    def new_volumes(self, claims: PodClaims, rows: int) -> PodVolumes:
        """An empty result for so many rows; `find` fills it in."""
        selected = [c for c in claims.delayed if SELECTED_NODE_ANNOTATION in c.annotations]
        matched = [c for c in claims.delayed if SELECTED_NODE_ANNOTATION not in c.annotations]
        # The smallest claims first, so that each gets the smallest volume that will do.
        matched.sort(key=lambda c: c.requested)
        return PodVolumes((*selected, *matched), self._within_reach(matched), rows)

    def _within_reach(self, claims: Sequence[PersistentVolumeClaim]) -> list[PersistentVolume]:
        """The volumes that nobody has claimed, or one of the claims has; all others are bound, as most are."""
        class_names = {claim.storage_class_name or "" for claim in claims}
        owners = [None, *dict.fromkeys((claim.namespace, claim.name) for claim in claims)] if claims else []
        volumes = (volume for owner in owners for volume in self._objects.indexed(PERSISTENT_VOLUME, CLAIM, owner))
        return [volume for volume in volumes if volume.storage_class_name in class_names]

    def find(self, claims: PodClaims, volumes: PodVolumes, view: RowView) -> Verdicts:
        """Judge the rows of the view, and enter into `volumes` what was found for them."""
        due = volumes.unjudged(view)
        if len(due):
            judged = self._judge(claims, volumes, due)
            if judged.faulty:
                self._metrics.volume_stage_failed("predicate")
            volumes.enter(due.rows, judged)
        return volumes.verdicts(view)

    def _judge(self, claims: PodClaims, volumes: PodVolumes, view: RowView) -> Verdicts:
        findings = _Findings(len(view))
        self._check_bound(claims.bound, view, findings)
        if volumes.order:
            findings.reopen()
            selected = self._check_selected_nodes(volumes.order, view, findings)
            self._match(volumes, selected, view)
            for i, claim in enumerate(volumes.order):
                needed = findings.open & (volumes.static[i, view.rows] < 0)
                if needed.any():
                    self._check_provision(i, claim, needed, volumes, view, findings)
        return findings.verdicts()

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], view: RowView, findings: _Findings) -> None:
        """The first claim that fails on a row is the one that counts there."""
        for claim in claims:
            volume: PersistentVolume | None = self._objects.get(PERSISTENT_VOLUME, "", claim.volume_name)
            if volume is None:
                findings.refuse(findings.open.copy(), _NO_VOLUME)
                return
            reachable = reaches(place_of_terms(volume.node_affinity), view)
            migrated = self._migrated(volume, view)
            if migrated is not None:
                try:
                    translated = place_of_terms(translate_volume(volume).node_affinity)
                except TranslationError as error:
                    findings.fault(findings.open & migrated, f"could not translate pv: {error}")
                else:
                    reachable = np.where(migrated, reaches(translated, view), reachable)
            findings.refuse(findings.open & ~reachable, _NODE_CONFLICT)

    def out_of_reach(self, claims: PodClaims, view: RowView) -> list[str]:
        """The volumes that the row of the view cannot use, with their claims, in words."""
        found = []
        for claim in claims.bound:
            findings = _Findings(len(view))
            self._check_bound((claim,), view, findings)
            if not findings.open[0]:
                found.append(f"volume {claim.volume_name} of claim {claim.name} is not reachable from there")
        return found

    def _migrated(self, volume: PersistentVolume, view: RowView) -> Mask | None:
        """Nodes that serve a volume of this in-tree type through CSI, None where there is no such node."""
        plugin = IN_TREE_PLUGINS.get(volume.source_kind)
        if plugin is None:
            return None
        ids, profiles = self._csi_nodes.ids(view)
        migrated: Mask = np.array([plugin in profile.migrated for profile in profiles], np.bool_)[ids]
        return migrated if migrated.any() else None

    @staticmethod
    def _check_selected_nodes(order: Sequence[PersistentVolumeClaim], view: RowView, findings: _Findings) -> int:
        """Claims that are being provisioned for a node already can be had only there. Returns how many these are."""
        count = 0
        for claim in order:
            node_name = claim.annotations.get(SELECTED_NODE_ANNOTATION)
            if node_name is None:
                break
            findings.refuse(view.rows != view.columns.row_of.get(node_name, -1), _BIND_CONFLICT)
            count += 1
        return count

    @staticmethod
    def _match(volumes: PodVolumes, selected: int, view: RowView) -> None:
        """Give each row's claims the volumes they would get there, one after the other."""
        matching = VolumeMatching(volumes.volumes)
        taken: list[Ranks] = []
        for i in range(selected, len(volumes.order)):
            found = matching.best(volumes.order[i], taken, view)
            volumes.static[i, view.rows] = found
            taken.append(found)

    def _check_provision(
        self,
        index: int,
        claim: PersistentVolumeClaim,
        needed: Mask,
        volumes: PodVolumes,
        view: RowView,
        findings: _Findings,
    ) -> None:
        storage_class = self._class(claim)
        if storage_class is None:
            findings.fault(needed, f'failed to find storage class "{claim.storage_class_name}"')
            return
        if storage_class.provisioner in ("", NO_PROVISIONER):
            findings.refuse(needed, _BIND_CONFLICT)
            return
        allowed = reaches(place_of_topologies(storage_class.allowed_topologies), view)
        findings.refuse(needed & ~allowed, _BIND_CONFLICT)
        if not claim.requested or not self._tracks_capacity(storage_class.provisioner):
            return
        needed &= allowed
        capacities = self._sufficient(storage_class.name, claim.requested)
        first = first_reaching([place_of_selector(c.node_topology) for c in capacities], view)
        findings.refuse(needed & (first < 0), _NO_SPACE)
        volumes.room[index, view.rows] = np.where(needed & (first >= 0), first + len(volumes.capacities), -1)
        volumes.capacities += capacities

    def _tracks_capacity(self, provisioner: str) -> bool:
        driver: CSIDriver | None = self._objects.get("CSIDriver", "", provisioner)
        return driver is not None and driver.storage_capacity

    def _sufficient(self, class_name: str, size: int) -> list[CSIStorageCapacity]:
        """What tells of room for a volume of that size, in an order that does not change from one look to the next."""
        found: list[CSIStorageCapacity] = [
            capacity
            for capacity in self._objects.indexed("CSIStorageCapacity", STORAGE_CLASS, class_name)
            if (limit := volume_limit(capacity)) is not None and limit >= size
        ]
        return sorted(found, key=lambda capacity: (capacity.namespace, capacity.name))

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        if not claim.storage_class_name:
            return None
        found: StorageClass | None = self._objects.get("StorageClass", "", claim.storage_class_name)
        return found


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The size in bytes of the largest volume there is room for; maximumVolumeSize is more exact than the capacity."""
    return capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
