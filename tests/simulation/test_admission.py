"""What admission makes of raw manifests: what a real API server stores is what is simulated with, what it refuses is told."""

import copy

import msgspec
import pytest

from schedcache.config import config_from_dict
from schedcache.model import Pod
from schedcache.simulation import InputError, WhatIf, parse_objects
from schedcache.simulation.admission import Admission
from schedcache.simulation.api_defaults import with_api_defaults
from schedcache.testing import ApiStatusError, wait_until

DEFAULT_CLASS = {"storageclass.kubernetes.io/is-default-class": "true"}
KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [
            {"key": "sandbox", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        ],
    },
}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits", "namespace": "limited"},
    "spec": {
        "limits": [
            {"type": "Pod", "max": {"cpu": "64"}},
            {
                "type": "Container",
                "default": {"cpu": "2"},
                "defaultRequest": {"cpu": "300m", "ephemeral-storage": "1Gi"},
                "max": {"memory": "8Gi"},
                "min": {"ephemeral-storage": "1Mi"},
            },
        ]
    },
}


def priority_class(name, value, **more):
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, **more}


def storage_class(name, **metadata):
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, **metadata}}
    return {**head, "provisioner": "d.example"}


CLUSTER = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}},
    priority_class("high", 1000),
    priority_class("patient", 900, preemptionPolicy="Never"),
    priority_class("usual", 50, globalDefault=True),
    KATA,
    {**KATA, "metadata": {"name": "plain"}, "overhead": None, "scheduling": None},
    LIMITS,
    storage_class("b-default", annotations=DEFAULT_CLASS),
    storage_class("a-default", annotations=DEFAULT_CLASS),
    storage_class("other"),
]


def pod(namespace="default", resources=None, **spec):
    containers = [{"name": "c", "image": "i", "resources": resources or {}}]
    head = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": {"app": "a"}},
    }
    return {**head, "spec": {"containers": containers, **spec}}


def claim(**spec):
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    return {**head, "spec": {**size, **spec}}


