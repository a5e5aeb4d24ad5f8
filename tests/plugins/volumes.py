"""Volumes, claims and CSI objects for tests, with as few words as possible."""

from schedcache.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from schedcache.testing import make_pod
from tests.plugins.cluster import HOST

DRIVER = "csi.example.com"
GIB = 2**30


def expression(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions, fields=()):
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def volume(name, gib=10, *, on=None, terms=None, claim=None, phase="Available", labels=None, **spec):
    """`on`: names of the only nodes that reach it; `claim`: (name, uid) in the namespace default."""
    meta = {"name": name, "labels": labels or {}, **spec.pop("meta", {})}
    spec = {"capacity": {"storage": f"{gib}Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s", **spec}
    if on is not None:
        terms = [term(expression(HOST, *on))]
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim is not None:
        spec["claimRef"] = {"namespace": "default", "name": claim[0], "uid": claim[1]}
    return PersistentVolume.from_dict({"metadata": meta, "spec": spec, "status": {"phase": phase}})


def csi_volume(name, handle=None, driver=DRIVER, **more):
    return volume(name, csi={"driver": driver, "volumeHandle": handle or name}, phase="Bound", **more)


def claim(name, gib=1, *, bound_to="", namespace="default", owner="", annotations=None, phase="Pending", **spec):
    """`bound_to`: the volume that it is bound to for good; `owner`: UID of the pod it was made for."""
    annotations = dict(annotations or {})
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **spec.pop("meta", {})}
    if bound_to:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        spec["volumeName"], phase = bound_to, "Bound" if phase == "Pending" else phase
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": "x", "uid": owner, "controller": True}]
    requests = {"resources": {"requests": {"storage": f"{gib}Gi"}}} if gib else {}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", **requests, **spec}
    return PersistentVolumeClaim.from_dict(
        {"metadata": {**meta, "annotations": annotations}, "spec": spec, "status": {"phase": phase}}
    )


def storage_class(name="s", provisioner=DRIVER, mode="WaitForFirstConsumer", topologies=()):
    """`topologies`: one list of (key, values) a term."""
    allowed = [{"matchLabelExpressions": [{"key": k, "values": list(v)} for k, v in t]} for t in topologies]
    return StorageClass.from_dict(
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            "allowedTopologies": allowed,
        }
    )


def csi_driver(name=DRIVER, **spec):
    return CSIDriver.from_dict({"metadata": {"name": name}, "spec": spec})


def csi_node(name, drivers=(), migrated=()):
    """`drivers`: (name, limit or None)."""
    key = "storage.alpha.kubernetes.io/migrated-plugins"
    found = [
        {"name": driver, "nodeID": name, "allocatable": None if limit is None else {"count": limit}}
        for driver, limit in drivers
    ]
    meta = {"name": name, "annotations": {key: ",".join(migrated)}}
    return CSINode.from_dict({"metadata": meta, "spec": {"drivers": found}})


def room(name, capacity=None, maximum=None, topology=None, storage_class_name="s"):
    """`topology`: a label selector; None, which is nowhere, unless given."""
    return CSIStorageCapacity.from_dict(
        {
            "metadata": {"name": name, "namespace": "csi"},
            "storageClassName": storage_class_name,
            "capacity": capacity,
            "maximumVolumeSize": maximum,
            "nodeTopology": topology,
        }
    )


def attachment(name, node, volume_name, attacher=DRIVER):
    source = {"persistentVolumeName": volume_name}
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    return VolumeAttachment.from_dict({"metadata": {"name": name}, "spec": spec})


def pod_with(name, *claims, node="", ephemeral=(), inline=(), **more):
    """A pod that uses claims by name, generic ephemeral volumes by their name, and volumes given as they are written."""
    volumes = [
        *({"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims),
        *({"name": e, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}} for e in ephemeral),
        *({"name": f"i{i}", **written} for i, written in enumerate(inline)),
    ]
    return make_pod(name, node, volumes=volumes, **more)
