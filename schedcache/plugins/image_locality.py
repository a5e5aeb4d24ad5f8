"""ImageLocality: nodes that have the pod's images already."""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from schedcache.framework import MAX_NODE_SCORE, CycleState, Handle, Locality, RowView, Scores
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Columns, NodeInfo, Snapshot

_MIN_THRESHOLD = 23 * 1024 * 1024
_MAX_CONTAINER_THRESHOLD = 1000 * 1024 * 1024
_BEYOND = 2**62


class ImageLocality:
    """Scores by the bytes that need not be pulled, each image weighted by the share of nodes that have it."""

    name = "ImageLocality"
    score_locality = Locality.ROW

    def __init__(self, _args: Any, _handle: Handle) -> None:
        self._holders: WeakKeyDictionary[Columns, _ImageHolders] = WeakKeyDictionary()

    @staticmethod
    def locality_key(snapshot: "Snapshot") -> int:
        """An image's share of the nodes depends on how many there are."""
        return snapshot.num_nodes

    def score(self, _state: CycleState, pod: Pod, view: RowView) -> Scores:
        images = [_normalized(image) for image in pod.spec.images]
        nodes = view.snapshot.num_nodes
        sums = np.zeros(len(view), np.int64)
        holders = self._holders.get(view.columns)
        if holders is None:
            holders = self._holders[view.columns] = _ImageHolders()
        holders.update(view.columns)
        rows = {row for image in images for row in holders.rows.get(image, ())}
        if not rows:
            return sums
        for position in np.flatnonzero(np.isin(view.rows, list(rows))).tolist():
            sums[position] = _sum(view.node_info(position), images, nodes)
        most = max(_MAX_CONTAINER_THRESHOLD * len(images), _MIN_THRESHOLD + 1)
        return MAX_NODE_SCORE * (np.clip(sums, _MIN_THRESHOLD, most) - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)


class _ImageHolders:
    """Which rows have which image, brought up to date by the rows that moved: most pods' images are on few nodes or none."""

    def __init__(self) -> None:
        self.rows: dict[str, set[int]] = {}
        self._shown: dict[int, Any] = {}
        self._version = 0

    def update(self, columns: "Columns") -> None:
        # What images a node has is part of its object; pods that come and go do not matter here.
        newest = int(columns.node_generation.max())
        if newest <= self._version:
            return
        for row in np.flatnonzero(columns.node_generation > self._version).tolist():
            states = columns.infos[row].image_states
            before = self._shown.get(row, ())
            if states is before:
                continue
            for image in before:
                holders = self.rows[image]
                holders.discard(row)
                if not holders:
                    del self.rows[image]
            for image in states:
                self.rows.setdefault(image, set()).add(row)
            self._shown[row] = states
        self._version = newest


def _sum(info: "NodeInfo", images: list[str], nodes: int) -> int:
    total = 0
    for image in images:
        state = info.image_states.get(image)
        if state is not None:
            total += int(float(state.size) * (float(state.num_nodes) / float(nodes)))
    # Sizes are not validated: they may be negative, or too large for a sum of 64 bits.
    return max(0, min(total, _BEYOND))


def _normalized(image: str) -> str:
    """The name with a tag, as the node's status has it; a colon before the last slash belongs to a registry's port."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"
