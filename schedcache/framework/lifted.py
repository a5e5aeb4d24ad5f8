"""Pods taken off many rows at once, and put back one by one, in thought: a mask over the slots of a `PodTable`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from schedcache.model import Pod, PodShape

if TYPE_CHECKING:
    from schedcache.cache import PodTable

Rows = npt.NDArray[np.intp]
Amounts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# With up to 2**9 pods a node the sums of such amounts fit into 64 bits; larger ones are added up as Python's integers.
_SAFE = 2**53
_BEYOND = 2**62


class _Sums(NamedTuple):
    """What the pods that are off come to, by position; `values` is by kind. `owner` is what the key is the id of."""

    owner: object
    values: Amounts
    sums: Amounts


class _Part(NamedTuple):
    """What a part was taken of, and how often that had changed by then."""

    whole: "LiftedPods"
    positions: Rows
    turns: int

    @property
    def current(self) -> bool:
        return self.whole.turns == self.turns


class LiftedPods:
    """For each position of a view the slots of its row whose pods are off; `kinds` and `off` are [position, slot].

    Sums are made when they are asked for the first time, and follow `put_back` and `take_off` from then on. A part that
    `take` made has them from the whole, as long as neither has changed since.
    """

    __slots__ = ("_part", "count", "kinds", "off", "rows", "sums", "table", "turns", "used")

    def __init__(
        self, table: "PodTable", rows: Rows, kinds: npt.NDArray[np.int32], off: Mask, part: _Part | None = None
    ) -> None:
        """`off` is changed by `put_back` and `take_off`."""
        self.table = table
        self.rows = rows
        self.kinds = kinds
        self.off = off
        self.count: Amounts = off.sum(axis=1) if part is None else part.whole.count[part.positions]
        """How many pods are off, by position."""
        self.used: list[int] = _present(kinds[off]) if part is None else part.whole.used
        """The kinds of the pods that are off, or were at first."""
        self.turns = 0
        """How often pods have been put back or taken off."""
        self.sums: dict[object, _Sums] = {}
        self._part = part

    def take(self, positions: Rows) -> "LiftedPods":
        """The same for a part of the positions."""
        part = _Part(self, positions, self.turns)
        taken = LiftedPods(self.table, self.rows[positions], self.kinds[positions], self.off[positions], part)
        taken.sums = {key: s._replace(sums=s.sums[positions]) for key, s in self.sums.items()}
        return taken

    def put_back(self, positions: Rows, slots: Rows) -> None:
        """One pod each, which is off, on different positions."""
        self._turn(positions, slots, off=False)

    def take_off(self, positions: Rows, slots: Rows) -> None:
        """One pod each, which has been put back, on different positions."""
        self._turn(positions, slots, off=True)

    def _turn(self, positions: Rows, slots: Rows, *, off: bool) -> None:
        self._part = None
        self.turns += 1
        self.off[positions, slots] = off
        sign = 1 if off else -1
        self.count[positions] += sign
        kinds = self.kinds[positions, slots]
        for kept in self.sums.values():
            kept.sums[positions] += sign * kept.values[kinds]

    def requested(self, resource: str) -> Amounts:
        """What the pods that are off request together."""
        return self._requested(resource, self.table.amounts(resource))

    def non_zero_requested(self, index: int) -> Amounts:
        """The same with what containers without requests count for in scores: milli-CPU (0) or bytes (1)."""
        return self._requested(index, self.table.non_zero_amounts(index))

    def worth(self, worth: Mapping[PodShape, int]) -> Amounts:
        """What the pods that are off count for together; `worth` is asked once for each kind of pod."""

        def by_kind() -> Amounts:
            values = np.zeros(len(self.table.priority), np.int64)
            for kind in self.used:
                shape = self.table.shape(kind)
                values[kind] = worth[shape] if shape is not None else 0
            return values

        return self.summed(id(worth), worth, by_kind).sums

    def summed(self, key: object, owner: object, by_kind: Callable[[], Amounts]) -> _Sums:
        """The sums kept under the key; `by_kind` makes the values that are added up where they are not kept yet."""
        kept = self.sums.get(key)
        if kept is None:
            if self._part is not None and self._part.current:
                of_whole = self._part.whole.summed(key, owner, by_kind)
                kept = of_whole._replace(sums=of_whole.sums[self._part.positions])
            else:
                values = by_kind()
                kept = _Sums(owner, values, self._add_up(values))
            self.sums[key] = kept
        return kept

    def shapes(self) -> set[PodShape]:
        """The shapes of the pods that are off, or were at first."""
        found = map(self.table.shape, self.used)
        return {shape for shape in found if shape is not None}

    def pods(self, position: int) -> list[Pod]:
        """The pods that are off, the most important first."""
        slots = np.flatnonzero(self.off[position]).tolist()
        if not slots:
            return []
        pods = self.table.pods(int(self.rows[position]))
        return [pods[slot] for slot in slots]

    def _requested(self, key: object, values: Amounts) -> Amounts:
        if values.max(initial=0) > _SAFE:
            exact = self._add_up(values.astype(object))
            return np.array([min(amount, _BEYOND) for amount in exact.tolist()], np.int64)
        return self.summed(key, None, lambda: values).sums

    def _add_up(self, values: npt.NDArray[np.generic]) -> Amounts:
        if not np.count_nonzero(values):
            return np.zeros(len(self.off), np.int64)
        total: Amounts = np.where(self.off, values[self.kinds], 0).sum(axis=1)
        return total


def _present(kinds: npt.NDArray[np.int32]) -> list[int]:
    return np.flatnonzero(np.bincount(kinds, minlength=1)).tolist()
