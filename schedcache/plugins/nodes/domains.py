"""Topology domains: nodes that have the same value of a label, and pods counted by them.

A *slot* is a node's domain as a number: 0 where the node is in none, else 1 + the id of its label's value.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from schedcache.cache import Columns
from schedcache.model import PodShape

Slots = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


def slots_of(columns: Columns, key: str) -> Slots:
    """The slot of each row in use, by the label `key`."""
    slots: Slots = columns.label_ids(key)[: columns.rows] + np.int32(1)
    return slots


def slot_count(columns: Columns, key: str) -> int:
    """How many slots there are, slot 0 included."""
    return len(columns.label_values(key)) + 1


def sum_by_slot(slots: Slots, counts: npt.NDArray[np.integer], size: int) -> Ints:
    """The counts of all rows added up by slot; slot 0, the rows that are in no domain, has 0."""
    # bincount adds doubles: exact below 2**53, far beyond any number of pods times their weights.
    sums = np.bincount(slots, weights=counts, minlength=size).astype(np.int64)
    sums[0] = 0
    return sums


class DomainCounts:
    """Counts by the domains of one topology key."""

    __slots__ = ("key", "slots", "sums")

    def __init__(self, columns: Columns, key: str, counts: npt.NDArray[np.integer]) -> None:
        self.key = key
        self.slots = slots_of(columns, key)
        self.sums = sum_by_slot(self.slots, counts, slot_count(columns, key))


class Worth(dict[PodShape, int]):
    """What one pod of a shape counts for, found out once per shape."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[PodShape], int]) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, shape: PodShape) -> int:
        found = self[shape] = self._count(shape)
        return found
