"""The end of an assumption that the watch never confirmed.

kube-scheduler once dropped it on time alone and put a second pod into the room of the first
(kubernetes/kubernetes#106361). Here time only decides when to ask.
"""

import asyncio

from schedcache.model import Pod
from schedcache.scheduling.live_read import LiveReader, Truth
from schedcache.scheduling.state import SchedulingState

_READS_AT_ONCE = 16


class AssumedPodExpiry:
    """Asks about the pods past their deadline, some at a time; those without an answer stay and are asked about again."""

    def __init__(self, state: SchedulingState, reader: LiveReader) -> None:
        self._state = state
        self._reader = reader

    async def run_once(self) -> None:
        """Settle what is past its deadline now, as far as the API server answers."""
        expired = self._state.cache.expired_pods(self._state.clock())
        for start in range(0, len(expired), _READS_AT_ONCE):
            await asyncio.gather(*(self._settle(pod) for pod in expired[start : start + _READS_AT_ONCE]))

    async def _settle(self, assumed: Pod) -> None:
        truth = await self._reader.look(assumed)
        if truth is not Truth.UNBOUND or not self._state.forget(assumed):
            return
        self._state.room_freed(assumed)
        newest = self._state.pods.held(assumed)
        if newest is not None and self._state.is_ours(newest):
            self._state.queue.add(newest)
