"""Asks extenders, and applies their answers (kube-scheduler's schedule_one.go, 1.37).

Extenders are asked over the network, which takes time, and nothing may change during a scheduling cycle. So asking and deciding
are separate: an evaluation notes the nodes that extenders have yet to be asked about in an `Advice`, they are asked while the
cluster moves on, and then the pod is evaluated again, with the answers. The decision is a cycle like any other, of one generation.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import structlog

from schedcache.framework.filtering import Advised, Feasibility
from schedcache.framework.interface import MAX_NODE_SCORE, Verdicts
from schedcache.framework.scoring import ScoreTable
from schedcache.framework.status import Code, Status
from schedcache.framework.status_table import StatusTable
from schedcache.model import Node, Pod
from schedcache.ports import (
    MAX_EXTENDER_PRIORITY,
    Extender,
    ExtenderError,
    ExtenderResult,
    FilterAnswer,
    Metrics,
    NoMetrics,
    OutcomeUnknownError,
    UnavailableError,
    Victims,
)

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

EXTENDER = "Extender"
"""Stands where a plugin's name would for rejections by extenders (framework.ExtenderName): any event brings such pods back."""

T = TypeVar("T")
_MOST_QUESTIONS = 2
"""One about the pod's nominated node and one about all; or a second one about nodes that fit since the first."""
_TOO_LATE = Status(Code.UNSCHEDULABLE, ("node(s) became feasible while extenders were asked about others",), EXTENDER)
_SCALE = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
# Beyond any sum of scores that makes sense, and far from the end of 64 bits.
_BEYOND = 2**53
_log = structlog.get_logger(__name__)


