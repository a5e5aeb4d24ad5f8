"""PreFilter: once for each attempt, before any node is considered (kube-scheduler's RunPreFilterPlugins)."""

from collections.abc import MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from schedcache.framework.interface import CycleState, PreFilterPlugin, PreFilterResult
from schedcache.framework.plugin_calls import call, checked_status, failed, status_error
from schedcache.framework.status import SKIP, Code, Status, unresolvable
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot


class PreFilterOutcome(NamedTuple):
    """`status` rejects the pod as a whole; otherwise `node_names` are the only nodes to consider (None: all).

    `narrowed_by`: the plugins that gave node names, sorted.
    """

    status: Status | None = None
    node_names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()

    def absent_status(self) -> Status:
        """The status of the nodes that were left out."""
        listed = " ".join(self.narrowed_by)
        reason = f"node(s) didn't satisfy plugin(s) [{listed}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), ",".join(self.narrowed_by))


ALL_NODES = PreFilterOutcome()


def run_pre_filter(
    plugins: Sequence[PreFilterPlugin],
    state: CycleState,
    pod: Pod,
    snapshot: "Snapshot",
    evaluations: MutableMapping[str, int],
) -> PreFilterOutcome:
    """All plugins in order; `evaluations` counts those that did not return Skip. Raises PluginError.

    If a plugin finds the pod unresolvable, this ends at once. If one finds it unschedulable, the others still run, since
    preemption will need what they prepare; the last such status counts.
    """
    rejected: Status | None = None
    names: frozenset[str] | None = None
    narrowed_by: set[str] = set()
    for plugin in plugins:
        answer = _ask(plugin, state, pod, snapshot)
        if answer is SKIP:
            state.skip_filter.add(plugin.name)
            continue
        evaluations[plugin.name] += 1
        if answer is None:
            continue
        if isinstance(answer, PreFilterResult):
            narrowed_by.add(plugin.name)
            names = answer.node_names if names is None else names & answer.node_names
            if not names:
                return PreFilterOutcome(_nowhere(sorted(narrowed_by)), names, tuple(sorted(narrowed_by)))
        elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFilterOutcome(Status(answer.code, answer.reasons, plugin.name))
        elif answer.code is Code.UNSCHEDULABLE:
            rejected = Status(answer.code, answer.reasons, plugin.name)
        elif answer.code is not Code.SUCCESS:
            raise status_error(pod, plugin.name, "pre_filter", answer)
    if rejected is None and names is None:
        return ALL_NODES
    return PreFilterOutcome(rejected, names, tuple(sorted(narrowed_by)))


def _ask(plugin: PreFilterPlugin, state: CycleState, pod: Pod, snapshot: "Snapshot") -> PreFilterResult | Status | None:
    """Any Skip that the plugin returns becomes SKIP itself. Raises PluginError."""
    try:
        ask = plugin.pre_filter if state.timer is None else partial(call, plugin, "pre_filter")
        answer = ask(state, pod, snapshot)
        if answer is None or answer is SKIP or isinstance(answer, PreFilterResult):
            return answer
        status = checked_status(answer)
    except Exception as error:
        raise failed(pod, plugin.name, "pre_filter", error) from error
    return SKIP if status is not None and status.code is Code.SKIP else status


def _nowhere(narrowed_by: Sequence[str]) -> Status:
    if len(narrowed_by) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {narrowed_by[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(narrowed_by)}] simultaneously")
