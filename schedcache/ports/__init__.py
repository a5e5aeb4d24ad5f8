"""What the core asks of the outside world, as Protocols, and the errors that come back.

Promises: an event source passes every change to a sink, in order, and replaces everything on request; a binder's error says
whether the request may have been carried out; writers and recorders only queue their work, and never raise or block. An
`ApiError` is of exactly one of three kinds: refused, unavailable, outcome unknown.

May touch: nothing. There are only types here, and the arithmetic of backoff; the implementations are in `kube`, those for tests in
`testing`.

Start with `effects` (what goes out) and `source` (what comes in), then `errors`; `lease` has who may write at all.
"""

from schedcache.ports.access import AccessReviews, ClusterAuthentication, UserInfo
from schedcache.ports.backoff import Backoff
from schedcache.ports.cluster_event import ALL, WILDCARD, ClusterEvent
from schedcache.ports.comparison import Cause, Difference, KindComparison
from schedcache.ports.effects import Binder, EventRecorder, StatusWriter, VolumeWriter
from schedcache.ports.errors import (
    ApiError,
    ConflictError,
    FencedError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
)
from schedcache.ports.extender import (
    MAX_EXTENDER_PRIORITY,
    Extender,
    ExtenderError,
    ExtenderResult,
    FilterAnswer,
    MetaVictims,
    Victims,
    asks_for,
)
from schedcache.ports.lease import Fence, LeaderElectionRecord, LeaseLock, StoredRecord
from schedcache.ports.metrics import Metrics, NoMetrics
from schedcache.ports.preemption import Evictor, PreemptionExecutor
from schedcache.ports.source import EventSink, EventSource, KubernetesObject, Outage

__all__ = [
    "ALL",
    "MAX_EXTENDER_PRIORITY",
    "WILDCARD",
    "AccessReviews",
    "ApiError",
    "Backoff",
    "Binder",
    "Cause",
    "ClusterAuthentication",
    "ClusterEvent",
    "ConflictError",
    "Difference",
    "EventRecorder",
    "EventSink",
    "EventSource",
    "Evictor",
    "Extender",
    "ExtenderError",
    "ExtenderResult",
    "Fence",
    "FencedError",
    "FilterAnswer",
    "KindComparison",
    "KubernetesObject",
    "LeaderElectionRecord",
    "LeaseLock",
    "MetaVictims",
    "Metrics",
    "NoMetrics",
    "NotFoundError",
    "Outage",
    "OutcomeUnknownError",
    "PreemptionExecutor",
    "RefusedError",
    "StatusWriter",
    "StoredRecord",
    "UnavailableError",
    "UserInfo",
    "Victims",
    "VolumeWriter",
    "asks_for",
]
