"""Rows without and with the pods that are nominated to them: a pod has to fit both ways (RunFilterPluginsWithNominatedPods)."""

from collections.abc import Mapping, Sequence

import numpy as np

from schedcache.framework.row_view import HypotheticalView, Rows, RowView
from schedcache.model import Pod

_NOWHERE: Rows = np.empty(0, np.intp)


class SharedView:
    """`view` has the rows as they are; `crowded` those at `positions` of it (ascending) with their nominated pods added."""

    __slots__ = ("crowded", "positions", "view")

    def __init__(self, view: RowView, positions: Rows, crowded: HypotheticalView | None) -> None:
        self.view = view
        self.positions = positions
        self.crowded = crowded

    @classmethod
    def with_guests(cls, view: RowView, guests: Mapping[int, Sequence[Pod]]) -> "SharedView":
        """`guests`: position -> the pods nominated there that count."""
        if not guests:
            return cls(view, _NOWHERE, None)
        positions = np.array(sorted(guests), np.intp)
        crowded = view.take(positions).hypothetical()
        crowded.add_pods({i: guests[position] for i, position in enumerate(positions.tolist())})
        return cls(view, positions, crowded)

    def __len__(self) -> int:
        return len(self.view)

    def take(self, positions: Rows) -> "SharedView":
        """A part of the rows, with all that was added and taken off."""
        view = self.view.take(positions)
        if self.crowded is None:
            return SharedView(view, self.positions, None)
        having, which = self._crowded_at(positions)
        return SharedView(view, np.flatnonzero(having), self.crowded.take(which))

    def put_back(self, positions: Rows, slots: Rows) -> None:
        """Put pods back that `HypotheticalView.with_pods_off` took off, one on each of different positions."""
        self.view.lifted.put_back(positions, slots)
        if self.crowded is not None:
            having, which = self._crowded_at(positions)
            self.crowded.lifted.put_back(which, slots[having])

    def take_off(self, positions: Rows, slots: Rows) -> None:
        """Undo `put_back`."""
        self.view.lifted.take_off(positions, slots)
        if self.crowded is not None:
            having, which = self._crowded_at(positions)
            self.crowded.lifted.take_off(which, slots[having])

    def _crowded_at(self, positions: Rows) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Rows]:
        """Which of the positions are crowded, and where these are in `crowded`."""
        where = np.full(len(self.view), -1, np.intp)
        where[self.positions] = np.arange(len(self.positions))
        found = where[positions]
        having = found >= 0
        return having, found[having]
