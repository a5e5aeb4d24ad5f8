"""What the watch path has done, as plain numbers for whoever exports metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class KindStats:
    """Counters and gauges of one kind; counters never decrease.

    Attributes:
        lists: lists that were read to their end.
        list_pages: pages that they came in.
        list_failures: by reason: lists that were abandoned and started again.
        relists: by reason: lists after the first one.
        watch_events: by type: ADDED, MODIFIED, DELETED, BOOKMARK.
        watch_restarts: by reason: ends of a watch.
        decode_seconds: time spent on reading objects.
        apply_seconds: time spent in the sink.
        missed_deletes: deletions that no event reported, found by a relist or a sweep.
        malformed: objects that could not be read, each once for each of its resourceVersions.
        unreadable: how many of those exist now.
        sink_errors: exceptions raised by the sink.
        crashes: times that a fault in this program ended the kind's task.
        sweeps: metadata-only comparisons with the API server.
        repaired: by what was wrong (missed_add, missed_update, missed_delete): objects that a sweep repaired.
        last_heard: when the last byte of a list or watch arrived, on the source's clock; -inf for never.
        last_event: when the last event was applied, likewise.
    """

    lists: int = 0
    list_pages: int = 0
    list_failures: Counter[str] = field(default_factory=Counter)
    relists: Counter[str] = field(default_factory=Counter)
    watch_events: Counter[str] = field(default_factory=Counter)
    watch_restarts: Counter[str] = field(default_factory=Counter)
    decode_seconds: float = 0.0
    apply_seconds: float = 0.0
    missed_deletes: int = 0
    malformed: int = 0
    unreadable: int = 0
    sink_errors: int = 0
    crashes: int = 0
    sweeps: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    last_heard: float = float("-inf")
    last_event: float = float("-inf")


@dataclass(slots=True)
class SourceStats:
    """Counters of a source as a whole.

    Attributes:
        rebuilds: by reason: complete rebuilds of the sink.
        source_restarts: by reason: how often kopf was restarted; empty for the reflector.
        kinds: by kind.
    """

    rebuilds: Counter[str] = field(default_factory=Counter)
    source_restarts: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, KindStats] = field(default_factory=dict)
