"""Asks the API server itself about one pod: if the outcome of a bind is unknown, and before an assumption is dropped."""

import asyncio
from enum import StrEnum
from itertools import islice

import structlog

from schedcache.model import Pod
from schedcache.ports import ApiError, Binder
from schedcache.scheduling.event_handlers import POD, EventHandlers
from schedcache.scheduling.state import SchedulingState

REMEMBERED_SECONDS = 600.0
"""For how long a read is remembered whatever happens: by then any watch has come as far, or was found dead."""
READS_AT_ONCE = 32
"""Those who asked first come first. After an outage every pod on its way is in doubt, and a server that comes back has others to serve."""
_log = structlog.get_logger(__name__)


class Truth(StrEnum):
    """What the API server says about a pod that is assumed on a node; the values are label values of a metric."""

    BOUND = "bound"
    """On that node."""
    ELSEWHERE = "elsewhere"
    UNBOUND = "unbound"
    DELETING = "deleting"
    """Without a node, and it will never have one: a pod that is being deleted cannot be bound."""
    GONE = "gone"
    """No pod has the name, or another one has."""
    NO_ANSWER = "no_answer"


class LiveReader:
    """Reads pods past every cache, and handles the result as if it came from the watch."""

    def __init__(self, state: SchedulingState, binder: Binder, sink: EventHandlers) -> None:
        self._state = state
        self._binder = binder
        self._sink = sink
        self._turn = asyncio.Semaphore(READS_AT_ONCE)
        # UIDs of the pods for which a missing answer was logged, since the last answer.
        self._told: set[str] = set()
        # UID -> when an answer about the pod was applied, of which the source may not have heard yet; the oldest first.
        self._ahead: dict[str, float] = {}

    async def look(self, assumed: Pod) -> Truth:
        """Read an assumed pod. Except after UNBOUND and NO_ANSWER, the cache has then confirmed or forgotten it."""
        try:
            async with self._turn:
                live = await self._binder.get_pod(assumed.namespace, assumed.name)
        except ApiError as error:
            self._tell(assumed, error)
            self._state.metrics.bind_doubt(Truth.NO_ANSWER)
            return Truth.NO_ANSWER
        self._told.discard(assumed.uid)
        held = self._state.pods.held(assumed)
        # An answer may be older than its arrival: what the watch has ended meanwhile is not brought back, since nothing
        # would ever end it again.
        truth = Truth.GONE if held is None else judge(assumed, live)
        self._state.metrics.bind_doubt(truth)
        self._remember(assumed.uid)
        if truth is Truth.GONE:
            if held is None:
                self._sink.on_delete(POD, assumed, missed=True)
            else:
                self._sink.on_end_read(held)
        elif held is not None and live is not None:
            self._sink.on_update(POD, held, live)
        return truth

    def _tell(self, assumed: Pod, error: ApiError) -> None:
        if assumed.uid in self._told:
            return
        # Others may have been settled by the watch.
        self._told &= self._state.cache.assumed_pods.keys()
        self._told.add(assumed.uid)
        _log.warning(
            "no answer from the API server about a pod that may be bound", pod=assumed.full_name, error=str(error)
        )

    def may_be_ahead(self, uid: str) -> bool:
        """Whether more may be known of the pod, by a read of it, than the event source has handed on."""
        return uid in self._ahead

    def caught_up(self, since: float) -> None:
        """The source has been compared with the API server, which was asked at `since` on the clock: it knows what was read before."""
        self._ahead = {uid: at for uid, at in self._ahead.items() if at >= since}

    def _remember(self, uid: str) -> None:
        now = self._state.clock()
        self._ahead.pop(uid, None)
        for oldest, at in list(islice(self._ahead.items(), 2)):
            # Two leave for each one that comes, so only recent ones remain.
            if now - at > REMEMBERED_SECONDS:
                del self._ahead[oldest]
        self._ahead[uid] = now

    def is_settled(self, assumed: Pod) -> bool:
        """Whether the watch has settled it meanwhile, so that the assumption no longer matters."""
        return not self._state.cache.is_assumed_pod(assumed)


def judge(assumed: Pod, live: Pod | None) -> Truth:
    """What the object read means for the assumption."""
    if live is None or live.uid != assumed.uid or live.finished:
        return Truth.GONE
    if live.node_name:
        return Truth.BOUND if live.node_name == assumed.node_name else Truth.ELSEWHERE
    return Truth.DELETING if live.terminating else Truth.UNBOUND
