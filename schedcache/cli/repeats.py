"""Warnings and errors that repeat: the first is told at once, and then one line a minute says how often there were more.

What is alike is decided on two levels. Lines that say the same are one line. And of lines of one *kind*, which come from one place
of the program but say different things, the first few are told; the others are one line together. So what a fault can
write is limited, whatever varies in what it says.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

INTERVAL_SECONDS = 60.0
MOST_VARIANTS = 10
"""Of one kind, told in one interval."""
MOST_KINDS = 256

T = TypeVar("T")


class _Count(Generic[T]):
    """What was left out since the last line, and the newest of it."""

    __slots__ = ("latest", "number")

    def __init__(self) -> None:
        self.number = 0
        self.latest: T | None = None

    def add(self, line: T) -> None:
        self.number += 1
        self.latest = line


class _Kind(Generic[T]):
    """The lines of one kind: those told in this interval, and all others."""

    __slots__ = ("ends", "others", "told")

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.told: dict[Hashable, _Count[T]] = {}
        self.others: _Count[T] = _Count()

    def counts(self) -> list[_Count[T]]:
        return [count for count in (*self.told.values(), self.others) if count.number]


class Repeats(Generic[T]):
    """Decides which lines are told; may be asked by several threads. What it holds is limited."""

    def __init__(self, tell: Callable[[T, int], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`tell` is called with the newest of the lines that were left out, and how many these are."""
        self._tell = tell
        self._clock = clock
        # By end of the interval.
        self._kinds: OrderedDict[Hashable, _Kind[T]] = OrderedDict()
        self._lock = threading.RLock()

    def admits(self, kind: Hashable, variant: Hashable, line: T) -> bool:
        """Whether the line is to be told now; otherwise it is counted."""
        with self._lock:
            self.tell_due()
            found = self._kinds.get(kind)
            if found is None:
                if len(self._kinds) >= MOST_KINDS:
                    self._tell_counts(self._kinds.popitem(last=False)[1])
                found = self._kinds[kind] = _Kind(self._clock() + INTERVAL_SECONDS)
            count = found.told.get(variant)
            if count is None and len(found.told) < MOST_VARIANTS:
                found.told[variant] = _Count()
                return True
            (count or found.others).add(line)
            return False

    def tell_due(self) -> float | None:
        """Tell of intervals that are over; in how many seconds the next one will be, None without any."""
        with self._lock:
            now = self._clock()
            while self._kinds:
                name, kind = next(iter(self._kinds.items()))
                if kind.ends > now:
                    return kind.ends - now
                del self._kinds[name]
                if self._tell_counts(kind):
                    # It goes on: what was told counts as told for another interval.
                    again = self._kinds[name] = _Kind(now + INTERVAL_SECONDS)
                    again.told = {variant: _Count() for variant, count in kind.told.items() if count.number}
            return None

    def tell_all(self) -> None:
        """Tell of everything that was left out, as at the end of the program."""
        with self._lock:
            while self._kinds:
                self._tell_counts(self._kinds.popitem(last=False)[1])

    def _tell_counts(self, kind: _Kind[T]) -> bool:
        counts = kind.counts()
        for count in counts:
            if count.latest is not None:
                self._tell(count.latest, count.number)
        return bool(counts)
