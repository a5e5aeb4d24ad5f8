"""Copies of a pod, placed one after the other, if need be in the place of pods of lower priority."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot, Stories
from schedcache.framework import FitError, Framework, NoNodesError, PluginError, SchedulingFailure
from schedcache.model import Pod
from schedcache.model.kinds import CLUSTER_OBJECTS
from schedcache.plugins.preemption.budgets import KIND, Budgets
from schedcache.simulation.cluster import OfflineCluster
from schedcache.simulation.preemption import RecordedPreemption, make_room


class Eviction(NamedTuple):
    """A pod that is evicted from its node for a copy; `broken`: the full names of budgets that had nothing left for it."""

    pod: Pod
    copy: str
    broken: list[str]

    def want(self) -> dict[str, Any]:
        """In the form of the report."""
        return {
            "pod": self.pod.full_name,
            "node": self.pod.node_name,
            "priority": self.pod.priority,
            "for": self.copy,
            "budgetsBroken": self.broken,
        }


class Replicas(NamedTuple):
    """Node names in the order in which the copies were placed, and why the next one does not fit ("": all were placed)."""

    placed: list[str]
    stopped_by: str
    evicted: list[Eviction]

    def want(self) -> dict[str, Any]:
        """In the form of the report."""
        evicted = [eviction.want() for eviction in self.evicted]
        return {"placed": self.placed, "stopped_by": self.stopped_by, "evicted": evicted}


class ReplicaTrial:
    """Places copies and evicts pods on a cluster of its own, made from the one that is given, which stays as it is.

    Evicted pods are gone at once and for good: their owners make no others. The budgets that cover them allow that many fewer.
    """

    def __init__(
        self, cluster: OfflineCluster, make_framework: Callable[[ClusterObjects, RecordedPreemption], Framework]
    ) -> None:
        self._evicted = RecordedPreemption()
        self._objects = ClusterObjects()
        for kind in CLUSTER_OBJECTS:
            for obj in cluster.objects.list(kind):
                self._objects.add(kind, obj)
        self._framework = make_framework(self._objects, self._evicted)
        self._nominated = cluster.nominated_pods_for_node
        self._budgets = Budgets(self._objects)
        self._cache = SchedulerCache(clock=lambda: 0.0, stories=Stories())
        for node in cluster.nodes.values():
            self._cache.add_node(node)
        for pod in cluster.placed():
            self._cache.add_pod(pod)
        self._snapshot = Snapshot()
        self._cache.update_snapshot(self._snapshot)

    def place(self, pod: Pod, count: int, *, preempt: bool) -> Replicas:
        """Of equally good nodes, the first by name is taken, so that the answer is always the same."""
        placed: list[str] = []
        evictions: list[Eviction] = []
        stopped_by = ""
        while len(placed) < count and not stopped_by:
            copy = replace(pod, name=f"{pod.name}-{len(placed)}", uid=f"{pod.uid}-{len(placed)}")
            try:
                node = self._choose(copy)
            except FitError as error:
                node, stopped_by = self._make_room(copy, error, evictions) if preempt else ("", error.message())
            except (NoNodesError, PluginError) as error:
                node, stopped_by = "", error.message()
            if node:
                self._cache.add_pod(copy.with_node(node))
                self._cache.update_snapshot(self._snapshot)
                placed.append(node)
        return Replicas(placed, stopped_by, evictions)

    def _choose(self, pod: Pod) -> str:
        """Raises SchedulingFailure."""
        result = self._framework.schedule(pod, self._snapshot, self._nominated, random.Random(0))
        if result.scores is None:
            return result.node_name
        return min(result.scores.view.name(position) for position in result.scores.best().tolist())

    def _make_room(self, pod: Pod, error: FitError, evictions: list[Eviction]) -> tuple[str, str]:
        """The node where there is room then; "" where none can be made, and why."""
        rejected = error.diagnosis.statuses
        found = make_room(self._framework, pod, self._snapshot, error.state, rejected, self._evicted)
        if not found.node_name:
            return "", f"{error.message()} {found.status.message}".rstrip()
        for victim in found.victims:
            if not victim.terminating:
                evictions.append(Eviction(victim, pod.name, self._use_up_budgets(victim)))
            self._cache.remove_pod(victim)
        self._cache.update_snapshot(self._snapshot)
        try:
            return self._choose(replace(pod, nominated_node_name=found.node_name)), ""
        except SchedulingFailure as failure:
            return "", failure.message()

    def _use_up_budgets(self, victim: Pod) -> list[str]:
        """Those that had nothing left."""
        broken = []
        for budget in self._budgets.covering(victim):
            if budget.disruptions_allowed > 0:
                self._objects.update(KIND, replace(budget, disruptions_allowed=budget.disruptions_allowed - 1))
            else:
                broken.append(budget.full_name)
        return broken
