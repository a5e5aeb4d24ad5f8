"""A scheduler without a cluster: asks where pods would go, one at a time or many copies of one."""

from functools import partial
from typing import Any

from schedcache.cache import ClusterObjects, Snapshot
from schedcache.config import KubeSchedulerConfiguration, KubeSchedulerProfile
from schedcache.framework import Framework, Handle, PluginError
from schedcache.framework.explanation import explain_rejection
from schedcache.model import Pod
from schedcache.plugins.default_plugins import installed_registry
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.simulation.cluster import OfflineCluster
from schedcache.simulation.decision import Decision, decide, gate
from schedcache.simulation.loading import InputError
from schedcache.simulation.preemption import RecordedPreemption, explain_preemption, preempts
from schedcache.simulation.profiles import profile_for
from schedcache.simulation.replicas import Replicas, ReplicaTrial
from schedcache.simulation.warnings import left_out, warnings_for


class OfflineScheduler:
    """Decides for pods against a cluster that it does not change. Raises PluginSetError for an invalid profile."""

    def __init__(self, cluster: OfflineCluster, config: KubeSchedulerConfiguration) -> None:
        self._cluster = cluster
        self._config = config
        self._frameworks: dict[str, Framework] = {}
        self._snapshot: Snapshot | None = None
        self._evicted = RecordedPreemption()

    @property
    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._cluster.snapshot()
        return self._snapshot

    def ask(self, pod: Pod) -> dict[str, Any]:
        """The pod's decision, as `simulate` returns it. Raises ProfileError."""
        framework, warnings = self._framework_for(pod)
        unsupported = framework.unsupported(pod)
        if unsupported:
            refused = Decision()
            refused.message = unsupported
            return {**refused.want(), "warnings": warnings, "explanation": [unsupported]}
        warnings += left_out(pod, self._config.extenders)
        decision = decide(framework, pod, self.snapshot, self._cluster.nominated_pods_for_node, self._evicted)
        return {
            **decision.want(),
            "warnings": [*warnings, *_aside(decision), *warnings_for(pod, self._cluster, self.snapshot)],
            "explanation": self._explain(framework, pod, decision),
        }

    def place_replicas(self, pod: Pod, count: int, *, preempt: bool = False) -> Replicas:
        """Place copies of the pod one after the other, each counting for the next; the cluster stays as it was.

        `preempt`: a copy that does not fit may have pods evicted. Raises ProfileError, and InputError where DefaultPreemption, which
        does that, is not in the profile.
        """
        framework, _ = self._framework_for(pod)
        if preempt and not preempts(framework):
            raise InputError(f"profile {framework.scheduler_name!r} evicts nobody: it is without DefaultPreemption")
        stopped_by = framework.unsupported(pod) or _held_by(framework, pod)
        if stopped_by:
            return Replicas([], stopped_by, [])
        trial = ReplicaTrial(self._cluster, partial(self._make_framework, framework.profile))
        return trial.place(pod, count, preempt=preempt)

    def _framework_for(self, pod: Pod) -> tuple[Framework, list[str]]:
        profile, warnings = profile_for(pod.scheduler_name, self._config)
        name = profile.scheduler_name
        if name not in self._frameworks:
            self._frameworks[name] = self._make_framework(profile, self._cluster.objects, self._evicted)
        return self._frameworks[name], warnings

    def _make_framework(
        self, profile: KubeSchedulerProfile, objects: ClusterObjects, evicted: RecordedPreemption
    ) -> Framework:
        handle = Handle(cluster_objects=objects, nominator=self._cluster, preemption=evicted)
        return Framework(profile, installed_registry(), handle)

    def _explain(self, framework: Framework, pod: Pod, decision: Decision) -> list[str]:
        if decision.gated is not None:
            return [f"not tried: {decision.gated.message} [{decision.gated.plugin}]"]
        if decision.feasible and not decision.error:
            return _choice(decision)
        if decision.error or decision.diagnosis is None:
            return [decision.message]
        lines = explain_rejection(framework, pod, self.snapshot, decision.diagnosis, decision.state)
        if decision.preemption is not None:
            lines += explain_preemption(framework, pod, decision.preemption, Budgets(self._cluster.objects))
        return lines


def _held_by(framework: Framework, pod: Pod) -> str:
    """Why the pod is not even tried, "" if it is."""
    try:
        held = gate(framework, pod)
    except PluginError as error:
        return error.message()
    return "" if held is None else f"{held.message} [{held.plugin}]"


def _aside(decision: Decision) -> list[str]:
    """What was wrong though there is a decision."""
    found = [f"not all could be looked at: {decision.aside}"] if decision.aside else []
    if decision.diagnosis is not None and decision.selected:
        for text, names in decision.diagnosis.errors().items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            found.append(f"left out, as it could not be looked at: node {names[0]}{more}: {text}")
    return found


def _choice(decision: Decision) -> list[str]:
    """The winner and its scores, and by how much the next best one falls short."""
    ranked = sorted(decision.totals, key=lambda name: (name not in decision.selected, -decision.totals[name], name))
    if not ranked:
        return []
    best = ranked[0]
    parts = ", ".join(f"{plugin} {scores[best]}" for plugin, scores in decision.by_plugin.items() if scores[best])
    lines = [f"node {best}: {decision.totals[best]} points ({parts})"]
    for other in ranked[1:2]:
        differences = {p: scores[other] - scores[best] for p, scores in decision.by_plugin.items()}
        told = ", ".join(f"{plugin} {difference:+d}" for plugin, difference in differences.items() if difference)
        lines.append(f"node {other}: {decision.totals[other]} points ({told or 'the same from every plugin'})")
    return lines
