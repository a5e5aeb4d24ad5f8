"""Preemption without evictions: what would be done is written down."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from schedcache.framework import Status
from schedcache.model import Pod


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
    """What PostFilter answered: `node_name` None leaves the pod's nomination alone, "" clears it."""

    node_name: str | None
    status: Status
    victims: Sequence[Pod]

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
