"""An event loop without sockets, threads or real time: while nothing is ready, the clock jumps to the next timer.

Every order that asyncio leaves open comes from the seed: sets of tasks and futures are iterated by their hash, which is a random
number here instead of an address. What asyncio promises, such as the order of callbacks that are ready, it keeps.
"""

import asyncio
import random
from asyncio.base_events import BaseEventLoop
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from heapq import heappop
from typing import Any

OWNER: ContextVar[str] = ContextVar("owner", default="")
"""The process that a callback belongs to; "" is the world around the processes, which never stands still."""
MOST_TURNS_AT_ONE_MOMENT = 20_000


class StuckError(Exception):
    """Nothing is ready and no timer runs, or the loop turns and turns while no time passes."""


class _Task(asyncio.Task):
    __slots__ = ("number",)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future):
    __slots__ = ("number",)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(BaseEventLoop):
    """`now` in seconds since an arbitrary moment.

    Args:
        rng: for the orders that asyncio leaves open.
        now: what the clock says at the start.
        each_turn: called in each turn of the loop.
    """

    def __init__(self, rng: random.Random, now: float, each_turn: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        # With a large offset, a finer one would vanish in rounding.
        self._clock_resolution = 1e-6
        self._selector = self
        self._rng = rng
        self.now = now
        self.each_turn = each_turn
        self.turns = 0
        self._turns_at_this_moment = 0
        self._frozen: set[str] = set()
        self._held_back: dict[str, list[Any]] = defaultdict(list)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future:
        future = _Future(loop=self)
        future.number = self._rng.getrandbits(60)
        return future

    def _make_task(self, _loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task:
        task = _Task.__new__(_Task)
        task.number = self._rng.getrandbits(60)
        task.__init__(work, loop=self, **options)
        return task

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future:
        """At once: threads would bring an order of their own."""
        future = self.create_future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001  whoever waits for it gets it
            future.set_exception(error)
        return future

    def freeze(self, owner: str) -> None:
        """Nothing of this process runs any more: it was stopped, or killed."""
        self._frozen.add(owner)

    def thaw(self, owner: str) -> None:
        """The process goes on with everything that has become due meanwhile."""
        self._frozen.discard(owner)
        self._ready.extendleft(reversed(self._held_back.pop(owner, [])))

    # ---- what BaseEventLoop asks of a selector

    def select(self, timeout: float | None) -> list[Any]:
        self.turns += 1
        self.each_turn()
        if timeout is None:
            raise StuckError("nothing is ready, and no timer runs")
        if self._ready or self._stopping:
            self._turns_at_this_moment += 1
            if self._turns_at_this_moment > MOST_TURNS_AT_ONE_MOMENT:
                self._turns_at_this_moment = 0
                raise StuckError(f"{MOST_TURNS_AT_ONE_MOMENT} turns of the loop in a row while no time passes")
        else:
            self._turns_at_this_moment = 0
            # However short it is meant to be, a sleep takes some time: one that vanishes in rounding would be repeated for ever.
            self.now = max(self.now + self._clock_resolution, self._scheduled[0]._when)
        self._take_due()
        if self._frozen:
            self._hold_back()
        return []

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _take_due(self) -> None:
        """Here and not later, so that those of frozen processes can be held back."""
        due = self.now + self._clock_resolution
        while self._scheduled and (self._scheduled[0]._cancelled or self._scheduled[0]._when < due):
            handle = self._pop_scheduled()
            if not handle._cancelled:
                self.now = max(self.now, handle._when)
                self._ready.append(handle)

    def _pop_scheduled(self) -> Any:
        handle = heappop(self._scheduled)
        handle._scheduled = False
        if handle._cancelled:
            self._timer_cancelled_count -= 1
        return handle

    def _hold_back(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            owner = handle._context.get(OWNER)
            if owner in self._frozen:
                self._held_back[owner].append(handle)
            else:
                self._ready.append(handle)
