"""How long to work before yielding to other tasks, and how long to wait after a failure."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from schedcache.kube.settings import SourceSettings

SLICE_SECONDS = 0.005
"""Work on objects is done in slices of about this length, so that the event loop is never blocked for long."""


@dataclass(frozen=True)
class Timing:
    """Time and randomness, which tests replace.

    Attributes:
        clock: seconds, monotonic.
        sleep: waits that many seconds.
        rng: for jitter.
        wall_clock: seconds since the epoch.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)
    wall_clock: Callable[[], float] = time.time


class TimeSlice:
    """Says when a piece of work has run long enough; use as `if slice.over(): await slice.rest()`."""

    def __init__(self, clock: Callable[[], float], seconds: float = SLICE_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock() + seconds

    def over(self) -> bool:
        """Whether other tasks should run now."""
        return self._clock() >= self._end

    async def rest(self) -> None:
        """Let everything that is ready run once, then begin a new slice."""
        await asyncio.sleep(0)
        self._end = self._clock() + self._seconds


class Comeback:
    """Cuts short the pauses of all who wait for an unreachable server, as soon as one of them has reached it.

    Each kind has its own backoff; without this, the last of fourteen would be up to half a minute behind the first.
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """The server has answered."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, pause: Coroutine[Any, Any, object]) -> None:
        """Wait until the pause is over, or `tell` is called."""
        told = asyncio.get_running_loop().create_future()
        over = asyncio.create_task(pause)
        self._waiting.add(told)
        try:
            await asyncio.wait([told, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.discard(told)
            over.cancel()


class BackoffManager:
    """The pauses after failures; they start over after a healthy time.

    Args:
        timing: clock and jitter.
        settings: how the pauses grow, and when they start over.
    """

    def __init__(self, timing: Timing, settings: SourceSettings) -> None:
        self._rng = timing.rng
        self._clock = timing.clock
        self._backoff = settings.backoff
        self._reset_after = settings.backoff_reset_seconds
        self._pauses = self._backoff.pauses(timing.rng)
        self._over_at = float("-inf")

    def pause(self) -> float:
        """Seconds to wait after the failure that has just happened."""
        now = self._clock()
        if now - self._over_at > self._reset_after:
            self._pauses = self._backoff.pauses(self._rng)
        pause = next(self._pauses)
        self._over_at = now + pause
        return pause
