"""Evicting victims in the background (kube-scheduler's asynchronous preemption, KEP-4832, 1.37).

Meanwhile the preemptor stays out of the active queue: `is_running` is what DefaultPreemption's PreEnqueue goes by. All
victims but the last are evicted side by side. The last is evicted by itself, and once that has begun, the preemptor is held back
only until all the deletions are seen to have begun: the event of the last one brings it back, and must not find the gate shut.

Three things are otherwise than there. kube-scheduler opens the gate with the answer to the last deletion; a watch that lags behind
would then have the preemptor tried against victims that look untouched, and others evicted on another node. Victims that end at
once are waited for altogether: every pod that goes anywhere would have the preemptor tried in vain. The nomination is written
before the first eviction, so that a scheduler that is started again knows for whom room is being made, and evicts nobody else. And
where an eviction fails, the preemptor is tried again after its backoff and not at once: a right that is missing would have it tried for
ever, and nobody else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from schedcache.model import Pod, PodCondition
from schedcache.ports import ALL, WILDCARD, ApiError, ClusterEvent, EventRecorder, Evictor, Metrics, NotFoundError

if TYPE_CHECKING:
    from schedcache.scheduling.state import SchedulingState

PLUGIN = "DefaultPreemption"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
ENDS_AT_ONCE_SECONDS = 1.0
"""Victims without a grace period are gone by then, and a preemptor that was rejected a moment ago is backing off for that long."""
AT_ONCE = 16
"""Preemptors that evictions are sent for at a time, the first one first: of hundreds, the first would get its room with the last."""
UNDONE_SECONDS = 90.0
"""By then a watch that shows nothing has been found dead: deletions that are still not seen were undone, by a backup that was restored."""
Nominate = Callable[[Pod, str], Awaitable[None]]
"""Writes the pod's status.nominatedNodeName. Raises NotFoundError where the pod is gone, and ApiError."""
RejectHere = Callable[[str], Awaitable[bool]]
_FAILED = ClusterEvent(WILDCARD, (ALL,), "PreemptionFailed")
_log = structlog.get_logger(__name__)


