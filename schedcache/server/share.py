"""How much of the processor answers may take."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

_SAVED_SECONDS = 0.002
_LOOK_SECONDS = 0.05
_BUSY_SECONDS = 0.25
_TURN_SECONDS = 0.00005
"""CPU that a turn costs around its work: two rounds of the loop, and waking the next one."""


class ProcessorShare:
    """Turns for work on answers: one at a time, each at most a millisecond or two, with a round of the event loop before it.

    While the scheduler has work, a turn that took t seconds of this thread's CPU is followed by a rest of (1/share - 1) * t, so
    that all answers together take no more than their share of it. At other times the turns follow each other.

        async with share:
            piece = next(pieces)

    Args:
        has_work: whether the scheduler has work at this moment; it then counts as busy for another quarter of a second.
        share: of the time.
        clock: seconds, monotonic.
        timer: seconds of CPU of the thread that the loop runs in.
        sleep: waits that many seconds.
    """

    def __init__(
        self,
        has_work: Callable[[], bool],
        share: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep,
    ) -> None:
        self._has_work = has_work
        self._share = share
        self._clock = clock
        self._timer = timer
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._free_at = float("-inf")
        self._busy_until = float("-inf")
        self._began = 0.0

    async def __aenter__(self) -> Self:
        await self._turn.acquire()
        try:
            await self._sleep(0)
            await self.rest()
        except BaseException:
            self._turn.release()
            raise
        self._began = self._timer()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.charge(_TURN_SECONDS + self._timer() - self._began)
        self._turn.release()

    def charge(self, seconds: float) -> None:
        """So much CPU was used, or is about to be."""
        self._free_at = max(self._free_at, self._clock()) + seconds / self._share

    async def rest(self, limit: float = float("inf")) -> None:
        """Wait until the share allows more work, or the scheduler has none itself; for `limit` seconds at most."""
        end = self._clock() + limit
        while self._busy():
            now = self._clock()
            # Sleeps are a millisecond too long: what was saved up makes up for it.
            wait = min(self._free_at - _SAVED_SECONDS, end) - now
            if wait <= 0:
                return
            await self._sleep(min(wait, _LOOK_SECONDS))
        self._free_at = min(self._free_at, self._clock())

    def _busy(self) -> bool:
        now = self._clock()
        if self._has_work():
            self._busy_until = now + _BUSY_SECONDS
        return now < self._busy_until