class Extenders:
    """The extenders of a scheduler, in the order in which they are asked: ignorable ones last, as kube-scheduler has it.

    Every call is counted and timed. A fault is logged when it begins and when it is over.
    """

    def __init__(
        self,
        extenders: Iterable[Extender] = (),
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._extenders = tuple(sorted(extenders, key=lambda extender: extender.ignorable))
        self._metrics = metrics or NoMetrics()
        self._clock = clock
        self._faults: dict[tuple[str, str], str] = {}
        self.prioritizing = 0
        """Requests for scores under way."""

    def __bool__(self) -> bool:
        return bool(self._extenders)

    def preempt(self, pod: Pod) -> bool:
        """Whether some extender is to be asked whom to evict for the pod."""
        return any(extender.preempts and extender.is_interested(pod) for extender in self._extenders)

    def take_part(self, pod: Pod) -> bool:
        """Whether some extender is to be asked before it is decided where the pod goes."""
        return any((e.filters or e.prioritizes or e.preempts) and e.is_interested(pod) for e in self._extenders)

    def interested(self, pod: Pod) -> Sequence[Extender]:
        """Those that are asked about the pod, in order."""
        return [extender for extender in self._extenders if extender.is_interested(pod)]

    async def filter(self, extender: Extender, pod: Pod, nodes: Sequence[Node]) -> FilterAnswer | None:
        """None if it gave no answer and is ignorable. Raises ExtenderError."""
        return await self._call(extender, "filter", extender.filter(pod, nodes))

    async def prioritize(self, extender: Extender, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """Empty if it gave no answer: then the others decide."""
        self.prioritizing += 1
        try:
            return await self._call(extender, "prioritize", extender.prioritize(pod, nodes), ignorable=True) or ()
        finally:
            self.prioritizing -= 1

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], pods_on: Callable[[str], Iterable[Pod] | None]
    ) -> Mapping[str, Victims]:
        """The candidates for preemption that all extenders leave, with the victims that they name (callExtenders, 1.37).

        `pods_on(node_name)`: the pods of a node, None for a node that does not exist. Raises ExtenderError.
        """
        for extender in self.interested(pod):
            if not candidates:
                break
            if extender.preempts:
                asked = self._process_preemption(extender, pod, candidates, pods_on)
                answer = await self._call(extender, "preempt", asked)
                candidates = candidates if answer is None else answer
        return candidates

    async def bind(self, pod: Pod, node_name: str) -> bool:
        """Let the first interested binder bind the pod; False: there is none, and the plugins have to do it.

        Raises OutcomeUnknownError if it may be bound, and UnavailableError (FencedError) if it is not.
        """
        for extender in self.interested(pod):
            if not extender.binds:
                continue
            try:
                done = await self._call(extender, "bind", _bound(extender, pod, node_name))
            except ExtenderError as error:
                if error.result is ExtenderResult.UNREACHABLE:
                    raise UnavailableError(str(error), reason=error.result) from error
                raise OutcomeUnknownError(str(error), reason=error.result) from error
            if done:
                return True
        return False

    async def _call(
        self, extender: Extender, verb: str, answer: Awaitable[T], *, ignorable: bool | None = None
    ) -> T | None:
        """Await the answer; None where there is none and that does not matter. Raises ExtenderError."""
        started, result, fault = self._clock(), ExtenderResult.ERROR, ""
        try:
            found = await answer
            result = ExtenderResult.SUCCESS
        except ExtenderError as error:
            result, fault = error.result, str(error)
            if not (extender.ignorable if ignorable is None else ignorable):
                raise
            found = None
        finally:
            self._metrics.extender_call(extender.name, verb, result, self._clock() - started)
            self._tell(extender, verb, result, fault)
        return found

    def _tell(self, extender: Extender, verb: str, result: ExtenderResult, fault: str) -> None:
        """Log a fault only once while it lasts, since it may come with every pod."""
        key = extender.name, verb
        if result is ExtenderResult.SUCCESS:
            if self._faults.pop(key, ""):
                _log.info("extender answers again", extender=extender.name, verb=verb)
        elif fault and self._faults.get(key) != result:
            self._faults[key] = result
            _log.warning(
                "extender failed", extender=extender.name, verb=verb, ignorable=extender.ignorable, error=fault
            )

    @staticmethod
    async def _process_preemption(
        extender: Extender,
        pod: Pod,
        candidates: Mapping[str, Victims],
        pods_on: Callable[[str], Iterable[Pod] | None],
    ) -> Mapping[str, Victims]:
        left: dict[str, Victims] = {}
        for node_name, (uids, violations) in (await extender.process_preemption(pod, candidates)).items():
            running = {p.uid: p for p in pods_on(node_name) or ()}
            unknown = next((uid for uid in uids if uid not in running), None)
            if unknown is not None:
                text = f"extender {extender.name!r} names a victim on node {node_name!r} that is not there: {unknown}"
                raise ExtenderError(text, ExtenderResult.WRONG)
            if uids:
                left[node_name] = Victims([running[uid] for uid in uids], violations)
            elif not extender.ignorable:
                text = f"extender {extender.name!r}: expected at least one victim pod on node {node_name!r}"
                raise ExtenderError(text, ExtenderResult.WRONG)
        return left


