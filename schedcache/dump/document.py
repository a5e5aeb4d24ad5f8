"""The document, as structs: camelCase in JSON, snake_case here. docs/dump.md describes each field.

Fields with a default are left out of the JSON if they have that value; all others are always there. Amounts are milli-CPU, bytes
and whole units; times are aware datetimes, written in UTC.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

API_VERSION = "schedcache/v1"
KIND = "Dump"
STATES = (
    "bound",
    "assumed",
    "waiting on permit",
    "in flight",
    "active",
    "backoff",
    "unschedulable",
    "gated",
    "pending",
)
"""The values of `PodState.state`. When read, it may be any string, since a later schedcache may know more of them."""

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Immutable, and so without reference cycles for the garbage collector."""


class Amounts(_Part, frozen=True):
    """Resources; `scalar` has the extended and similar ones by name, without those at 0."""

    milli_cpu: int
    memory: int
    ephemeral_storage: int
    scalar: Mapping[str, int]


class AllocatableAmounts(Amounts, frozen=True):
    """What a node offers, the number of pods included."""

    allowed_pod_number: int


class NonZeroAmounts(_Part, frozen=True):
    """Requests as scores see them: 100 milli-CPU and 200 MiB for a container without a request."""

    milli_cpu: int
    memory: int


class ImageState(_Part, frozen=True):
    """An image: its size in bytes, and the number of nodes that have it."""

    size: int
    num_nodes: int


class NodeState(_Part, frozen=True):
    """A node with its sums. Pods are UIDs, sorted; ports are IP, protocol and number, sorted; claims are `namespace/name`."""

    present: bool
    pods: tuple[str, ...]
    pods_with_affinity: tuple[str, ...]
    pods_with_required_anti_affinity: tuple[str, ...]
    used_ports: tuple[tuple[str, str, int], ...]
    requested: Amounts
    non_zero_requested: NonZeroAmounts
    allocatable: AllocatableAmounts
    image_states: Mapping[str, ImageState]
    pvc_ref_counts: Mapping[str, int]


class PodState(_Part, frozen=True):
    """A pod that has not finished, of whichever scheduler. `state` is one of `STATES`."""

    namespace: str
    name: str
    node: str
    state: str
    scheduler_name: str
    priority: int
    phase: str
    deleting: bool
    nominated_node_name: str
    resource_version: str
    binding_finished: bool
    assumed_deadline: Time | None


class InFlightEntry(_Part, frozen=True):
    """A pod in flight, by UID, or an event kept for those in flight, by label: one of the two."""

    pod: str | None = None
    event: str | None = None

    def __post_init__(self) -> None:
        if (self.pod is None) == (self.event is None):
            raise ValueError("Expected either `pod` or `event`")


class QueuedPod(_Part, frozen=True):
    """The history of a pod that waits in a queue. `name` is `namespace/name`, `gated_by` "" = not gated."""

    name: str
    attempts: int
    unschedulable_count: int
    consecutive_errors: int
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    gated_by: str
    timestamp: Time
    initial_attempt: Time | None
    flushed: bool
    resource_version: str
    backoff_until: Time | None = None
    """Only of a pod in one of the two backoff queues."""


class QueueState(_Part, frozen=True):
    """The queues, as UIDs: `active` and both backoffs in their order, the others sorted. `nominated` is by node."""

    active: tuple[str, ...]
    backoff: tuple[str, ...]
    error_backoff: tuple[str, ...]
    unschedulable: tuple[str, ...]
    in_flight: tuple[str, ...]
    in_flight_events: tuple[InFlightEntry, ...]
    scheduling_cycle: int
    nominated: Mapping[str, tuple[str, ...]]
    pods: Mapping[str, QueuedPod]


class Story(_Part, frozen=True):
    """One transition of the cache, as `schedcache.cache.Story` has it."""

    time: Time
    operation: str
    uid: str
    node: str
    generation: int
    cause: str


SELECTABLE_FIELDS = ("resourceVersions", "assumed", "queue", "nodes", "pods")
"""The fields of `Dump` that a reader can choose from; the others are always there."""


class DumpFilter(_Part, frozen=True):
    """What a reader asked for, as `/dump` takes it; empty: not limited by that. Fields that were not asked for are empty."""

    nodes: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ()
    selector: str = ""
    fields: tuple[str, ...] = ()


class Dump(_Part, frozen=True):
    """All that a scheduler held at `taken_at`; nodes by name, pods by UID, `assumed` the sorted UIDs of the assumed ones."""

    api_version: str
    kind: str
    taken_at: Time
    generation: int
    resource_versions: Mapping[str, str]
    assumed: tuple[str, ...]
    queue: QueueState
    nodes: Mapping[str, NodeState]
    pods: Mapping[str, PodState]
    stories: tuple[Story, ...] | None = None
    """Only if they were asked for; oldest first."""
    filter: DumpFilter | None = None
    """Only if the rest is not all that there is."""
