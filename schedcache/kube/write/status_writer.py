"""Writes the outcome of scheduling into a pod's status, in the background."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from schedcache.kube.http.transport import STRATEGIC_MERGE_PATCH, Transport
from schedcache.kube.settings import WriteSettings
from schedcache.kube.write.pod_status import condition_patch, is_another, status_patch
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.retrying import send_again
from schedcache.kube.write.sparing import SparingLog
from schedcache.kube.write.write_queue import WriteQueue
from schedcache.model import Pod, PodCondition
from schedcache.ports import ApiError, Fence, FencedError, NotFoundError

__all__ = ["ApiStatusWriter"]


class _Write(NamedTuple):
    pod: Pod
    condition: PodCondition | None
    nominated_node_name: str | None


class ApiStatusWriter:
    """A StatusWriter on the API server: strategic merge patches of pods/status, as kube-scheduler 1.37 sends them.

    Run `run` as a task, and call `drain` before ending it.

    Args:
        transport: requests to the server.
        rate: the budget of what is queued; never that of binds.
        settings: how many at once, how many may wait, how often they are retried.
        wall_clock: seconds since the epoch.
        fence: what all patches are held against; None lets all through.
        urgent_rate: the budget of nominations that evictions wait for, and of these; None: there is one budget.

    Attributes:
        written: patches that succeeded.
        skipped: patches that were not sent, since they would have changed nothing.
        retries: patches that were sent again.
        dropped: by reason (gone, replaced, refused, failed, full, fenced, stopping): patches that were not written.
    """

    def __init__(
        self,
        transport: Transport,
        rate: TokenBucket,
        settings: WriteSettings = WriteSettings(),
        wall_clock: Callable[[], float] = time.time,
        fence: Fence | None = None,
        urgent_rate: TokenBucket | None = None,
    ) -> None:
        self._transport = transport
        self._fence = fence
        self._rate = rate
        self._urgent_rate = urgent_rate or rate
        self._settings = settings
        self._wall_clock = wall_clock
        self._queue = WriteQueue(
            self._write,
            workers=settings.concurrent_patches,
            limit=settings.waiting_patches,
            permit=lambda: rate.acquire("PATCH"),
        )
        self.written = 0
        self._told = SparingLog("a pod's status could not be written", settings.repeated_warning_seconds)
        self.skipped = 0
        self.retries = 0
        self.dropped: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """The number of pods with a waiting write."""
        return len(self._queue)

    async def run(self) -> None:
        """Write until cancelled."""
        await self._queue.run()

    async def drain(self, timeout: float) -> int:
        """Wait until everything is written, for at most `timeout` seconds. Returns how many writes are left."""
        return await self._queue.drain(timeout)

    async def settle(self, seconds: float, longest: float) -> int:
        """The end of a leader: write what waits for `seconds`, forget the rest, and see what is under way to its end.

        Returns how many writes were not over after `longest` seconds in all: they may still arrive.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + longest
        await self._queue.drain(seconds)
        # Whoever leads next finds out by himself why the pods wait.
        self.dropped["stopping"] += self._queue.close()
        return await self._queue.drain(max(0.0, until - loop.time()))

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Queue the write. None leaves that part alone; `nominated_node_name` "" clears it. Newer writes replace waiting ones."""
        if waiting := self._queue.get(pod.uid):
            condition = condition or waiting.condition
            if nominated_node_name is None:
                nominated_node_name = waiting.nominated_node_name
        elif pod.uid not in self._queue:
            # No write of ours is under way, so the pod given shows what the API server has.
            if condition is not None and pod.says(condition):
                condition = None
            if nominated_node_name == pod.nominated_node_name:
                nominated_node_name = None
        if condition is None and nominated_node_name is None:
            self.skipped += 1
        elif not self._queue.put(pod.uid, _Write(pod, condition, nominated_node_name)):
            self.dropped["stopping" if self._queue.closed else "full"] += 1

    async def nominate(self, pod: Pod, node_name: str) -> None:
        """Write the nomination now, and with it what waits for the pod. Raises NotFoundError where the pod is gone, and ApiError."""
        await self._urgent_rate.acquire("PATCH")
        async with self._queue.claimed(pod.uid) as waiting:
            write = (waiting or _Write(pod, None, None))._replace(nominated_node_name=node_name)
            try:
                await self._send_patch(write, self._urgent_rate)
            except ApiError as error:
                if is_another(error):
                    message = f"pod {pod.full_name} was replaced by another one"
                    raise NotFoundError(message, status=error.status) from error
                raise

    def forget(self, uid: str) -> None:
        """Drop the waiting write of a pod that is gone or bound."""
        self._queue.discard(uid)

    async def _write(self, uid: str, write: _Write) -> None:
        try:
            await self._send_patch(
                write, self._rate, obsolete=lambda: self._queue.closed or self._queue.get(uid) is not None
            )
        except ApiError as error:
            self._give_up(write.pod, error)

    async def _send_patch(self, write: _Write, rate: TokenBucket, obsolete: Callable[[], bool] = lambda: False) -> None:
        """The first time without asking `rate`, which the caller has done."""
        path, body = status_patch(write.pod, self._status(write))
        again = False

        async def send() -> None:
            nonlocal again
            if again:
                await rate.acquire("PATCH")
            again = True
            await self._transport.send("PATCH", path, body, STRATEGIC_MERGE_PATCH, fence=self._fence)

        self.retries += await send_again(send, self._settings, obsolete=obsolete)
        self.written += 1

    def _give_up(self, pod: Pod, error: ApiError) -> None:
        if isinstance(error, NotFoundError):
            self.dropped["gone"] += 1
        elif isinstance(error, FencedError):
            # Whoever leads now finds out by himself why the pod waits.
            self.dropped["fenced"] += 1
        elif is_another(error):
            self.dropped["replaced"] += 1
        else:
            reason = "failed" if error.may_pass else "refused"
            self.dropped[reason] += 1
            self._told.warning(error, pod=pod.full_name)

    def _status(self, write: _Write) -> dict[str, Any]:
        status: dict[str, Any] = {}
        condition = write.condition
        if condition is not None:
            before = write.pod.condition(condition.type)
            changes = before is None or before.status != condition.status
            status["conditions"] = [condition_patch(condition, self._wall_clock() if changes else None)]
        if write.nominated_node_name is not None:
            status["nominatedNodeName"] = write.nominated_node_name or None
        return status
