"""SchedulingGates: a pod with spec.schedulingGates is not tried (KEP-3521)."""

from typing import Any

from schedcache.framework import EventHint, Handle, Status, unresolvable
from schedcache.model import Pod


class SchedulingGates:
    """Holds gated pods back."""

    name = "SchedulingGates"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def pre_enqueue(pod: Pod) -> Status | None:
        if not pod.scheduling_gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [EventHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",))]
