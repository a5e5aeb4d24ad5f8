"""Writes that wait to be sent in the background."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

import structlog

V = TypeVar("V")

log = structlog.get_logger()


async def _always() -> None:
    return


class WriteQueue(Generic[V]):
    """Waiting writes by key: the oldest key first, the newest value for a key, never two writes of one key at once.

    Args:
        write: sends one write. It handles every answer of the server; an exception is a fault in this program, which
            is logged and counted, and ends only that write.
        workers: how many writes may be under way at once.
        limit: how many keys may wait.
        permit: awaited before each write is taken from those that wait, so that it can still be replaced or claimed meanwhile.

    Attributes:
        closed: nothing is taken any more.
        crashes: exceptions that came out of `write`.
    """

    def __init__(
        self,
        write: Callable[[str, V], Awaitable[None]],
        *,
        workers: int,
        limit: int,
        permit: Callable[[], Awaitable[object]] = _always,
    ) -> None:
        self._write = write
        self._permit = permit
        self._workers = workers
        self._limit = limit
        self._waiting: dict[str, V] = {}
        self._busy: dict[str, asyncio.Event] = {}
        """Set when the write of the key has ended."""
        # Idle workers: one is woken for each write, whereas an event would wake them all.
        self._resting: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self.crashes = 0
        self.closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._busy

    def get(self, key: str) -> V | None:
        """The value that waits under the key."""
        return self._waiting.get(key)

    def put(self, key: str, value: V) -> bool:
        """Write the value, in place of one that waits under the key; False, and nothing is done, if there is no room."""
        if self.closed:
            return False
        if key not in self._waiting and len(self._waiting) >= self._limit:
            return False
        self._waiting[key] = value
        self._idle.clear()
        self._wake_one()
        return True

    def discard(self, key: str) -> None:
        """Forget what waits under the key."""
        self._waiting.pop(key, None)
        self._note_idle()

    def close(self) -> int:
        """Take nothing from now on, and forget what waits; writes under way go on. Returns how many were forgotten."""
        self.closed = True
        forgotten = len(self._waiting)
        self._waiting.clear()
        self._note_idle()
        return forgotten

    @asynccontextmanager
    async def claimed(self, key: str) -> AsyncIterator[V | None]:
        """Within, the caller writes the key, and nobody else; yields what waited under it, which is then his to write."""
        while key in self._busy:
            await self._busy[key].wait()
        try:
            with self._at_work(key):
                yield self._waiting.pop(key, None)
        finally:
            # No worker looks at the key again by itself, as the one does that has written it.
            if key in self._waiting:
                self._wake_one()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"writer {number}")

    async def drain(self, timeout: float) -> int:
        """Wait until nothing is left to write, for at most `timeout` seconds. Returns how many writes are left. `run` must run."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            pass
        return len(self._waiting) + len(self._busy)

    async def _work(self) -> None:
        while True:
            if self._next() is None:
                await self._rest()
                continue
            await self._permit()
            key = self._next()
            if key is None:
                continue
            with self._at_work(key):
                try:
                    await self._write(key, self._waiting.pop(key))
                except Exception:
                    self.crashes += 1
                    log.exception("a write crashed", key=key)

    def _next(self) -> str | None:
        return next((key for key in self._waiting if key not in self._busy), None)

    @contextmanager
    def _at_work(self, key: str) -> Iterator[None]:
        self._busy[key] = ended = asyncio.Event()
        self._idle.clear()
        try:
            yield
        finally:
            del self._busy[key]
            ended.set()
            self._note_idle()

    async def _rest(self) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._resting.append(woken)
        await woken

    def _wake_one(self) -> None:
        while self._resting:
            worker = self._resting.popleft()
            if not worker.done():
                worker.set_result(None)
                return

    def _note_idle(self) -> None:
        if not self._waiting and not self._busy:
            self._idle.set()
