"""Preemption without evictions: what would be done is written down, and what it would cost is told."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schedcache.cache import Snapshot
from schedcache.framework import CycleState, Framework, NodeStatuses, PreemptionAdvice, Status
from schedcache.model import Pod
from schedcache.plugins.default_preemption import NEVER, DefaultPreemption
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.plugins.preemption.costs import costs_of
from schedcache.ports import Victims

_NODES = 3
"""Nodes told of, the cheapest first."""
_PODS = 5
"""Victims named a node."""


class RecordedPreemption:
    """The PreemptionExecutor of a simulation: `victims` of the last preemption, by importance."""

    def __init__(self) -> None:
        self.victims: Sequence[Pod] = ()

    def attempted(self) -> None:
        """Nothing to write down."""

    def preempt(self, _preemptor: Pod, _node_name: str, victims: Sequence[Pod]) -> None:
        self.victims = victims

    @staticmethod
    def is_running(_uid: str) -> bool:
        """Never: nothing takes time here."""
        return False

    def clear(self) -> None:
        """Forget the last preemption."""
        self.victims = ()


class Preemption(NamedTuple):
    """What PostFilter answered: `node_name` None leaves the pod's nomination alone, "" clears it.

    `candidates`: by node name, whom DefaultPreemption would have to evict there.
    """

    node_name: str | None
    status: Status
    victims: Sequence[Pod]
    candidates: Mapping[str, Victims] = {}

    def want(self) -> dict[str, Any]:
        """In the form of `schedcache.simulation.simulate`; victims that are terminating already are not deleted again."""
        nominating = "none" if self.node_name is None else "set" if self.node_name else "clear"
        return {
            "nominatedNode": self.node_name or "",
            "nominating": nominating,
            "victims": sorted(pod.full_name for pod in self.victims if not pod.terminating),
            "code": self.status.code.label,
            "message": self.status.message,
        }


def preempts(framework: Framework) -> bool:
    """Whether DefaultPreemption is in the profile."""
    return any(plugin.name == DefaultPreemption.name for plugin in framework.points["post_filter"])


def make_room(
    framework: Framework,
    pod: Pod,
    snapshot: Snapshot,
    state: CycleState,
    rejected: NodeStatuses,
    evicted: RecordedPreemption,
) -> Preemption:
    """Ask PostFilter; `evicted` is what the framework's handle preempts with."""
    evicted.clear()
    # As where extenders are asked: the candidates are shown before one is chosen. Here nobody changes them.
    state[PreemptionAdvice] = advice = PreemptionAdvice(framework.handle.extenders)
    node_name, status = framework.run_post_filter(state, pod, snapshot, rejected)
    if advice.is_wanted:
        advice.left = advice.candidates
        node_name, status = framework.run_post_filter(state, pod, snapshot, rejected)
    return Preemption(node_name, status, evicted.victims, advice.candidates)


def explain_preemption(framework: Framework, pod: Pod, preemption: Preemption, budgets: Budgets) -> list[str]:
    """Which evictions would help and what they would cost, a line for each of the cheapest nodes.

    Empty where DefaultPreemption is not in the profile, or would help nowhere.
    """
    if pod.spec.preemption_policy == NEVER:
        text = "no pod is evicted to make room: the pod's preemptionPolicy is Never"
        return [text] if preempts(framework) else []
    names = sorted(preemption.candidates)
    ranked = costs_of(preemption.candidates[name] for name in names).ranked().tolist()
    lines = [
        f"node {name}: {_cost(preemption.candidates[name], budgets)}"
        for name in (names[position] for position in ranked[:_NODES])
    ]
    more = len(names) - len(lines)
    if more:
        lines.append(f"on {_number(more, 'more node')} it would fit after evictions that cost as much or more")
    return lines


def _cost(victims: Victims, budgets: Budgets) -> str:
    pods = victims.pods
    named = ", ".join(map(_victim, pods[:_PODS])) + (f", and {len(pods) - _PODS} more" if len(pods) > _PODS else "")
    text = f"the pod would fit after the eviction of {_number(len(pods), 'pod')}: {named}; "
    broken = _broken(pods, budgets)
    if broken:
        return f"{text}this would break {_number(len(broken), 'PodDisruptionBudget')}: {', '.join(broken)}"
    if victims.pdb_violations:
        # It looks at all pods of lower priority that are on the node, not only at those that have to go in the end.
        counted = f"though the scheduler counts {victims.pdb_violations} as breaking one"
        return f"{text}this would break no PodDisruptionBudget, {counted}"
    return f"{text}this would break no PodDisruptionBudget"


def _victim(pod: Pod) -> str:
    return f"{pod.full_name} (priority {pod.priority}{', terminating already' if pod.terminating else ''})"


def _broken(pods: Sequence[Pod], budgets: Budgets) -> list[str]:
    """The budgets that allow fewer evictions than these."""
    covering = [budget for pod in pods if not pod.terminating for budget in budgets.covering(pod)]
    uses = Counter(budget.full_name for budget in covering)
    return sorted({b.full_name for b in covering if uses[b.full_name] > b.disruptions_allowed})


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
