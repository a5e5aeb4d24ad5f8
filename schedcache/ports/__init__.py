"""What the core asks of the outside world, as Protocols, and the errors that come back."""

from schedcache.ports.backoff import Backoff
from schedcache.ports.cluster_event import ALL, WILDCARD, ClusterEvent
from schedcache.ports.effects import Binder, EventRecorder, StatusWriter
from schedcache.ports.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
)
from schedcache.ports.metrics import Metrics, NoMetrics
from schedcache.ports.source import EventSink, EventSource, KubernetesObject, Outage

__all__ = [
    "ALL",
    "WILDCARD",
    "ApiError",
    "Backoff",
    "Binder",
    "ClusterEvent",
    "ConflictError",
    "EventRecorder",
    "EventSink",
    "EventSource",
    "KubernetesObject",
    "Metrics",
    "NoMetrics",
    "NotFoundError",
    "Outage",
    "OutcomeUnknownError",
    "RefusedError",
    "StatusWriter",
    "UnavailableError",
]
