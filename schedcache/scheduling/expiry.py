"""The end of an assumption that the watch never confirmed.

kube-scheduler once dropped it after a time, and put a second pod into the room of the first
(kubernetes/kubernetes#106361). Here, time only decides when to ask.
"""

import asyncio

from schedcache.model import Pod
from schedcache.scheduling.live_read import LiveReader, Truth
from schedcache.scheduling.state import SchedulingState

_READS_AT_ONCE = 16


class AssumedPodExpiry:
    """Asks about the pods past their deadline, some at a time; those without an answer stay, and are asked about again later."""

    def __init__(self, state: SchedulingState, reader: LiveReader) -> None:
        self._state = state
        self._reader = reader

    async def run_once(self) -> bool:
        """Settle the pods that are past their deadline now. False: the API server does not answer, and the rest was skipped."""
        expired = self._state.cache.expired_pods(self._state.clock())
        for start in range(0, len(expired), _READS_AT_ONCE):
            found = await asyncio.gather(*(self._settle(pod) for pod in expired[start : start + _READS_AT_ONCE]))
            if set(found) == {Truth.NO_ANSWER}:
                return False
        return True

    async def _settle(self, assumed: Pod) -> Truth:
        truth = await self._reader.look(assumed)
        if truth is Truth.UNBOUND and self._state.forget(assumed):
            self._state.room_freed(assumed)
            newest = self._state.pods.held(assumed)
            if newest is not None and self._state.is_ours(newest):
                self._state.queue.add(newest)
        return truth
