"""A number for each row, computed from its node and pods in Python, and again only for rows that changed."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from schedcache.cache import Columns, NodeInfo

Numbers = npt.NDArray[np.int64]


class RowNumbers:
    """`measure(node_info)` of every row, on each snapshot's columns apart.

    A row without a node is measured, too: its NodeInfo has the name "" and no pods.
    """

    def __init__(self, measure: "Callable[[NodeInfo], int]") -> None:
        self._measure = measure
        self._kept: WeakKeyDictionary[Columns, _Kept] = WeakKeyDictionary()

    def of(self, columns: "Columns", key: Hashable = None) -> Numbers:
        """By row. `key` stands for everything else that the numbers depend on: if it changes, every row is measured again."""
        kept = self._kept.get(columns)
        if kept is None or kept.key != key:
            kept = self._kept[columns] = _Kept(key, len(columns.generation))
        if kept.version != columns.version:
            kept.update(columns, self._measure)
        return kept.numbers


class _Kept:
    __slots__ = ("key", "numbers", "version")

    def __init__(self, key: Hashable, capacity: int) -> None:
        self.key = key
        self.version = -1
        self.numbers: Numbers = np.zeros(capacity, np.int64)

    def update(self, columns: "Columns", measure: "Callable[[NodeInfo], int]") -> None:
        rows = columns.order if self.version < 0 else columns.changed_since(self.version)
        missing = len(columns.generation) - len(self.numbers)
        if missing > 0:
            self.numbers = np.concatenate([self.numbers, np.zeros(missing, np.int64)])
        infos = columns.infos
        for row in rows.tolist():
            self.numbers[row] = measure(infos[row])
        self.version = columns.version
