"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach."""

from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from schedcache.cache.cluster_objects import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from schedcache.framework import (
    SKIP,
    Code,
    CycleState,
    EventHint,
    Handle,
    RowView,
    Status,
    StatusTable,
    Verdicts,
    unresolvable,
    unschedulable,
)
from schedcache.model import CSIDriver, CSINode, Pod, VolumeAttachment
from schedcache.plugins.nodes.row_numbers import Numbers, RowNumbers
from schedcache.plugins.volumes.attached import (
    VOLUME_ATTACHMENT,
    Attached,
    MissingClaimError,
    VolumeUse,
    VolumeUseError,
)
from schedcache.plugins.volumes.csi_nodes import CSI_NODE, CSINodeProfile, CSINodes
from schedcache.plugins.volumes.csi_translation import IN_TREE_PLUGINS, translate_inline
from schedcache.plugins.volumes.pod_claims import claim_volumes, hint_by_name

if TYPE_CHECKING:
    from schedcache.cache import Columns, NodeInfo, Snapshot

_REASON = unschedulable("node(s) exceed max volume count")
_CSI_DRIVER = "CSIDriver"
_NO_LIMIT = 2**40
# More than any limit: rows whose pods have volumes that kube-scheduler may fail to count are always looked at one by one.
_LOOK = 2**41
_MAY_FAIL = frozenset({"awsElasticBlockStore", "azureDisk"})

_Answer = Status | None
_Count = tuple[Attached, Counter[str]]
"""What the pods of a row attach, and how many volumes each driver has attached in all."""
_Kept = dict[int, tuple[int, _Count]]
"""By row, with the row's generation."""


class NodeVolumeLimits:
    """Counts the volumes of pods, and those attached though no pod uses them, by driver, against the limits of the CSINode.

    A driver whose CSIDriver has preventPodSchedulingIfMissing must be on the node; other drivers that are not there, or
    report no limit, allow any number of volumes.

    Volumes are looked up node by node only where references to claims and attachments, taken together, could exceed the
    limit at all.
    """

    name = "NodeVolumeLimits"
    kinds = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, "StorageClass", CSI_NODE, _CSI_DRIVER, VOLUME_ATTACHMENT)

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._objects = handle.cluster_objects
        self._use = VolumeUse(handle.cluster_objects)
        self._csi_nodes = CSINodes(handle.cluster_objects)
        self._references = RowNumbers(_count_references)
        self._attachments = RowNumbers(self._count_attachments)
        self._counted: WeakKeyDictionary[Columns, tuple[tuple[int, ...], _Kept]] = WeakKeyDictionary()

    @staticmethod
    def pre_filter(_state: CycleState, pod: Pod, _snapshot: "Snapshot") -> Status | None:
        return None if any(_attaches(v.source_kind) for v in pod.volumes) else SKIP

    def filter(self, _state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        ids, profiles = self._csi_nodes.ids(view)
        present = np.unique(ids).tolist()
        news = {exists: self._new_volumes(pod, csi_node=exists) for exists in {profiles[i].exists for i in present}}
        answers: dict[int, _Answer] = {}
        room = np.full(len(profiles), _NO_LIMIT, np.int64)
        for i in present:
            new = news[profiles[i].exists]
            answers[i] = new if isinstance(new, Status) else self._missing_driver(new, profiles[i])
            room[i] = _LOOK if isinstance(new, Status) or not new else _room(new, profiles[i])
        tally = _Tally(len(view))
        for i, answer in answers.items():
            if answer is not None:
                tally.answer(ids == i, answer)
        suspects = np.flatnonzero((self._bound(view) > room[ids]) & (tally.codes == 0)).tolist()
        kept = self._kept(view.columns) if suspects else {}
        for position in suspects:
            profile = profiles[int(ids[position])]
            new = news[profile.exists]
            if not isinstance(new, Status):
                tally.answer(position, self._count(new, profile, view, position, kept))
        return tally.verdicts()

    def _new_volumes(self, pod: Pod, *, csi_node: bool) -> dict[str, str] | Status:
        try:
            return self._use.of_new_pod(pod, csi_node=csi_node)
        except MissingClaimError as error:
            return unresolvable(str(error))
        except VolumeUseError as error:
            return Status(Code.ERROR, (str(error),))

    def _missing_driver(self, new: Attached, profile: CSINodeProfile) -> _Answer:
        for name in sorted(set(new.values()) - profile.limits.keys()):
            driver: CSIDriver | None = self._objects.get(_CSI_DRIVER, "", name)
            if driver is not None and driver.prevent_pod_scheduling_if_missing:
                return unschedulable(f"{name} CSI driver is not installed on the node")
        return None

    def _bound(self, view: RowView) -> Numbers:
        """For each row a number that the count of its volumes cannot exceed."""
        columns = view.columns
        generation = self._objects.generation(VOLUME_ATTACHMENT)
        bound: Numbers = self._references.of(columns)[view.rows] + self._attachments.of(columns, generation)[view.rows]
        for position in view.changed:
            bound[position] += sum(map(_references, view.added(position)))
        np.minimum(bound, _LOOK, out=bound)
        return bound

    def _count_attachments(self, info: "NodeInfo") -> int:
        return len(self._objects.indexed(VOLUME_ATTACHMENT, NODE, info.name))

    def _count(self, new: Attached, profile: CSINodeProfile, view: RowView, position: int, kept: "_Kept") -> _Answer:
        try:
            by_pods, by_driver = self._attached(profile, view, position, kept)
        except VolumeUseError as error:
            return Status(Code.ERROR, (str(error),))
        added = Counter(driver for name, driver in new.items() if name not in by_pods)
        for driver, count in added.items():
            limit = profile.limits.get(driver)
            if limit is not None and by_driver[driver] + count > limit:
                return _REASON
        return None

    def _kept(self, columns: "Columns") -> "_Kept":
        """What was looked up row by row, valid until one of the objects that it came from changes."""
        generations = tuple(map(self._objects.generation, self.kinds))
        held = self._counted.get(columns)
        if held is None or held[0] != generations:
            held = self._counted[columns] = generations, {}
        return held[1]

    def _attached(self, profile: CSINodeProfile, view: RowView, position: int, kept: "_Kept") -> "_Count":
        if view.added(position) or view.removed(position):
            return self._look_up(profile, view, position)
        row = int(view.rows[position])
        generation = int(view.columns.generation[row])
        held = kept.get(row)
        if held is None or held[0] != generation:
            held = kept[row] = generation, self._look_up(profile, view, position)
        return held[1]

    def _look_up(self, profile: CSINodeProfile, view: RowView, position: int) -> "_Count":
        by_pods = self._use.of_pods(view.pods(position), csi_node=profile.exists)
        attachments = self._use.of_attachments(view.name(position))
        return by_pods, Counter((attachments | by_pods).values())

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint(CSI_NODE, ("Add",)),
            EventHint(CSI_NODE, ("Update",), _limit_grew, by_shape=True),
            EventHint("AssignedPod", ("Delete",), _detaches),
            EventHint(PERSISTENT_VOLUME_CLAIM, ("Add",), hint_by_name(ephemeral=True)),
            EventHint(VOLUME_ATTACHMENT, ("Delete",), _detached),
        ]


