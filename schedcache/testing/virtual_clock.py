"""Time that passes only when a test says so."""

import asyncio
import itertools

TURNS = 30
"""Turns of the event loop after which everything that does not wait for time has finished."""


class VirtualClock:
    """A clock as the core takes it, a callable that gives seconds, and the sleep that waits on it.

        clock = VirtualClock()
        queue = SchedulingQueue(clock=clock)
        clock.advance(5)

    Attributes:
        now: what the clock says, in seconds.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Wait until that much time has passed here."""
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, next(self._numbers), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass in one step. Sleepers that are due wake in the loop's next turn, when all of the time has passed.

        Raises ValueError for a negative amount: the clock is monotonic.
        """
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} seconds")
        self._reach(self.now + seconds)

    async def elapse(self, seconds: float) -> None:
        """Let time pass as in reality: each sleeper wakes at its time, and what it starts runs then."""
        end = self.now + seconds
        while self._sleepers and (due := min(self._sleepers)[0]) <= end:
            self._reach(max(self.now, due))
            await settle()
        self._reach(end)
        await settle()

    def _reach(self, instant: float) -> None:
        self.now = instant
        due = sorted(sleeper for sleeper in self._sleepers if sleeper[0] <= instant)
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > instant]
        for _, _, woken in due:
            if not woken.done():
                woken.set_result(None)


async def settle(turns: int = TURNS) -> None:
    """Let everything run that does not wait for time."""
    for _ in range(turns):
        await asyncio.sleep(0)