class Advice:
    """What extenders say about nodes for one pod, and which nodes they have yet to be asked about.

    Nodes are known by name, so it outlasts snapshots.
    """

    def __init__(self, extenders: Extenders) -> None:
        self._extenders = extenders
        self._table = StatusTable()
        self._not_asked = self._table.code(_TOO_LATE)
        self._codes: dict[str, int] = {}
        self._scores: dict[str, int] = {}
        self._questions = 0
        self.unasked: Sequence[Node] = ()
        """Nodes that the last evaluation cannot do without."""
        self.start: int | None = None
        """Where the pod's turn on the nodes began, for percentageOfNodesToScore: the same nodes in every evaluation."""

    def apply(self, found: Feasibility) -> Feasibility:
        """What is left of the feasible rows.

        Where that is nothing because extenders were not asked, `unasked` says about which nodes they should be.
        """
        view, positions = found.view, found.feasible
        self.unasked = ()
        if not len(positions):
            return found
        rows = view.rows[positions].tolist()
        codes = self._codes_of(rows, view.columns.names)
        left = positions[codes == 0]
        if not len(left) and self._questions < _MOST_QUESTIONS:
            infos = view.columns.infos
            self.unasked = [infos[rows[i]].node for i in np.flatnonzero(codes == self._not_asked).tolist()]
        if len(left) == len(positions):
            return found
        return found._replace(feasible=left, advised=Advised(positions, Verdicts(codes, self._table.statuses)))

    def _codes_of(self, rows: Sequence[int], names: Sequence[str]) -> npt.NDArray[np.intp]:
        if not self._codes:
            return np.full(len(rows), self._not_asked, np.intp)
        get = self._codes.get
        return np.array([get(names[row], self._not_asked) for row in rows], np.intp)

    def add_scores(self, scores: ScoreTable) -> ScoreTable:
        """The scores of plugins and extenders together."""
        if not self._scores:
            return scores
        get = self._scores.get
        return scores.plus(np.array([get(name, 0) for name in scores.view.names()], np.int64))

    async def ask(self, pod: Pod) -> None:
        """Ask about the nodes that are `unasked`. Raises ExtenderError where one that is not ignorable gives no answer."""
        nodes, self.unasked = self.unasked, ()
        self._questions += 1
        extenders = self._extenders.interested(pod)
        # Evaluations come before and after, each of some milliseconds where there are thousands of nodes: others have their turn.
        await asyncio.sleep(0)
        left = await self._filter(extenders, pod, nodes)
        if len(left) > 1:
            await self._prioritize(extenders, pod, left)
        await asyncio.sleep(0)

    async def _filter(self, extenders: Sequence[Extender], pod: Pod, nodes: Sequence[Node]) -> Sequence[Node]:
        """One after the other, each about what those before it left."""
        left = list(nodes)
        for extender in extenders:
            if not left:
                break
            answer = await self._extenders.filter(extender, pod, left) if extender.filters else None
            if answer is None:
                continue
            passed = frozenset(answer.node_names)
            before, left = left, [node for node in left if node.name in passed]
            if len(left) < len(before):
                for node in before:
                    if node.name not in passed:
                        self._codes[node.name] = self._table.code(_objection(extender, answer, node.name))
        self._codes.update(dict.fromkeys([node.name for node in left], 0))
        return left

    async def _prioritize(self, extenders: Sequence[Extender], pod: Pod, nodes: Sequence[Node]) -> None:
        """All at once. Scores of nodes that were not asked about are of no use, those of one node add up."""
        asked = [extender for extender in extenders if extender.prioritizes]
        answers = await asyncio.gather(*(self._extenders.prioritize(extender, pod, nodes) for extender in asked))
        for extender, answer in zip(asked, answers, strict=True):
            for name, score in answer:
                total = self._scores.get(name, 0) + score * extender.weight * _SCALE
                self._scores[name] = max(-_BEYOND, min(total, _BEYOND))


class PreemptionAdvice:
    """What extenders say of candidates for preemption, asked between two calls of PostFilter.

    It is in the attempt's CycleState, by its type. A PostFilter plugin that finds it there without an answer leaves its `candidates`
    and does nothing yet; it is called again with the same state, on the same snapshot, when `left` has the answer, or `fault` says
    why there is none.
    """

    def __init__(self, extenders: Extenders) -> None:
        self._extenders = extenders
        self.candidates: Mapping[str, Victims] = {}
        """By node name."""
        self.left: Mapping[str, Victims] | None = None
        self.fault = ""
        """Of an extender that is not ignorable; with it, nobody may be evicted."""
        self.since: float | None = None
        """When the plugin was called first, on its clock."""

    @property
    def is_wanted(self) -> bool:
        """There is a question that has not been asked."""
        return bool(self.candidates) and self.left is None and not self.fault

    async def ask(self, pod: Pod, snapshot: "Snapshot") -> None:
        """Ask, for `left` or a `fault`."""

        def pods_on(node_name: str) -> Iterable[Pod] | None:
            info = snapshot.node_info_map.get(node_name)
            return None if info is None else info.pods

        try:
            self.left = await self._extenders.process_preemption(pod, self.candidates, pods_on)
        except ExtenderError as error:
            self.fault = str(error)


def _objection(extender: Extender, answer: FilterAnswer, name: str) -> Status:
    """Why a node is not among those that passed; without a word about it, evicting pods is not thought to help either."""
    silent = f"node(s) were left out by extender {extender.name}"
    if name in answer.failed and name not in answer.unresolvable:
        return Status(Code.UNSCHEDULABLE, (answer.failed[name] or silent,), EXTENDER)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (answer.unresolvable.get(name) or silent,), EXTENDER)


async def _bound(extender: Extender, pod: Pod, node_name: str) -> bool:
    await extender.bind(pod, node_name)
    return True