class _Tally:
    """Verdicts as they come in."""

    def __init__(self, size: int) -> None:
        self.codes = np.zeros(size, np.int32)
        self._table = StatusTable()

    def answer(self, where: Any, status: _Answer) -> None:
        """`where`: a position, or a mask of positions."""
        if status is not None:
            self.codes[where] = self._table.code(status)

    def verdicts(self) -> Verdicts:
        return Verdicts(self.codes, self._table.statuses)


def _room(new: Attached, profile: CSINodeProfile) -> int:
    """How many volumes may be attached already for the new ones to fit for sure."""
    if not profile.tells_limits:
        return _LOOK
    counts = Counter(new.values())
    limits = ((profile.limits.get(driver), count) for driver, count in counts.items())
    return min((limit - count for limit, count in limits if limit is not None), default=_NO_LIMIT)


def _count_references(info: "NodeInfo") -> int:
    return sum(_references(pod) for pod in info.pods if pod.volumes)


def _references(pod: Pod) -> int:
    if any(v.ephemeral or v.source_kind in _MAY_FAIL for v in pod.volumes):
        return _LOOK
    return sum(_attaches(v.source_kind) for v in pod.volumes)


def _attaches(source_kind: str) -> bool:
    """Whether a volume of the kind may be a CSI volume: claims, which have no kind of their own, and migrated types."""
    return not source_kind or source_kind in IN_TREE_PLUGINS


def _limit_grew(_pod: Pod, old: CSINode, new: CSINode) -> bool:
    """A driver without a limit counts as one with the limit 0, as in kube-scheduler."""
    before = {driver.name: driver.allocatable_count or 0 for driver in old.drivers}
    return any((driver.allocatable_count or 0) > before.get(driver.name, 0) for driver in new.drivers)


def _detaches(_pod: Pod, deleted: Pod, _new: Pod | None) -> bool:
    if not (deleted.node_name or deleted.nominated_node_name):
        return False
    return any(_attaches(v.source_kind) for v in deleted.volumes)


def _detached(pod: Pod, deleted: VolumeAttachment, _new: VolumeAttachment | None) -> bool:
    if next(claim_volumes(pod, ephemeral=False), None) is not None:
        return True
    inline = (v for v in pod.volumes if v.source_kind in IN_TREE_PLUGINS)
    return any(translate_inline(v).driver == deleted.attacher for v in inline)
