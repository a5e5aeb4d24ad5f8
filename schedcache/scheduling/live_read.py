"""Asks the API server itself about one pod: if the outcome of a bind is unknown, and before an assumption is dropped."""

from enum import StrEnum

import structlog

from schedcache.model import Pod
from schedcache.ports import ApiError, Binder, EventSink
from schedcache.scheduling.event_handlers import POD
from schedcache.scheduling.state import SchedulingState

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

    def __init__(self, state: SchedulingState, binder: Binder, sink: EventSink) -> None:
        self._state = state
        self._binder = binder
        self._sink = sink
        # UIDs of the pods for which a missing answer was logged, since the last answer.
        self._told: set[str] = set()

    async def look(self, assumed: Pod) -> Truth:
        """Read an assumed pod. Except after UNBOUND and NO_ANSWER, the cache has then confirmed or forgotten it."""
        try:
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
        if truth is Truth.GONE:
            self._sink.on_delete(POD, held or assumed, missed=True)
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
