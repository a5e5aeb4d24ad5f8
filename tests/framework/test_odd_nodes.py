"""Nodes, pods and volumes with amounts that an API server stores though nothing has them: others are placed as if they were not there."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.framework import MAX_NODE_SCORE, add_amounts, default_normalize_score, percent
from schedcache.model import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from schedcache.testing import World, make_node, make_pod

TOP = 2**63 - 1
GPU = "example.com/gpu"
STRATEGIES = {
    "LeastAllocated": {"type": "LeastAllocated"},
    "MostAllocated": {"type": "MostAllocated"},
    "RequestedToCapacityRatio": {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    },
}
RESOURCES = [{"name": name, "weight": weight} for name, weight in (("cpu", 100), ("memory", 100), (GPU, 7))]

amounts = st.one_of(
    st.integers(10**17, TOP),
    st.sampled_from([TOP, TOP - 1, TOP // 100, TOP // 100 + 1, 10**17, 2**62, "9E", "8Ei", "1e30"]),
    st.sampled_from(["0", "1n", "0.000001", "100m", 1, 2**53 + 1]),
)
whole = st.one_of(st.integers(10**17, TOP), st.sampled_from(["9E", "8Ei", "1e30", 110, "0"]))
taints = st.lists(
    st.builds(
        lambda key, value, effect: {"key": key, "value": value, "effect": effect},
        st.sampled_from(["a", "example.com/b", "node.kubernetes.io/unschedulable"]),
        st.sampled_from(["", "9223372036854775808", "-1", "x.y_z"]),
        st.sampled_from(["PreferNoSchedule", "PreferNoSchedule", "NoSchedule"]),
    ),
    max_size=2,
)
odd_nodes = st.builds(
    lambda cpu, memory, gpu, pods, found, sizes, labels: {
        "cpu": cpu,
        "memory": memory,
        "pods": pods,
        "capacity": {"ephemeral-storage": memory, **({} if gpu is None else {GPU: gpu})},
        "taints": found,
        "images": [([f"registry.k8s.io/{i}:latest"], size) for i, size in enumerate(sizes)],
        "labels": {f"example.com/{i}": str(TOP) for i in range(labels)},
    },
    amounts,
    amounts,
    st.none() | whole,
    whole,
    taints,
    st.lists(st.integers(-TOP - 1, TOP), max_size=3),
    st.sampled_from([0, 1, 300]),
)
odd_pods = st.builds(
    lambda cpus, memory: {
        "containers": [
            {"name": str(i), "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            for i, cpu in enumerate(cpus)
        ]
    },
    st.lists(amounts, min_size=1, max_size=3),
    amounts,
)


def world_of(strategy, *objects):
    arguments = {"scoringStrategy": {**STRATEGIES[strategy], "resources": RESOURCES}}
    balanced = {"resources": [{"name": r["name"], "weight": 1} for r in RESOURCES]}
    config = [
        {"name": "NodeResourcesFit", "args": arguments},
        {"name": "NodeResourcesBalancedAllocation", "args": balanced},
    ]
    world = World({"profiles": [{"schedulerName": "schedcache", "pluginConfig": config}]})
    world.add(*objects)
    return world


def scores_of(world, pod):
    """Node -> what NodeResourcesFit and NodeResourcesBalancedAllocation give it."""
    framework = world.scheduler.frameworks["schedcache"]
    found = framework.evaluate(pod, world.snapshot(), world.queue.nominated_pods_for_node, exhaustive=True)
    assert found.error is None
    assert found.aside is None
    parts = found.scores.by_plugin()
    assert all(((scores >= 0) & (scores <= 10 * MAX_NODE_SCORE)).all() for scores in parts.values())
    resources = zip(parts["NodeResourcesFit"].tolist(), parts["NodeResourcesBalancedAllocation"].tolist(), strict=True)
    return dict(zip(found.feasible.names(), resources, strict=True))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.lists(odd_nodes, min_size=1, max_size=2),
    st.lists(odd_pods, max_size=2),
    st.integers(0, 3000),
)
def test_normal_nodes_score_as_if_there_were_no_odd_ones(strategy, odd, guests, used):
    normal = [make_node(f"normal-{i}", cpu=4 * (i + 1), capacity={GPU: 2}) for i in range(3)]
    running = make_pod("running", "normal-1", cpu=f"{used}m", requests={GPU: "1"})
    images = [{"name": str(i), "image": f"registry.k8s.io/{i}"} for i in range(3)]
    images[0]["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi", GPU: 1}, "limits": {GPU: 1}}
    pod = make_pod("p", containers=images)
    expected = scores_of(world_of(strategy, *normal, running), pod)
    strange = [make_node(f"odd-{i}", **fields) for i, fields in enumerate(odd)]
    stuck = [make_pod(f"guest-{i}", "odd-0", **fields) for i, fields in enumerate(guests)]
    found = scores_of(world_of(strategy, *normal, running, *strange, *stuck), pod)
    assert {name: found[name] for name in expected} == expected


async def placed(pods, *objects):
    async with World() as world:
        world.add(*objects, *pods)
        await world.advance(120)
        return [world.node_of(pod.name) for pod in pods]


@pytest.mark.parametrize(
    "fields", [{"cpu": "9E"}, {"memory": "9E"}, {"cpu": 10**14, "memory": 10**17}, {"cpu": "9E", "memory": "7E"}]
)
async def test_pods_go_on_being_placed_beside_a_node_of_enormous_size(fields):
    nodes = [make_node("odd", **fields), make_node("n1"), make_node("n2")]
    assert all(await placed([make_pod(f"p{i}", cpu="100m") for i in range(20)], *nodes))


async def test_a_pod_that_asks_for_more_than_64_bits_waits_alone():
    huge = {"requests": {"cpu": "8E", "memory": "8Ei"}}
    containers = [{"name": str(i), "image": "x", "resources": huge} for i in range(3)]
    pods = [make_pod("huge", containers=containers, priority=9), make_pod("p", cpu="1")]
    assert await placed(pods, make_node("n1"), make_node("odd", cpu="9E", memory="9E")) == ["", "odd"]


async def test_more_than_64_resources_are_checked_one_by_one():
    """Each of a pod's resources can be the one that is used up."""
    names = [f"example.com/r{i}" for i in range(80)]
    nodes = [make_node(f"n{i}", capacity=dict.fromkeys(names, 1)) for i in range(80)]
    running = [make_pod(f"on-{i}", f"n{i}", requests={names[i]: 1}) for i in range(80)]
    pod = make_pod("p", requests=dict.fromkeys(names, 1))
    assert await placed([pod], *nodes, *running) == [""]
    assert await placed([pod], *nodes, *running, make_node("free", capacity=dict.fromkeys(names, 1))) == ["free"]


