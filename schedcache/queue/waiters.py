"""Coroutines that wait for a pod."""

import asyncio
from collections import deque


class Waiters:
    """First come, first woken; one wake-up lets one waiter run, after the operation that woke it is complete."""

    def __init__(self) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for `wake`. If a woken waiter is cancelled, the next one is woken, since the pod is still there to be taken."""
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._futures:
                self._futures.remove(future)
            elif not future.cancelled():
                self.wake()
            raise

    def wake(self) -> None:
        """Wake the one that has waited longest, if any."""
        while self._futures:
            future = self._futures.popleft()
            if not future.done():
                future.set_result(None)
                return
