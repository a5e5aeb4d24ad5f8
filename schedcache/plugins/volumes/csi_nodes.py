"""What CSINode objects say about nodes, as columns: nodes with the same drivers and limits share a profile."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from schedcache.cache import ClusterObjects
from schedcache.framework import RowView
from schedcache.model import CSINode
from schedcache.plugins.nodes.row_numbers import Numbers, RowNumbers

if TYPE_CHECKING:
    from schedcache.cache import NodeInfo

CSI_NODE = "CSINode"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"


class CSINodeProfile(msgspec.Struct, frozen=True, gc=False):
    """What nodes have in common.

    `limits`: driver -> volumes at most, None if the driver reports no limit; drivers that are not listed are not installed.
    `migrated`: names of the in-tree plugins whose volumes go through CSI there. `exists` False: there is no CSINode.
    """

    limits: Mapping[str, int | None] = {}
    migrated: frozenset[str] = frozenset()
    exists: bool = True

    @property
    def tells_limits(self) -> bool:
        """Whether any driver reports a limit."""
        return any(limit is not None for limit in self.limits.values())


_NONE = CSINodeProfile(exists=False)


class CSINodes:
    """Profiles of the nodes. Their numbers are valid until the next call of `ids`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._generation = -1
        self._ids = RowNumbers(self._id_of)
        self._known: dict[tuple[object, ...], int] = {}
        self._profiles: list[CSINodeProfile] = [_NONE]

    def ids(self, view: RowView) -> tuple[Numbers, Sequence[CSINodeProfile]]:
        """For each position the index of its profile in the list; 0 = no CSINode."""
        generation = self._objects.generation(CSI_NODE)
        if generation != self._generation:
            self._known, self._profiles, self._generation = {}, [_NONE], generation
        return self._ids.of(view.columns, generation)[view.rows], self._profiles

    def _id_of(self, info: "NodeInfo") -> int:
        csi_node: CSINode | None = self._objects.get(CSI_NODE, "", info.name)
        if csi_node is None:
            return 0
        limits = {driver.name: driver.allocatable_count for driver in csi_node.drivers}
        migrated = migrated_plugins(csi_node)
        key = (migrated, *sorted(limits.items(), key=lambda item: item[0]))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._profiles)
            self._profiles.append(CSINodeProfile(limits, migrated))
        return found


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    """Names in the annotation that the kubelet keeps."""
    return frozenset(csi_node.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "").split(",")) - {""}
