"""For tests of this scheduler and of plugins for it: a real control plane on loopback, and faults on the way to it."""

from schedcache.testing.api_client import ApiClient, ApiStatusError, JSONObject, in_parallel, wait_until
from schedcache.testing.audit import AuditEvent, AuditLog, parse_audit_log
from schedcache.testing.binaries import BinaryError, find_binaries, find_binary
from schedcache.testing.cluster import Cluster
from schedcache.testing.control_plane import ControlPlane, ControlPlaneError, free_ports
from schedcache.testing.fault_proxy import FaultProxy
from schedcache.testing.faults import (
    Answer,
    Cut,
    Delay,
    Hang,
    Hold,
    Inject,
    LoseResponse,
    Request,
    Reset,
    Rewrite,
    Rule,
    WatchStream,
    error_event,
    status_object,
)
from schedcache.testing.kubelet import FakeKubelet
from schedcache.testing.manifests import apply_manifest, read_manifest
from schedcache.testing.nodes import node_manifest, pod_manifest
from schedcache.testing.processes import SupervisedProcess

__all__ = [
    "Answer",
    "ApiClient",
    "ApiStatusError",
    "AuditEvent",
    "AuditLog",
    "BinaryError",
    "Cluster",
    "ControlPlane",
    "ControlPlaneError",
    "Cut",
    "Delay",
    "FakeKubelet",
    "FaultProxy",
    "Hang",
    "Hold",
    "Inject",
    "JSONObject",
    "LoseResponse",
    "Request",
    "Reset",
    "Rewrite",
    "Rule",
    "SupervisedProcess",
    "WatchStream",
    "apply_manifest",
    "error_event",
    "find_binaries",
    "find_binary",
    "free_ports",
    "in_parallel",
    "node_manifest",
    "parse_audit_log",
    "pod_manifest",
    "read_manifest",
    "status_object",
    "wait_until",
]