def not_ready(**more):
    return {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", **more}


ADMITTED = {
    "nothing said": pod(),
    "a class": pod(priorityClassName="high"),
    "a class of the system": pod(namespace="kube-system", priorityClassName="system-node-critical"),
    "a class that preempts nobody": pod(priorityClassName="patient"),
    "its priority too": pod(priorityClassName="high", priority=1000),
    "limits of the namespace": pod(namespace="limited"),
    "some limits of its own": pod(namespace="limited", resources={"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}),
    "init containers": pod(namespace="limited", initContainers=[{"name": "i", "image": "i"}]),
    "everything tolerated": pod(tolerations=[{"operator": "Exists"}]),
    "one outage tolerated": pod(tolerations=[not_ready(tolerationSeconds=5)]),
    "another effect": pod(tolerations=[{**not_ready(), "effect": "NoSchedule"}]),
    "a runtime": pod(runtimeClassName="kata"),
    "a runtime and its overhead": pod(runtimeClassName="kata", overhead={"memory": "120Mi", "cpu": "0.25"}),
    "a runtime and a selector": pod(runtimeClassName="kata", nodeSelector={"disk": "ssd", "sandbox": "yes"}),
    "a runtime and its tolerations": pod(
        runtimeClassName="kata",
        tolerations=[{"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, {"key": "a", "operator": "Exists"}],
    ),
    "a runtime that asks for nothing": pod(runtimeClassName="plain"),
    "no class of storage": claim(),
    "a class of storage": claim(storageClassName="other"),
    "no storage class wanted": claim(storageClassName=""),
}  # fmt: skip
REFUSED = {
    "no PriorityClass with name gone was found": pod(priorityClassName="gone"),
    "the integer value of priority (5) must not be provided": pod(priority=5),
    "(7) must not be provided in pod spec; priority admission controller computed 1000": pod(
        priorityClassName="high", priority=7
    ),
    "the string value of PreemptionPolicy (Never) must not be provided in pod spec": pod(preemptionPolicy="Never"),
    'RuntimeClass "gone" not found': pod(runtimeClassName="gone"),
    "Pod's Overhead doesn't match RuntimeClass's defined Overhead": pod(runtimeClassName="kata", overhead={"cpu": "1"}),
    "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes": pod(
        runtimeClassName="kata", nodeSelector={"sandbox": "no"}
    ),
}


def seen(obj):
    """What scheduling sees of a pod, and what a claim asks for."""
    if obj["kind"] != "Pod":
        return obj["spec"].get("storageClassName")
    found = Pod.from_dict(obj)
    resources = [c["resources"] for c in (*obj["spec"]["containers"], *obj["spec"].get("initContainers", ()))]
    amounts = [{field: some.get(field) for field in ("limits", "requests") if some.get(field)} for some in resources]
    asked = msgspec.structs.asdict(found.spec)
    requests = asked.pop("requests")
    return {
        **asked,
        "asked": (requests.resource, requests.non_zero_milli_cpu, requests.non_zero_memory, requests.named),
        "amounts": amounts,
        "tolerated": obj["spec"].get("tolerations"),
    }


def server_path(obj):
    plural = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}[obj["kind"]]
    return f"/api/v1/namespaces/{obj['metadata']['namespace']}/{plural}"


async def tried(cluster, obj):
    """What the API server would store, or what it says of it."""
    try:
        return await cluster.request("POST", server_path(obj), obj, params={"dryRun": "All"})
    except ApiStatusError as error:
        return str(error)


@pytest.mark.controlplane
async def test_what_the_api_server_stores_is_what_is_simulated_with(cluster):
    made = await cluster.apply_manifest(copy.deepcopy(CLUSTER))
    admission = Admission(made)

    async def follows():
        """Its admission plugins read through caches of their own, which lag."""
        found = [
            await tried(cluster, ADMITTED[name])
            for name in ("a runtime", "limits of the namespace", "no class of storage")
        ]
        return (
            not isinstance(found[0], str)
            and "limits" in found[1]["spec"]["containers"][0]["resources"]
            and found[2]["spec"].get("storageClassName") is not None
        )

    await wait_until(follows)
    for name, obj in ADMITTED.items():
        stored = await tried(cluster, obj)
        assert not isinstance(stored, str), (name, stored)
        assert seen(with_api_defaults(obj, admission)) == seen(stored), name
        assert admission.objections(obj) == [], name
        assert seen(with_api_defaults(stored, admission)) == seen(stored), name
    for said, obj in REFUSED.items():
        assert said in await tried(cluster, obj)
        assert len(admission.objections(obj)) == 1


def test_of_several_default_classes_of_storage_the_newest_counts_then_the_first_by_name():
    def default(name, created):
        return storage_class(name, annotations=DEFAULT_CLASS, creationTimestamp=created)

    old, new = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    made = with_api_defaults(
        claim(), Admission([default("z", old), default("c", new), default("b", new), default("a", old)])
    )
    assert made["spec"]["storageClassName"] == "b"


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ({**LIMITS, "spec": {"limits": [{"max": {"cpu": "lots"}}]}}, "LimitRange limits: spec.limits[0].max.cpu: 'lots' is not"),
        ({**LIMITS, "spec": {"limits": 5}}, "LimitRange limited/limits: spec.limits: expected `array"),
        ({**KATA, "overhead": {"podFixed": {"cpu": "-1"}}}, "RuntimeClass kata: overhead.podFixed.cpu: -1 is negative"),
        ({**KATA, "scheduling": {"tolerations": [5]}}, "RuntimeClass kata: scheduling.tolerations[0]: expected `object`"),
    ],
)  # fmt: skip
def test_what_admission_goes_by_must_be_readable(obj, said):
    with pytest.raises(InputError) as caught:
        WhatIf(parse_objects(str(obj), "f"), config_from_dict(None).config)
    assert str(caught.value).startswith(f"f: {said}")


def test_the_overhead_and_the_limits_count_for_the_answer():
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"sandbox": "yes"}},
        "status": {"allocatable": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "9Gi", "pods": "9"}},
    }
    objects = [
        o
        for obj in (*CLUSTER, node)
        for o in parse_objects(str({**obj}).replace("None", "null").replace("True", "true"), "f")
    ]

    def message(obj):
        world = WhatIf(objects, config_from_dict(None).config)
        [asked] = world.pods_of(parse_objects(str(obj), "p"))
        return world.ask([asked]).report["pods"][0]["message"]

    assert message(pod(runtimeClassName="kata")) == ""
    assert "Insufficient cpu" in message(pod(runtimeClassName="kata", resources={"requests": {"cpu": "300m"}}))
    assert "Insufficient cpu" in message(pod(namespace="limited", runtimeClassName="kata"))
