"""A count for each node row: a dict while few rows have one, an array from then on."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int32]

_FEW = 64


class RowCounts:
    """Sparse counts by row."""

    __slots__ = ("_dense", "_few")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._dense: Counts | None = None

    @property
    def size(self) -> int:
        """A number of rows that is beyond every row with a count."""
        return len(self._dense) if self._dense is not None else max(self._few, default=-1) + 1

    def add(self, row: int, delta: int) -> None:
        dense = self._dense
        if dense is not None:
            if row >= len(dense):
                dense = self._dense = self.column(2 * row)
            dense[row] += delta
            return
        few = self._few
        left = few.get(row, 0) + delta
        if left:
            few[row] = left
            if len(few) > _FEW:
                self._unfold()
        else:
            few.pop(row, None)

    def column(self, rows: int) -> Counts:
        """The counts of rows 0..rows-1, for reading only; `rows` is beyond every row that has one."""
        dense = self._dense
        if dense is not None and len(dense) >= rows:
            return dense[:rows]
        column = np.zeros(rows, np.int32)
        if dense is not None:
            column[: len(dense)] = dense
        else:
            for row, count in self._few.items():
                column[row] = count
        return column

    def items(self) -> Iterator[tuple[int, int]]:
        """(row, count) pairs without the zeros."""
        if self._dense is None:
            yield from self._few.items()
        else:
            for row in np.flatnonzero(self._dense).tolist():
                yield row, int(self._dense[row])

    def _unfold(self) -> None:
        highest = max(self._few)
        # An array costs 4 bytes a row, a dict entry about 100: with rows far apart the dict stays the smaller one.
        if highest < 32 * len(self._few):
            self._dense = self.column(highest + 1 + highest // 2)
            self._few = {}
