"""For tests of this scheduler and of plugins for it: pods, nodes and a whole scheduler in memory, or a real control plane.

In memory:

    async with World(plugins=[MaintenanceWindow]) as world:
        world.add(make_node("a"), make_node("b", annotations={"example.com/maintenance": "planned"}))
        world.add(make_pod("web-0", cpu="500m"))
        await world.settle()
        assert world.node_of("web-0") == "a"

`make_pod` and `make_node` return objects of `schedcache.model`; `pod_manifest` and `node_manifest` take the same arguments
and return what is sent to an API server. The time of a `VirtualClock` passes only when a test says so.

On loopback: `ControlPlane` runs etcd and kube-apiserver, `Cluster` is a test's handle on it, `FaultProxy` stands in between
and injects faults, `FakeKubelet` runs pods without containers, `FakeVolumeController` makes and binds volumes without storage.
All but the builders and the clock are loaded when they are first used, so that a unit test starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from schedcache.testing.builders import JSONObject, as_stored, make_node, make_pod, node_manifest, pod_manifest
from schedcache.testing.virtual_clock import VirtualClock, settle

if TYPE_CHECKING:
    from schedcache.testing.api_client import ApiClient, ApiStatusError, in_parallel, wait_until
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
    from schedcache.testing.memory_api import MemoryApi, Recorder
    from schedcache.testing.processes import SupervisedProcess
    from schedcache.testing.volume_controller import FakeVolumeController
    from schedcache.testing.world import World

_MODULES = {
    "api_client": ("ApiClient", "ApiStatusError", "in_parallel", "wait_until"),
    "audit": ("AuditEvent", "AuditLog", "parse_audit_log"),
    "binaries": ("BinaryError", "find_binaries", "find_binary"),
    "cluster": ("Cluster",),
    "control_plane": ("ControlPlane", "ControlPlaneError", "free_ports"),
    "fault_proxy": ("FaultProxy",),
    "faults": (
        "Answer", "Cut", "Delay", "Hang", "Hold", "Inject", "LoseResponse", "Request", "Reset", "Rewrite", "Rule",
        "WatchStream", "error_event", "status_object",
    ),
    "kubelet": ("FakeKubelet",),
    "manifests": ("apply_manifest", "read_manifest"),
    "memory_api": ("MemoryApi", "Recorder"),
    "processes": ("SupervisedProcess",),
    "volume_controller": ("FakeVolumeController",),
    "world": ("World",),
}  # fmt: skip
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first asked for: a plugin's unit test starts no control plane."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


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
    "FakeVolumeController",
    "FaultProxy",
    "Hang",
    "Hold",
    "Inject",
    "JSONObject",
    "LoseResponse",
    "MemoryApi",
    "Recorder",
    "Request",
    "Reset",
    "Rewrite",
    "Rule",
    "SupervisedProcess",
    "VirtualClock",
    "WatchStream",
    "World",
    "apply_manifest",
    "as_stored",
    "error_event",
    "find_binaries",
    "find_binary",
    "free_ports",
    "in_parallel",
    "make_node",
    "make_pod",
    "node_manifest",
    "parse_audit_log",
    "pod_manifest",
    "read_manifest",
    "settle",
    "status_object",
    "wait_until",
]