async def test_a_node_with_ten_thousand_labels_is_one_among_others():
    labels = {f"example.com/{i}": "x" * 63 for i in range(10_000)}
    pod = make_pod("p", cpu="1", nodeSelector={"example.com/7": "x" * 63})
    assert await placed([pod, make_pod("q", cpu="1")], make_node("odd", labels=labels), make_node("n1")) in (
        ["odd", "n1"],
        ["odd", "odd"],
    )


@pytest.mark.parametrize("size", [TOP, -TOP])
async def test_images_of_any_size_leave_scores_in_range(size):
    images = [([f"x.io/{i}:1"], size) for i in range(3)]
    pod = make_pod("p", containers=[{"name": str(i), "image": f"x.io/{i}:1"} for i in range(3)])
    assert await placed([pod], make_node("a", images=images), make_node("b", images=images)) in (["a"], ["b"])


def test_volumes_and_room_of_any_size_leave_scores_in_range():
    """Two claims of a class, on volumes of 8Ei each, or out of a room of 8Ei."""
    metadata = {"name": "local", "uid": "local"}
    storage_class = StorageClass.from_dict(
        {"metadata": metadata, "provisioner": "x.io/d", "volumeBindingMode": "WaitForFirstConsumer"}
    )
    claims = [
        PersistentVolumeClaim.from_dict(
            {
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {
                    "storageClassName": "local",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "7E"}},
                },
            }
        )
        for name in ("a", "b")
    ]
    volumes = [
        PersistentVolume.from_dict(
            {
                "metadata": {"name": f"v{i}", "uid": f"v{i}"},
                "spec": {
                    "capacity": {"storage": "8Ei"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local",
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
                                    ]
                                }
                            ]
                        }
                    },
                },
                "status": {"phase": "Available"},
            }
        )
        for i in range(2)
    ]
    room = CSIStorageCapacity.from_dict(
        {
            "metadata": {"name": "r", "namespace": "default", "uid": "r"},
            "storageClassName": "local",
            "capacity": "1e30",
            "nodeTopology": {},
        }
    )
    world = World()
    world.add(storage_class, *claims, *volumes, room, make_node("n1"), make_node("n2"), make_node("n3"))
    pod = make_pod("p", claims=["a", "b"])
    framework = world.scheduler.frameworks["schedcache"]
    found = framework.evaluate(pod, world.snapshot(), world.queue.nominated_pods_for_node, exhaustive=True)
    assert found.error is None
    scores = dict(zip(found.feasible.names(), found.scores.by_plugin()["VolumeBinding"].tolist(), strict=True))
    assert set(scores) == {"n1", "n2", "n3"}
    assert all(0 <= score <= MAX_NODE_SCORE for score in scores.values())


async def test_someone_of_low_priority_who_asks_for_too_much_can_be_evicted():
    """Beside an ordinary candidate; the costs of both are comparable."""
    nodes = [make_node("odd", cpu="9E", memory="9E"), make_node("n1", cpu="1")]
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "9E", "memory": "9E"}}}]
    victims = [make_pod("a", "odd", containers=containers, priority=-(2**31)), make_pod("b", "n1", cpu="1", priority=5)]
    async with World() as world:
        world.add(*nodes, *victims, make_pod("p", cpu="1", priority=2**31 - 1))
        await world.advance(120)
        assert world.node_of("p") == "odd"


@given(st.lists(st.tuples(st.integers(0, TOP), st.integers(1, TOP)).map(sorted), min_size=1))
def test_percent_is_exact(pairs):
    part, whole = (np.array(column, np.int64) for column in zip(*((p, max(w, 1)) for p, w in pairs), strict=True))
    expected = [int(Fraction(p * 100, max(w, 1))) for p, w in pairs]
    assert percent(part, whole).tolist() == expected


@given(st.lists(st.integers(0, TOP), min_size=1), st.integers(0, TOP) | st.just(2**70))
def test_sums_end_at_the_largest_number(found, more):
    assert add_amounts(np.array(found, np.int64), more).tolist() == [
        min(amount + min(more, TOP), TOP) for amount in found
    ]


@given(st.lists(st.integers(0, TOP), min_size=1))
def test_any_scores_can_be_normalized(scores):
    normalized = default_normalize_score(np.array(scores, np.int64))
    assert normalized.min() >= 0
    assert normalized.max() <= MAX_NODE_SCORE
