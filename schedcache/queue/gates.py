"""PreEnqueue: plugins that keep a pod from being tried at all."""

from collections.abc import Callable, Iterable, Mapping

from schedcache.model import Pod
from schedcache.queue.faults import Faults
from schedcache.queue.queued_pod import QueuedPodInfo

GateFn = Callable[[Pod], bool]
"""True = the pod is held back. Raising counts as True: an unready pod must not slip through."""
PreEnqueue = Iterable[tuple[str, GateFn]] | Mapping[str, Iterable[tuple[str, GateFn]]]
"""Plugin name and gate, for all scheduler names or by scheduler name."""


class Gates:
    """The PreEnqueue plugins of each profile, in order."""

    def __init__(self, pre_enqueue: PreEnqueue, faults: Faults) -> None:
        self._faults = faults
        self._flat: dict[str, GateFn] | None = None
        self._by_profile: dict[str, dict[str, GateFn]] = {}
        if isinstance(pre_enqueue, Mapping):
            self._by_profile = {name: dict(gates) for name, gates in pre_enqueue.items()}
        else:
            self._flat = dict(pre_enqueue)

    def hold(self, info: QueuedPodInfo) -> bool:
        """Ask the gates, starting with the one that already holds the pod; the first that says no is recorded. True = held back."""
        gates = self._by_profile.get(info.pod.scheduler_name, {}) if self._flat is None else self._flat
        before = info.gated_by
        if before in gates and self._shut(before, gates[before], info):
            return True
        for plugin, gate in gates.items():
            if plugin != before and self._shut(plugin, gate, info):
                return True
        info.gated_by = ""
        return False

    def _shut(self, plugin: str, gate: GateFn, info: QueuedPodInfo) -> bool:
        try:
            shut = gate(info.pod)
        except Exception as error:  # noqa: BLE001  plugins are foreign code; a gate that cannot answer stays shut
            shut = True
            self._faults.report(plugin, "PreEnqueue", info.pod, error)
        if shut:
            info.unschedulable_plugins.add(plugin)
            info.gated_by = plugin
        return shut
