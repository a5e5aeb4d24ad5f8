"""A pod on its way through the queue."""

from dataclasses import dataclass, field

from schedcache.model import Pod
from schedcache.queue.clock import to_seconds

PodKey = tuple[str, str]
"""Namespace and name."""


def pod_key(pod: Pod) -> PodKey:
    """The key of a pod in the queues: a pod and its successor of the same name never wait side by side."""
    return pod.shape.namespace, pod.name


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod with its queueing history (kube-scheduler's QueuedPodInfo and QueueingParams, 1.37).

    Between `pop` and `add_unschedulable` it belongs to the caller, who sets `pod` to the newest object and the two sets of
    plugins to those that rejected this attempt; both empty means that the attempt failed with an error. While it waits, it
    belongs to the queue and must not be changed.
    """

    pod: Pod
    timestamp_ns: int
    """When it entered the queue, or returned to it after its last attempt."""
    enqueued_ns: int
    """When the queue first saw it."""
    sequence: int = 0
    """Breaks ties of `timestamp_ns`, first come first served."""
    attempts: int = 0
    unschedulable_count: int = 0
    """Attempts that ended in a rejection."""
    consecutive_errors: int = 0
    """Attempts that ended in an error since the last rejection."""
    last_error: str = ""
    """The message of the last attempt that ended in an error, so that the caller can recognise a repetition."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    """Plugins that rejected the last attempt, and plugins that gate the pod."""
    pending_plugins: set[str] = field(default_factory=set)
    """Plugins that wait for something that brings the pod back without backoff (status Pending)."""
    gated_by: str = ""
    """The PreEnqueue plugin that holds the pod back, "" = not gated."""
    initial_attempt_ns: int | None = None
    """When it first became active, None = never."""
    flushed: bool = False
    """The pool's time limit, and not an event, woke it for its next attempt."""
    flush_ns: int | None = None
    backoff_until_ns: int | None = None
    """The cached end of the backoff; None = not computed since the last failure."""
    popped_uid: str = ""
    """The UID under which the running attempt was popped: `pod` may since be a successor of the same name."""
    key: PodKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = pod_key(self.pod)

    @property
    def timestamp(self) -> float:
        """`timestamp_ns` in seconds."""
        return to_seconds(self.timestamp_ns)

    @property
    def initial_attempt(self) -> float | None:
        """`initial_attempt_ns` in seconds."""
        return None if self.initial_attempt_ns is None else to_seconds(self.initial_attempt_ns)

    @property
    def backoff_until(self) -> float | None:
        """The end of the backoff in seconds; None if there is none, or it was not asked for since the last failure."""
        return None if self.backoff_until_ns is None else to_seconds(self.backoff_until_ns)

    @property
    def failed_with_error(self) -> bool:
        """Nothing rejected it: the last attempt ended in an error."""
        return not self.unschedulable_plugins and not self.pending_plugins
