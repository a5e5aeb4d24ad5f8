"""What is remembered and what is allowed, both within bounds."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values for a while: at most `most` of them, the one that has not been used for longest goes first.

    Args:
        most: how many.
        seconds: how long each is kept; 0: not at all.
        clock: seconds, monotonic.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return found[1]

    def put(self, key: K, value: V) -> None:
        if self._seconds <= 0:
            return
        self._kept[key] = self._clock() + self._seconds, value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


class Budget:
    """So many per second, and `burst` at once."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> bool:
        """Whether there is one left, which is gone then."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Budgets(Generic[K]):
    """A budget for each client, for as many clients as `most`: whoever has not asked for longest is forgotten first."""

    def __init__(self, per_second: float, burst: int, most: int, clock: Callable[[], float]) -> None:
        self._new = partial(Budget, per_second, burst, clock)
        self._most = most
        self._budgets: OrderedDict[K, Budget] = OrderedDict()

    def take(self, client: K) -> bool:
        budget = self._budgets.get(client)
        if budget is None:
            budget = self._budgets[client] = self._new()
            if len(self._budgets) > self._most:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(client)
        return budget.take()
