"""Which writes others give way to."""

import asyncio
from types import TracebackType
from typing import Self


class Urgent:
    """A context for each write that is urgent: it makes room that a pod waits for, while other writes only tell what happened.

    On a machine that is busy, the API server does in a second what it can, whoever asks. 500 preemptors of four victims each need
    4,000 requests to get their room, and have 2,000 events to tell of it.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._over = asyncio.Event()
        self._over.set()

    def __enter__(self) -> Self:
        self._under_way += 1
        self._over.clear()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._over.set()

    async def over(self, seconds: float) -> None:
        """Wait until no write is urgent, at most for that long."""
        if not self._under_way:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            pass
