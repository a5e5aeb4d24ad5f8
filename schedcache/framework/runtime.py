"""The framework of one profile: makes its plugins and calls them (kube-scheduler's frameworkImpl and schedulePod, 1.37).

All nodes are filtered for every pod, a column at a time, and all feasible ones are scored unless percentageOfNodesToScore is set.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from schedcache.config.defaults import default_plugin_names
from schedcache.config.hints import nearest
from schedcache.config.types import POINTS, KubeSchedulerProfile, Plugins, PluginSet
from schedcache.framework.diagnosis import NodeStatuses, PluginError
from schedcache.framework.evaluation import Evaluation, ScheduleResult
from schedcache.framework.extenders import EXTENDER, Advice
from schedcache.framework.filtering import Crowded, Feasibility, FilterChain
from schedcache.framework.handle import Handle
from schedcache.framework.interface import CycleState, FilterPlugin, Locality, PreEnqueuePlugin, Verdicts
from schedcache.framework.kept import KeptBySpec
from schedcache.framework.lifecycle import Lifecycle
from schedcache.framework.per_node import PerNodeFilter, PerNodeScore
from schedcache.framework.plugin_calls import POINT_NAMES, answer_label, call, checked_status, failed, rejection
from schedcache.framework.plugin_sets import PluginSetError, enabled_names, expand, score_weights
from schedcache.framework.plugin_timer import PluginTimer
from schedcache.framework.pre_filtering import PreFilterOutcome, run_pre_filter
from schedcache.framework.registry import Registry
from schedcache.framework.row_view import RowView
from schedcache.framework.sampling import NodeSampling
from schedcache.framework.scoring import ScoreChain, ScoreTable
from schedcache.framework.shared_view import SharedView
from schedcache.framework.status import Code, Status
from schedcache.model import Pod
from schedcache.model.error_text import error_text
from schedcache.ports import ALL, WILDCARD
from schedcache.queue.hints import EventHint
from schedcache.queue.queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

Nominated = Callable[[str], Sequence[Pod]]
"""Node name -> the pods nominated to it."""

_QUEUEING_POINTS = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")


class Framework(Lifecycle):
    """The plugins of one profile. Raises PluginSetError for an invalid profile."""

    def __init__(
        self,
        profile: KubeSchedulerProfile,
        registry: Registry,
        handle: Handle,
        sampling: NodeSampling | None = None,
    ) -> None:
        """`sampling`: shared by the profiles of one scheduler; None: every feasible node is scored, whatever the profile says."""
        self.profile = profile
        self._sampling = sampling
        self.scheduler_name = profile.scheduler_name
        self.handle = replace(handle, scheduler_name=self.scheduler_name, filters=self)
        # Default plugins that the registry does not have, as it may be that of an embedder, are left out.
        sets = _without(profile.plugins, default_plugin_names() - registry.keys())
        self.plugins = self._make(sets, profile, registry)
        points, weights = self._expanded(sets)
        super().__init__(points, handle.waiting_pods)
        self.points = points
        self.queue_sort: Callable[[QueuedPodInfo], Any] = self._only(points["queue_sort"]).sort_key
        if not points["bind"]:
            raise PluginSetError(f"profile {self.scheduler_name!r} needs at least one bind plugin")
        self._kept = KeptBySpec()
        self._filters = FilterChain([_columnar(p, PerNodeFilter) for p in points["filter"]], self._kept)
        scoring = [_columnar(p, PerNodeScore) for p in points["score"]]
        self._scores = ScoreChain(points["pre_score"], scoring, weights, self._kept)
        self._pre_filter_evaluations = dict.fromkeys((plugin.name for plugin in points["pre_filter"]), 0)

    def _make(self, sets: Plugins, profile: KubeSchedulerProfile, registry: Registry) -> dict[str, Any]:
        args = {config.name: config.args for config in profile.plugin_config}
        plugins: dict[str, Any] = {}
        for name in enabled_names(sets):
            if name not in registry:
                near = nearest(name, registry)
                hint = f"; did you mean {near!r}?" if near else ""
                raise PluginSetError(f"profile {self.scheduler_name!r}: there is no plugin {name!r}{hint}")
            try:
                plugins[name] = _checked_plugin(registry[name](args.get(name), self.handle), name)
            except Exception as error:
                raise PluginSetError(
                    f"profile {self.scheduler_name!r}: plugin {name!r} cannot be made: {error_text(error)}"
                ) from error
        return plugins

    def _expanded(self, sets: Plugins) -> tuple[dict[str, list[Any]], dict[str, int]]:
        """The plugins of every extension point, and the weights of those that score."""
        try:
            points = expand(sets, self.plugins)
            return points, score_weights(sets, points["score"])
        except PluginSetError as error:
            raise PluginSetError(f"profile {self.scheduler_name!r}: {error}") from None

    def _only(self, queue_sort: Sequence[Any]) -> Any:
        if len(queue_sort) != 1:
            raise PluginSetError(
                f"profile {self.scheduler_name!r} needs one queue sort plugin, it has {len(queue_sort)}"
            )
        return queue_sort[0]

    # ---- what the queue and the event source need to know

    def pre_enqueue_plugins(self) -> list[tuple[str, Callable[[Pod], bool]]]:
        """Plugin names, each with a function that says whether the plugin holds a pod back."""
        return [(plugin.name, partial(self._holds, plugin)) for plugin in self.points["pre_enqueue"]]

    def _holds(self, plugin: PreEnqueuePlugin, pod: Pod) -> bool:
        timer = self.sample()
        if timer is None:
            answer = plugin.pre_enqueue(pod)
        else:
            answer = timer.call(plugin.name, POINT_NAMES["pre_enqueue"], answer_label, plugin.pre_enqueue, pod)
        return rejection(checked_status(answer)) is not None

    def queueing_hints(self) -> list[EventHint]:
        """The events that may help a pod that a plugin rejected; for a plugin that registers none, every event does.

        Raises PluginSetError for invalid registrations.
        """
        able = {id(p): p for point in _QUEUEING_POINTS for p in self.points[point]}
        hints = []
        for plugin in able.values():
            if not hasattr(plugin, "events_to_register"):
                hints.append(EventHint(WILDCARD, (ALL,), plugin=plugin.name))
                continue
            try:
                hints += [_of_plugin(hint, plugin.name) for hint in plugin.events_to_register()]
            except Exception as error:
                text = (
                    f"profile {self.scheduler_name!r}: plugin {plugin.name!r}: events_to_register: {error_text(error)}"
                )
                raise PluginSetError(text) from error
        if self.handle.extenders:
            hints.append(EventHint(WILDCARD, (ALL,), plugin=EXTENDER))
        return hints

    def kinds(self) -> set[str]:
        """Kinds besides Pod and Node whose objects the plugins read."""
        return {kind for plugin in self.plugins.values() for kind in getattr(plugin, "kinds", ())}

    def unsupported(self, pod: Pod) -> str:
        """Why this scheduler cannot place such a pod at all, "" if it can."""
        if pod.spec.resource_claims:
            return "pod uses resource claims (spec.resourceClaims), and this scheduler does not allocate devices"
        if pod.spec.has_scheduling_group:
            return "pod belongs to a scheduling group, and this scheduler places pods one by one"
        return ""

    # ---- what is measured

    def sample(self) -> PluginTimer | None:
        """Called for each attempt: the timer for its plugins, None if they are not timed."""
        return None

    def tell_errors(self, found: Feasibility) -> None:
        """Called for each attempt that has filtered all candidates: some filters may have returned errors for single nodes."""

    def evaluations(self) -> Mapping[str, Mapping[str, int]]:
        """Extension point (PreFilter, Filter, PreScore, Score) -> plugin -> how often it was asked and did not skip.

        Filter and Score count a look at many nodes once.
        """
        return {
            POINT_NAMES["pre_filter"]: self._pre_filter_evaluations,
            POINT_NAMES["filter"]: self._filters.evaluations(),
            POINT_NAMES["pre_score"]: self._scores.pre_evaluations,
            POINT_NAMES["score"]: self._scores.evaluations(),
        }

    # ---- one attempt

    def schedule(self, pod: Pod, snapshot: "Snapshot", nominated: Nominated, rng: random.Random) -> ScheduleResult:
        """Find the node for a pod. Raises FitError, NoNodesError or PluginError.

        Among nodes with the same highest score `rng` decides, each being equally likely.
        """
        return self.evaluate(pod, snapshot, nominated).result(rng)

    def evaluate(
        self,
        pod: Pod,
        snapshot: "Snapshot",
        nominated: Nominated,
        *,
        exhaustive: bool = False,
        advice: Advice | None = None,
    ) -> Evaluation:
        """PreFilter, the pod's own nominated node, Filter, PreScore and Score; errors, too, are part of the result.

        `exhaustive`: look at all candidates even if the nominated node is taken, and score every feasible node, even a single
        one and whatever percentageOfNodesToScore is, with raw scores; this is work that a decision does not need.

        `advice`: of extenders, which are left out without it. If it has nodes that are `unasked` afterwards, the evaluation
        stopped there, and has to be repeated once the extenders were asked about them.
        """
        evaluation = Evaluation(pod, snapshot, CycleState(self.sample()), exhaustive=exhaustive)
        try:
            self._evaluate(evaluation, nominated, advice)
        except PluginError as error:
            evaluation.error = error
        return evaluation

    def _evaluate(self, evaluation: Evaluation, nominated: Nominated, advice: Advice | None) -> None:
        """Raises PluginError."""
        pod, snapshot, state = evaluation.pod, evaluation.snapshot, evaluation.state
        if not snapshot.num_nodes:
            return
        evaluation.pre_filter = pre_filter = self.run_pre_filter(state, pod, snapshot)
        if pre_filter.status is not None:
            return
        found = self._own_nominated_node(state, pod, snapshot, nominated, advice)
        if advice is not None and advice.unasked:
            return
        evaluation.on_nominated_node = found is not None
        if found is None:
            found = self._filter(evaluation, pre_filter, nominated, advice)
        elif evaluation.exhaustive:
            try:
                found = self._filter(evaluation, pre_filter, nominated, advice)
            except PluginError as error:
                evaluation.aside, evaluation.exhaustive = error, False
        evaluation.filtered = found
        positions, view = found.feasible, found.view
        evaluation.feasible = feasible = view if len(positions) == len(view) else view.take(positions)
        if advice is not None and advice.unasked:
            return
        if not evaluation.on_nominated_node:
            found.check(pod)
        if len(feasible) > 1 and not evaluation.on_nominated_node:
            evaluation.scores = self._score(evaluation, feasible, advice)
        elif evaluation.exhaustive and len(feasible):
            try:
                evaluation.scores = self._score(evaluation, feasible, advice)
            except PluginError as error:
                evaluation.aside = error

    def _filter(
        self, evaluation: Evaluation, pre_filter: PreFilterOutcome, nominated: Nominated, advice: Advice | None
    ) -> Feasibility:
        candidates = self.candidates(evaluation.snapshot, pre_filter)
        found = self.run_filters(evaluation.state, evaluation.pod, candidates, nominated)
        self.tell_errors(found)
        if self._sampling is not None and not evaluation.exhaustive:
            found = self._sample(self._sampling, found, evaluation.snapshot.num_nodes, advice)
        if advice is None:
            return found
        found.check(evaluation.pod)
        return advice.apply(found)

    def _sample(self, sampling: NodeSampling, found: Feasibility, num_nodes: int, advice: Advice | None) -> Feasibility:
        start = None if advice is None else advice.start
        if advice is not None and start is None:
            advice.start = sampling.start
        return sampling.apply(found, self.profile.percentage_of_nodes_to_score, num_nodes, start)

    def _score(self, evaluation: Evaluation, feasible: RowView, advice: Advice | None) -> ScoreTable:
        scores = self.run_scores(evaluation.state, evaluation.pod, feasible, keep_raw=evaluation.exhaustive)
        return scores if advice is None else advice.add_scores(scores)

    def run_pre_filter(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> PreFilterOutcome:
        """Raises PluginError."""
        return run_pre_filter(self.points["pre_filter"], state, pod, snapshot, self._pre_filter_evaluations)

    @staticmethod
    def candidates(snapshot: "Snapshot", pre_filter: PreFilterOutcome) -> RowView:
        """The rows that PreFilter left over, in node list order."""
        columns = snapshot.columns
        if pre_filter.node_names is None:
            return RowView(snapshot, columns.order)
        wanted = np.zeros(len(columns.generation), np.bool_)
        wanted[[columns.row_of[name] for name in pre_filter.node_names if name in columns.row_of]] = True
        return RowView(snapshot, columns.order[wanted[columns.order]])

    def run_filters(self, state: CycleState, pod: Pod, view: RowView, nominated: Nominated) -> Feasibility:
        """Run all filters on all rows of the view. Raises PluginError if a plugin raises; see also `Feasibility.check`.

        On a node for which pods of at least the pod's priority are nominated, it must fit both with and without them; with
        them comes first. The view may be hypothetical: each row then counts with its own pods added and removed.
        """
        guests = self._nominated_guests(pod, view, nominated)
        if guests:
            return self.run_shared_filters(state, pod, SharedView.with_guests(view, guests))
        outcome = self._filters.run(state, pod, view)
        return Feasibility(outcome, outcome.feasible)

    def locality(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> tuple[object, ...] | None:
        """What the verdict on a row depends on besides the row and the pod's spec; None where that is more of the cluster."""
        return self._filters.locality(state, pod, snapshot)

    def guests(self, pod: Pod, view: RowView) -> dict[int, list[Pod]]:
        """Position -> the nominated pods that the pod must yield to there."""
        return self._nominated_guests(pod, view, self.handle.nominator.nominated_pods_for_node)

    def share(self, pod: Pod, view: RowView) -> SharedView:
        """The rows of the view without and with the nominated pods that the pod must yield to."""
        return SharedView.with_guests(view, self.guests(pod, view))

    def run_shared_filters(self, state: CycleState, pod: Pod, shared: SharedView) -> Feasibility:
        """As `run_filters`, for those who change the rows and ask again."""
        crowded = None
        if shared.crowded is not None:
            crowded = Crowded(shared.positions, self._filters.run(state, pod, shared.crowded))
        outcome = self._filters.run(state, pod, shared.view)
        feasible = outcome.feasible
        if crowded is not None:
            refused = np.delete(crowded.positions, crowded.outcome.feasible)
            feasible = np.setdiff1d(feasible, refused, assume_unique=True)
        return Feasibility(outcome, feasible, crowded)

    def run_scores(self, state: CycleState, pod: Pod, view: RowView, *, keep_raw: bool = False) -> ScoreTable:
        """PreScore and Score for the rows of the view, all of them feasible. Raises PluginError."""
        if not self._scores.plugins:
            # kube-scheduler's prioritizeNodes: without score plugins, every node scores 1.
            return ScoreTable(view, np.ones(len(view), np.int64), dict)
        self.run_pre_score(state, pod, view)
        return self.run_score(state, pod, view, keep_raw=keep_raw)

    def run_pre_score(self, state: CycleState, pod: Pod, view: RowView) -> None:
        """PreScore alone. Raises PluginError."""
        self._scores.run_pre_score(state, pod, view)

    def run_score(self, state: CycleState, pod: Pod, view: RowView, *, keep_raw: bool = False) -> ScoreTable:
        """Score alone, after PreScore. Raises PluginError."""
        return self._scores.run(state, pod, view, keep_raw=keep_raw)

    def run_each_filter(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> list[tuple[FilterPlugin, Verdicts]]:
        """The verdicts of every filter on every node, whatever the others say. Raises PluginError."""
        return self._filters.run_each(state, pod, RowView(snapshot, snapshot.columns.order))

    def run_post_filter(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", rejected: NodeStatuses
    ) -> tuple[str | None, Status]:
        """The node to nominate ("": clear the nomination, None: leave it alone) and what came of it (RunPostFilterPlugins)."""
        node_name: str | None = None
        reasons: list[str] = []
        first = ""
        for plugin in self.points["post_filter"]:
            try:
                found, status = call(plugin, "post_filter", state, pod, snapshot, rejected)
            except Exception as error:  # noqa: BLE001  plugins are foreign code; the fault becomes the outcome
                text = str(failed(pod, plugin.name, "post_filter", error))
                return None, Status(Code.ERROR, (text,), plugin.name)
            if status.code is Code.SUCCESS:
                return found, status
            if not status.rejected:
                return None, Status(Code.ERROR, status.reasons, plugin.name)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return found, Status(status.code, status.reasons, plugin.name)
            node_name = node_name if found is None else found
            reasons += status.reasons
            first = first or plugin.name
        return node_name, Status(Code.UNSCHEDULABLE, tuple(reasons), first)

    def _own_nominated_node(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", nominated: Nominated, advice: Advice | None
    ) -> Feasibility | None:
        """The node where preemption made room is tried first, alone; None if there is none or the pod does not fit."""
        row = snapshot.columns.row_of.get(pod.nominated_node_name) if pod.nominated_node_name else None
        if row is None:
            return None
        try:
            found = self.run_filters(state, pod, RowView(snapshot, np.array([row], np.intp)), nominated)
        except PluginError:
            # As in kube-scheduler: filtering all nodes, which follows, meets the same fault, or does not need this node.
            return None
        if advice is not None:
            found = advice.apply(found)
        return found if len(found.feasible) else None

    def _nominated_guests(self, pod: Pod, view: RowView, nominated: Nominated) -> dict[int, list[Pod]]:
        """Position -> pods nominated there that the pod must yield to."""
        names = self.handle.nominator.nominated_nodes()
        if not names:
            return {}
        places: Iterable[tuple[int, str]] = enumerate(view.names()) if len(view) < len(names) else _places(view, names)
        guests = {}
        for position, name in places:
            pods = [p for p in nominated(name) if p.priority >= pod.priority and p.uid != pod.uid]
            if pods:
                guests[position] = pods
        return guests


def _places(view: RowView, names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The positions in the view of those of the named nodes that it has."""
    position_of = np.full(len(view.columns.generation), -1, np.intp)
    position_of[view.rows] = np.arange(len(view))
    rows = {row: name for name in names if (row := view.columns.row_of.get(name)) is not None}
    found = zip(position_of[list(rows)].tolist(), rows.values(), strict=True)
    return ((position, name) for position, name in found if position >= 0)


def _checked_plugin(plugin: Any, name: str) -> Any:
    """The plugin itself. Raises ValueError for attributes that would be misread in silence, or cannot be."""
    if (own := getattr(plugin, "name", None)) != name:
        # What it answers, its weight and its metrics go by its own name, and the profile by the registry's.
        raise ValueError(f"its name is {own!r}, expected {name!r}")
    for attribute in ("filter_locality", "score_locality"):
        if (value := getattr(plugin, attribute, None)) not in (None, Locality.NODE, Locality.ROW):
            raise ValueError(f"its {attribute} is {value!r}, expected {Locality.NODE!r} or {Locality.ROW!r}")
    return plugin


def _without(sets: Plugins, names: frozenset[str]) -> Plugins:
    def kept(found: PluginSet) -> PluginSet:
        return replace(found, enabled=tuple(p for p in found.enabled if p.name not in names))

    return Plugins(**{point: kept(getattr(sets, point)) for point in POINTS})


def _columnar(plugin: Any, adapter: Callable[[Any], Any]) -> Any:
    return adapter(plugin) if getattr(plugin, "per_node", False) else plugin


def _of_plugin(hint: object, plugin: str) -> EventHint:
    if not isinstance(hint, EventHint):
        raise TypeError(f"answered {hint!r}, expected an EventHint")
    return replace(hint, plugin=plugin)
