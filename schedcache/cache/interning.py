"""Ids for the values of one attribute of all nodes, so that plugins can compare integers, a column at a time.

Invariants
    `values[ids[row]]` is the row's value, or `ids[row]` is ABSENT; each value is in `values` once.
    An id stands for one value as long as `values` is the same list. Whatever is kept by id must be kept with that list.
    `values` holds every value that a row has. Unused ones are removed when `values` has more than doubled, and grown by
    1,024, since the last removal.

A column belongs to one snapshot, and a snapshot to one thread at a time, so no thread can see a change half done.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)

ABSENT = -1
_SLACK = 1024


class InternedColumn(Generic[T]):
    """`ids[row]` is the index in `values` of the row's value, ABSENT (-1) if it has none.

    Ids are stable as long as `values` is the same list: when more values may be unused than used, both are replaced.
    """

    def __init__(self, capacity: int) -> None:
        self.ids: npt.NDArray[np.int32] = np.full(capacity, ABSENT, np.int32)
        self.values: list[T] = []
        self._id_of: dict[T, int] = {}
        self._most = _SLACK

    def set(self, row: int, value: T | None) -> None:
        """Give the row a value; None is absent."""
        self.ids[row] = ABSENT if value is None else self._intern(value)
        if len(self.values) > self._most:
            self._compact()

    def grow(self, capacity: int) -> None:
        self.ids = np.append(self.ids, np.full(capacity - len(self.ids), ABSENT, np.int32))

    def is_sound(self) -> bool:
        """Whether each value has one id, which leads back to it."""
        return self._id_of == {value: i for i, value in enumerate(self.values)} and len(self._id_of) == len(self.values)

    def _intern(self, value: T) -> int:
        found = self._id_of.get(value)
        if found is None:
            found = self._id_of[value] = len(self.values)
            self.values.append(value)
        return found

    def _compact(self) -> None:
        """Drop the values that no row has."""
        rows = np.nonzero(self.ids != ABSENT)[0]
        present = [self.values[i] for i in self.ids[rows]]
        self.values, self._id_of = [], {}
        self.ids[rows] = [self._intern(value) for value in present]
        self._most = 2 * len(self.values) + _SLACK
