"""The document that `/dump` gives: its structs, how it is written, and how it is read back.

    from schedcache.dump import load_dump

    dump = load_dump(Path("dump.json").read_bytes(), "dump.json")
    late = [pod.name for pod in dump.queue.pods.values() if dump.taken_at - pod.timestamp > timedelta(minutes=5)]

`load_dump` needs no running scheduler and nothing that talks to one; `schedcache.server.dump` takes dumps of a scheduler, and
`pieces` turns them into JSON. A dump of the same `apiVersion` by a later schedcache may have more fields, which are
ignored; the fields of today keep their names and meanings until that version changes.
"""

from schedcache.dump.document import (
    API_VERSION,
    KIND,
    SELECTABLE_FIELDS,
    STATES,
    AllocatableAmounts,
    Amounts,
    Dump,
    DumpFilter,
    ImageState,
    InFlightEntry,
    NodeState,
    NonZeroAmounts,
    PodState,
    QueuedPod,
    QueueState,
    Story,
)
from schedcache.dump.loading import DumpError, load_dump
from schedcache.dump.schema import json_schema
from schedcache.dump.writing import pieces

__all__ = [
    "API_VERSION",
    "KIND",
    "SELECTABLE_FIELDS",
    "STATES",
    "AllocatableAmounts",
    "Amounts",
    "Dump",
    "DumpError",
    "DumpFilter",
    "ImageState",
    "InFlightEntry",
    "NodeState",
    "NonZeroAmounts",
    "PodState",
    "QueueState",
    "QueuedPod",
    "Story",
    "json_schema",
    "load_dump",
    "pieces",
]
