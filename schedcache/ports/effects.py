"""The acting side: what the scheduler does to the cluster."""

from typing import Protocol

from schedcache.model import PersistentVolume, PersistentVolumeClaim, Pod, PodCondition


class Binder(Protocol):
    """Binds pods, and reads a pod from the API server when a bind's outcome is unknown."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the Binding with the pod's UID as precondition.

        Raises RefusedError (NotFoundError) or UnavailableError if nothing was done, and OutcomeUnknownError (ConflictError)
        if the pod may have been bound.
        """

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """A live read that skips every cache; None if there is no such pod. Raises RefusedError or UnavailableError."""


class VolumeWriter(Protocol):
    """Tells the volume controller and provisioners what has been decided for a claim.

    Both writes are made only if the object is still what it was in the resourceVersion given, and return it as stored. They raise
    RefusedError (NotFoundError) or UnavailableError where nothing was done, and OutcomeUnknownError where it may have been;
    ConflictError is one of these: the object has changed, perhaps by our own first attempt.
    """

    async def prebind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Reserve the volume for the claim; its annotation bound-by-controller is written where `volume` has it."""

    async def select_node(self, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
        """Ask for the claim's volume to be provisioned so that the node reaches it."""


class StatusWriter(Protocol):
    """Writes a pod's PodScheduled condition and nominated node, in the background, with a budget separate from that of binds."""

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Queue the write. None leaves that part alone; `nominated_node_name` "" clears it. Newer writes replace waiting ones."""

    def forget(self, uid: str) -> None:
        """Drop the waiting write of a pod that is gone or bound."""


class EventRecorder(Protocol):
    """Publishes Kubernetes events, in the background: merged into series, limited per pod, bounded in memory."""

    def event(
        self, regarding: Pod, type_: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None:
        """Record one event; `type_` is Normal or Warning, `note` is cut to 1,024 bytes as kube-scheduler does.

        `related`: the pod on whose account it happened, whose profile then reports it.
        """
