"""How fast requests may go out: the token bucket behind kube-scheduler's clientConnection.qps and burst."""

import asyncio
import time
from collections.abc import Awaitable, Callable

__all__ = ["TokenBucket"]


class TokenBucket:
    """Lets `qps` requests a second through, `burst` of them at once after a pause; first come, first served.

    Args:
        qps: requests a second; 0 or less means no limit.
        burst: at least 1.
        clock: seconds, monotonic.
        sleep: waits that many seconds.
        observe: told each request's HTTP method and how many seconds it waits.
    """

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        observe: Callable[[str, float], object] = lambda _method, _seconds: None,
    ) -> None:
        if qps > 0 and burst < 1:
            raise ValueError(f"burst: expected at least 1 if qps is {qps:g}, got {burst}")
        self.qps = qps
        self.burst = burst
        self._clock = clock
        self._sleep = sleep
        self._observe = observe
        self._tokens = float(burst)
        self._filled_at = clock()

    async def acquire(self, method: str) -> None:
        """Take a token for a request of that HTTP method, waiting until it is there. A cancelled wait gives it back."""
        if self.qps <= 0:
            return
        now = self._clock()
        self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.qps) - 1
        self._filled_at = now
        wait = max(0.0, -self._tokens / self.qps)
        self._observe(method, wait)
        if not wait:
            return
        try:
            # The token is taken in advance, so later callers wait behind this one.
            await self._sleep(wait)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
