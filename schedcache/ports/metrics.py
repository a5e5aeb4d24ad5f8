"""What the core counts and times. The implementation decides where the numbers go."""

from typing import Protocol


class Metrics(Protocol):
    """Called when something happens. Calls must be cheap and must not raise; some are made for each pod.

    The names are those of kube-scheduler's metrics where it has them (1.37). Times are in seconds.
    """

    def schedule_attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended; `result` is `scheduled`, `unschedulable` or `error`; the time includes binding."""

    def scheduling_algorithm(self, seconds: float) -> None:
        """The search for a node, from the snapshot to the choice."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """The plugins of one extension point were called; `status` is a status code's name."""

    def plugin_execution(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin was called at an extension point, in a sampled attempt."""

    def filter_failed(self, plugin: str) -> None:
        """In one attempt, a filter returned errors for nodes, which count as rejected."""

    def pod_scheduled(self, attempts: int, sli_seconds: float | None) -> None:
        """A pod was bound; the time counts from its first attempt."""

    def event_handled(self, event: str, seconds: float) -> None:
        """A change in the cluster was applied to cache and queue."""

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod no longer waits on Permit."""

    def preemption_attempt(self) -> None:
        """PostFilter was asked to make room for a pod."""

    def preemption_evaluated(self, result: str, seconds: float) -> None:
        """It was decided whom to evict, extenders included; `result` is a status code's name."""

    def preemption_victims(self, number: int) -> None:
        """A node was chosen to make room on; those that are terminating already count."""

    def preemption_violations(self, number: int) -> None:
        """So many victims on the node that was chosen break a PodDisruptionBudget."""

    def preemption_done(self, result: str, seconds: float) -> None:
        """The evictions for one pod are over; `result` is `success` or `error`."""

    def volume_stage_failed(self, stage: str) -> None:
        """Something failed at a pod's claims; `stage` is `predicate` (on some node at least), `assume` or `bind`."""

    def bind_doubt(self, outcome: str) -> None:
        """What a live read showed of a pod whose bind had an unknown outcome, or whose confirmation was late."""

    def extender_call(self, extender: str, verb: str, result: str, seconds: float) -> None:
        """An extender was asked; `verb` is `filter`, `prioritize`, `preempt` or `bind`, `result` an ExtenderResult."""

    def cache_error(self, kind: str) -> None:
        """Cache and events contradicted each other, so everything is read again."""

    def rebuilt(self) -> None:
        """Everything was read again, and cache and queue were rebuilt."""

    def malformed_object(self, kind: str) -> None:
        """An object that could not be read was left out."""


class NoMetrics:
    """Counts nothing, for embedding and tests."""

    def schedule_attempt(self, profile: str, result: str, seconds: float) -> None: ...
    def scheduling_algorithm(self, seconds: float) -> None: ...
    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None: ...
    def plugin_execution(self, plugin: str, point: str, status: str, seconds: float) -> None: ...
    def filter_failed(self, plugin: str) -> None: ...
    def pod_scheduled(self, attempts: int, sli_seconds: float | None) -> None: ...
    def event_handled(self, event: str, seconds: float) -> None: ...
    def permit_wait(self, result: str, seconds: float) -> None: ...
    def preemption_attempt(self) -> None: ...
    def preemption_evaluated(self, result: str, seconds: float) -> None: ...
    def preemption_victims(self, number: int) -> None: ...
    def preemption_violations(self, number: int) -> None: ...
    def preemption_done(self, result: str, seconds: float) -> None: ...
    def volume_stage_failed(self, stage: str) -> None: ...
    def bind_doubt(self, outcome: str) -> None: ...
    def extender_call(self, extender: str, verb: str, result: str, seconds: float) -> None: ...
    def cache_error(self, kind: str) -> None: ...
    def rebuilt(self) -> None: ...
    def malformed_object(self, kind: str) -> None: ...