class _Preemption:
    """One that goes on, until the deletion of all victims has been seen; those sent back to the queue are not deleted.

    `answered_at`: when the last eviction had been answered; `terminating_since`: when every deletion had been seen to have begun.
    Both on the state's clock.
    """

    __slots__ = ("answered_at", "last_begun", "node_name", "preemptor", "terminating_since", "to_be_seen", "victims")

    def __init__(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        self.preemptor = preemptor
        self.node_name = node_name
        self.victims = victims
        self.to_be_seen = list(victims)
        self.last_begun = False
        self.answered_at: float | None = None
        self.terminating_since: float | None = None


class Preemptions:
    """The PreemptionExecutor of a live scheduler. Of no use before `serve`."""

    def __init__(self, evictor: Evictor, nominate: Nominate, recorder: EventRecorder, metrics: Metrics) -> None:
        self._evictor = evictor
        self._nominate = nominate
        self._recorder = recorder
        self._metrics = metrics
        self._state: SchedulingState | None = None
        self._reject_here: RejectHere = _never
        self._running: dict[str, _Preemption] = {}
        """By the preemptor's UID."""
        self._awaited: dict[str, list[_Preemption]] = {}
        """By the UID of a victim: those that are over only when its deletion has been seen."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        """Preemptors for which evictions are under way."""
        return len(self._tasks)

    def serve(self, state: "SchedulingState", reject_here: RejectHere) -> None:
        """Take up work. `reject_here(uid)` frees the room of a pod that is not bound yet; False if it is too late for that."""
        self._state = state
        self._reject_here = reject_here

    def attempted(self) -> None:
        self._metrics.preemption_attempt()

    def preempt(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Begin to make room on the node, in a task of its own."""
        self._metrics.preemption_victims(len(victims))
        to_evict = [victim for victim in victims if not victim.terminating]
        if not to_evict:
            return
        if preemptor.uid in self._running:
            self._end(self._running[preemptor.uid])
        self._running[preemptor.uid] = preemption = _Preemption(preemptor, node_name, to_evict)
        for victim in to_evict:
            self._awaited.setdefault(victim.uid, []).append(preemption)
        task = asyncio.get_running_loop().create_task(self._make_room(preemption))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_running(self, uid: str) -> bool:
        """Whether evictions for the pod of this UID are on their way, have not been seen yet, or are about to end."""
        found = self._running.get(uid)
        return found is not None and not self._is_over(found)

    def _is_over(self, preemption: _Preemption) -> bool:
        if not preemption.last_begun:
            return False
        helds = [held for held in map(self._held, preemption.to_be_seen) if held is not None]
        if not all(held.terminating for held in helds):
            return False
        since, now = preemption.terminating_since, self._serving().clock()
        return not helds or (since is not None and now - since >= ENDS_AT_ONCE_SECONDS)

    def deletion_seen(self, uid: str) -> list[Pod]:
        """The pod of this UID is terminating, or gone: if it was the last one that a preemptor has been held back for, let it go.

        Returns the preemptors that were let go.
        """
        let_go = []
        for preemption in tuple(self._awaited.get(uid, ())):
            helds = map(self._held, preemption.to_be_seen)
            if preemption.terminating_since is None and all(held is None or held.terminating for held in helds):
                preemption.terminating_since = self._serving().clock()
            preemptor = self._held(preemption.preemptor)
            if self._end_if_over(preemption) and preemptor is not None:
                let_go.append(preemptor)
        return let_go

    def look_after(self) -> None:
        """Let preemptors go whose victims take their time, or were given back. To be called about once a second."""
        queue, now = self._serving().queue, self._serving().clock()
        for preemption in tuple(self._running.values()):
            if preemption.terminating_since is not None and self._end_if_over(preemption):
                continue
            if self._is_undone(preemption, now):
                self._end(preemption)
                held = self._held(preemption.preemptor)
                if held is not None:
                    queue.activate([held])

    def _is_undone(self, preemption: _Preemption, now: float) -> bool:
        """Whether a backup that was restored has the victims as they were before: a deletion that was seen has never begun there."""
        if preemption.answered_at is None:
            return False
        if preemption.terminating_since is None:
            return now - preemption.answered_at >= UNDONE_SECONDS
        return any(held is not None and not held.terminating for held in map(self._held, preemption.to_be_seen))

    async def drain(self, seconds: float) -> int:
        """Give the evictions under way some time to end, then end them. Returns for how many preemptors they had to be ended."""
        if not self._tasks:
            return 0
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    async def _make_room(self, preemption: _Preemption) -> None:
        state, preemptor = self._serving(), preemption.preemptor
        started, result = state.clock(), "error"
        try:
            async with self._turn:
                self._check(preemptor)
                await self._evict_all(preemption)
                preemption.last_begun = True
                await self._evict(preemption, preemption.victims[-1])
            preemption.answered_at = state.clock()
            result = "success"
        except* NotFoundError:
            _log.debug("the preemptor is gone, nobody is evicted for it", pod=preemptor.full_name)
            result = "gone"
        except* ApiError as errors:
            _log.warning("eviction failed; the preemptor is tried again", pod=preemptor.full_name, error=_first(errors))
        except* Exception:  # noqa: BLE001  a fault of ours in one preemption must neither hold its pod for good nor stop others
            _log.exception("preemption failed", pod=preemptor.full_name)
        finally:
            if result != "success":
                self._end(preemption)
            self._metrics.preemption_done("error" if result == "error" else "success", state.clock() - started)
            held = self._held(preemptor)
            # Where no deletion is still to be seen, nothing else brings the preemptor back.
            if held is not None and result == "error":
                state.queue.move(_FAILED, None, held)
            elif self._end_if_over(preemption) and held is not None:
                state.queue.activate([held])

    def _check(self, preemptor: Pod) -> None:
        """Raises NotFoundError where nobody need be evicted for it any more: it waited for its turn, or will not use the room."""
        held = self._held(preemptor)
        if held is None or held.terminating or held.node_name:
            raise NotFoundError(f"pod {preemptor.full_name} needs no room any more")

    def _end_if_over(self, preemption: _Preemption) -> bool:
        """Whether that was the moment when nothing more holds the preemptor back."""
        preemptor = preemption.preemptor
        if self._running.get(preemptor.uid) is not preemption or not self._is_over(preemption):
            return False
        self._end(preemption)
        held = self._held(preemptor)
        if held is not None:
            self._serving().queue.ask_gates(held)
        return True

    def _end(self, preemption: _Preemption) -> None:
        """Of this one only: where it ended before, a later one of the same preemptor may have begun."""
        if self._running.get(preemption.preemptor.uid) is not preemption:
            return
        del self._running[preemption.preemptor.uid]
        for victim in preemption.victims:
            awaiting = self._awaited[victim.uid]
            awaiting.remove(preemption)
            if not awaiting:
                del self._awaited[victim.uid]

    async def _evict_all(self, preemption: _Preemption) -> None:
        """All but the last; the first failure calls the others off."""
        preemptor, node_name = preemption.preemptor, preemption.node_name
        if (self._held(preemptor) or preemptor).nominated_node_name != node_name:
            await self._nominate(preemptor, node_name)
        self._withdraw_lower_nominations(preemptor, node_name)
        async with asyncio.TaskGroup() as tasks:
            for victim in preemption.victims[:-1]:
                tasks.create_task(self._evict(preemption, victim))

    def _withdraw_lower_nominations(self, preemptor: Pod, node_name: str) -> None:
        """They may not fit any more. Seen in the API, that has them look for another node at once."""
        state = self._serving()
        for pod in state.queue.nominated_pods_for_node(node_name):
            if pod.priority < preemptor.priority:
                state.queue.add_nominated_pod(pod, "")
                # What is held may not show the nomination yet, and it has to go all the same.
                nominated = replace(self._held(pod) or pod, nominated_node_name=node_name)
                state.status_writer.patch_status(nominated, None, "")

    async def _evict(self, preemption: _Preemption, victim: Pod) -> None:
        preemptor = preemption.preemptor
        note = f"Preempted by pod {preemptor.uid} on node {preemption.node_name}"
        if await self._reject_here(victim.uid):
            preemption.to_be_seen.remove(victim)
            self._tell(victim, preemptor, f"{note} (in kube-scheduler memory).")
            return
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod"
        condition = PodCondition(DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER, message, victim.generation)
        held = self._held(victim)
        if held is not None and await self._evictor.evict(held, condition):
            self._tell(held, preemptor, note)

    def _tell(self, victim: Pod, preemptor: Pod, note: str) -> None:
        self._recorder.event(victim, "Normal", "Preempted", "Preempting", note, related=preemptor)

    def _held(self, pod: Pod) -> Pod | None:
        return self._serving().pods.held(pod)

    def _serving(self) -> "SchedulingState":
        if self._state is None:
            raise RuntimeError("nothing can be preempted before the scheduler is put together")
        return self._state


async def _never(_uid: str) -> bool:
    return False


def _first(errors: ExceptionGroup) -> str:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return str(found)
