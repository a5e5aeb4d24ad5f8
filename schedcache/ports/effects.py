"""The acting side: what the scheduler does to the cluster."""

from typing import Protocol

from schedcache.model import Pod, PodCondition


class Binder(Protocol):
    """Binds pods and looks at the truth when a bind's outcome is unknown."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the Binding with the pod's UID as precondition.

        Raises RefusedError (NotFoundError) or UnavailableError where nothing was done, and OutcomeUnknownError (ConflictError)
        where it may have been.
        """

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """A live read that skips every cache; None if there is no such pod. Raises RefusedError or UnavailableError."""


class StatusWriter(Protocol):
    """Writes a pod's PodScheduled condition and nominated node, in the background, on a budget apart from the binds'."""

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Queue the write. None leaves that part alone; `nominated_node_name` "" clears it. Newer writes replace waiting ones."""

    def forget(self, uid: str) -> None:
        """Drop a write that waits for a pod that is gone or bound."""


class EventRecorder(Protocol):
    """Publishes Kubernetes events, in the background: merged into series, limited per pod, bounded in memory."""

    def event(self, regarding: Pod, type_: str, reason: str, action: str, note: str) -> None:
        """Record one event; `type_` is Normal or Warning, `note` is cut to 1,024 bytes as kube-scheduler does."""
