"""One odd object of any kind that an API server accepts: pods that have nothing to do with it are placed all the same."""

import pytest
from structlog.testing import capture_logs

from schedcache.model import (
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from schedcache.ports import NoMetrics
from schedcache.testing import World, make_node, make_pod
from tests.plugins.volumes import (
    DRIVER,
    attachment,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    expression,
    pod_with,
    room,
    storage_class,
    term,
    volume,
)

TOP = 2**63 - 1
ZONE = "topology.kubernetes.io/zone"
MIGRATED = ("kubernetes.io/aws-ebs", "kubernetes.io/azure-disk")
NOT_A_NUMBER = [term(expression("x", "abc", operator="Gt"))]
BAD_DISK = {"awsElasticBlockStore": {"volumeID": "aws://z/bad"}}
SHARED_DISK = {"azureDisk": {"diskName": "d", "diskURI": "/d", "kind": "Shared"}}


def of(kind, name, *, namespaced=True, meta=None, **fields):
    where = {"namespace": "default"} if namespaced else {}
    return kind.from_dict({"metadata": {"name": name, **where, "uid": f"uid-{name}", **(meta or {})}, **fields})


def selecting(**fields):
    return {"selector": {"matchLabels": {"app": "web"}, **fields}}


ODD = {
    "a bound pod with an ephemeral claim of somebody else": [
        claim("odd-e", owner="someone"),
        pod_with("odd", ephemeral=["e"], node="n1"),
    ],
    "a bound pod with an inline disk that cannot be read": [pod_with("odd", inline=[BAD_DISK], node="n1")],
    "a bound pod with an inline disk of a kind that is gone": [pod_with("odd", inline=[SHARED_DISK], node="n1")],
    "a bound pod whose claims are not there": [pod_with("odd", "nowhere", ephemeral=["e"], node="n1")],
    "a pod on a node that is not there": [pod_with("odd", inline=[BAD_DISK], node="nowhere")],
    "a waiting pod whose volume cannot be read": [pod_with("odd", inline=[BAD_DISK, SHARED_DISK])],
    "a bound pod that keeps away everyone from nowhere": [
        make_pod(
            "odd",
            "n1",
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "nowhere", "labelSelector": {}, "namespaceSelector": {}},
                        {
                            "topologyKey": ZONE,
                            "labelSelector": {
                                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}],
                                "matchLabels": {"app": "web"},
                            },
                        },
                    ]
                }
            },
        )
    ],
    "a bound pod that needs a number where labels have none": [
        make_pod(
            "odd",
            "n1",
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NOT_A_NUMBER[0]}]
                }
            },
        )
    ],
    "a node without labels": [make_node("odd", labels={})],
    "a node with numbers that are none": [make_node("odd", zone="__", labels={"x": "abc"}), csi_node("odd")],
    "a free volume that needs a number where labels have none": [volume("odd", terms=NOT_A_NUMBER)],
    "a free volume without terms": [volume("odd", terms=[])],
    "a free volume without size": [volume("odd", capacity={})],
    "a free volume beyond all size": [volume("odd", capacity={"storage": "1e30"})],
    "a free volume whose claim is not there": [volume("odd", claim=("nowhere", "uid"))],
    "a free volume of a disk that cannot be read": [volume("odd", gib=1, **BAD_DISK)],
    "a volume with a zone of nothing": [csi_volume("odd", labels={ZONE: "__"})],
    "a lost claim": [claim("odd", phase="Lost", bound_to="nowhere")],
    "a claim without size and class": [claim("odd", gib=0, storageClassName=None)],
    "a claim for a node that is not there": [
        claim("odd", annotations={"volume.kubernetes.io/selected-node": "nowhere"}),
        pod_with("user", "odd"),
    ],
    "a claim of a class that is not there": [claim("odd", storageClassName="nowhere"), pod_with("user", "odd")],
    "a claim that selects by nonsense": [
        claim("odd", selector={"matchExpressions": [{"key": "x", "operator": "In", "values": ["a b"]}]}),
        pod_with("user", "odd"),
    ],
    "a class without a binding mode": [
        storage_class("odd", mode=None),
        claim("odd", storageClassName="odd"),
        pod_with("user", "odd"),
        pod_with("odd", "odd", node="n1"),
    ],
    "a class for no place at all": [storage_class("odd", topologies=[[], [("x", [])]])],
    "the drivers of a node that is not there": [csi_node("odd", [(DRIVER, 0)], ["nonsense", ""])],
    "a driver that nodes must have": [csi_driver("odd", preventPodSchedulingIfMissing=True)],
    "an attachment of a volume that is not there": [attachment("odd", "n1", "nowhere")],
    "an attachment of no volume": [attachment("odd", "n1", None), attachment("odd-2", "nowhere", None)],
    "an attachment by someone else": [csi_volume("w"), attachment("odd", "n1", "w", attacher="x")],
    "room of no size": [room("odd"), room("odd-2", topology={})],
    "room beyond all size": [room("odd", "1e30", "1e30", topology={})],
    "room where labels are numbers": [
        room("odd", "1Gi", topology={"matchExpressions": [{"key": "x", "operator": "In", "values": ["a b"]}]})
    ],
    "a budget without selector": [of(PodDisruptionBudget, "odd", spec={"minAvailable": "100%"})],
    "a budget for all that allows less than nothing": [
        of(PodDisruptionBudget, "odd", spec={"selector": {}}, status={"disruptionsAllowed": -(2**31)})
    ],
    "budgets one above the other": [
        of(PodDisruptionBudget, f"odd-{i}", spec={"maxUnavailable": 0, **selecting()}) for i in range(3)
    ],
    "a service for all": [of(Service, "odd", spec={"selector": {}}), of(Service, "odd-2", spec={})],
    "a replica set for all": [of(ReplicaSet, "odd", spec={"selector": {}})],
    "a replica set with an odd selector": [
        of(
            ReplicaSet,
            "web",
            spec=selecting(matchExpressions=[{"key": "app", "operator": "In", "values": ["a b", "web"]}]),
        )
    ],
    "a stateful set without selector": [of(StatefulSet, "web", spec={})],
    "a replication controller without selector": [of(ReplicationController, "web", spec={"selector": None})],
    "a namespace without labels": [of(Namespace, "odd", namespaced=False), of(Namespace, "default", namespaced=False)],
}


class Results(NoMetrics):
    """How attempts ended."""

    def __init__(self):
        self.errors = 0
        self.failed_filters = []

    def schedule_attempt(self, profile, result, seconds):
        self.errors += result == "error"

    def filter_failed(self, plugin):
        self.failed_filters.append(plugin)


def owned(kind, name):
    owner = {"apiVersion": "v1", "kind": kind, "name": "web", "uid": "uid-web", "controller": True}
    return {"labels": {"app": "web"}, "ownerReferences": [owner], "name": name}


def web(kind, name):
    """A pod of a workload, which is spread by default."""
    return type(make_pod("x")).from_dict(
        {
            "metadata": {**owned(kind, name), "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "schedulerName": "schedcache",
                "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}],
            },
            "status": {"phase": "Pending"},
        }
    )


def near(kind, app):
    rule = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}, "namespaceSelector": {}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    return make_pod(f"{app}-{kind}", cpu="100m", affinity={kind: terms}, labels={"app": app})


def spread(name):
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return make_pod(name, cpu="100m", topologySpreadConstraints=[rule])


NODES = [make_node(f"n{i}", zone=f"z{i}", cpu="8") for i in (1, 2, 3)]
CLUSTER = [
    *NODES,
    *(csi_node(f"n{i}", [(DRIVER, 9)], MIGRATED) for i in (1, 2, 3)),
    make_node("full", cpu="1", labels={"full": "yes"}),
    make_pod("victim", "full", cpu="1", labels={"app": "web"}, priority=-5),
    csi_driver(storageCapacity=True),
    storage_class(),
    room("much", "100Gi", topology={}),
    *(part for name in ("a", "b") for part in (claim(name, bound_to=f"v-{name}"), csi_volume(f"v-{name}"))),
    claim("disk", bound_to="v-disk"),
    volume("v-disk", awsElasticBlockStore={"volumeID": "vol-1"}, phase="Bound"),
    claim("new", gib=2),
    of(Service, "svc", spec={"selector": {"app": "web"}}),
]
PLACED = [
    make_pod("plain", cpu="100m"),
    pod_with("with-a", "a"),
    pod_with("with-b", "b", inline=[{"awsElasticBlockStore": {"volumeID": "vol-2"}}]),
    pod_with("with-disk", "disk"),
    web("ReplicaSet", "rs"),
    web("StatefulSet", "ss"),
    web("ReplicationController", "rc"),
    spread("spread"),
    near("podAntiAffinity", "alone"),
    near("podAffinity", "web"),
]
PREEMPTOR = make_pod("preemptor", cpu="1", priority=10, nodeSelector={"full": "yes"})


async def check(odd):
    """All ordinary pods are placed beside the odd objects. Returns what was measured, and the log."""
    metrics = Results()
    with capture_logs() as logs:
        async with World(metrics=metrics) as world:
            world.add(*CLUSTER, *odd)
            world.add(*PLACED, pod_with("with-new", "new"), PREEMPTOR)
            await world.advance(60)
            assert {pod.name: bool(world.node_of(pod.name)) for pod in PLACED} == {pod.name: True for pod in PLACED}
            assert "new" in {written[0] for written in world.api.volume_writes} | {
                w[1] for w in world.api.volume_writes
            }
            assert world.node_of("preemptor") == "full"
            assert world.rebuilds == []
    return metrics, logs


def warnings(logs):
    return [line for line in logs if line["log_level"] != "debug"]


async def test_without_any_of_them_nothing_fails():
    metrics, logs = await check([])
    assert (metrics.errors, metrics.failed_filters, warnings(logs)) == (0, [], [])


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_one_odd_object_stops_nobody_else(odd):
    await check(odd)


async def test_a_node_that_cannot_be_looked_at_is_named_once_and_counted_each_time():
    odd = ODD["a bound pod with an inline disk that cannot be read"]
    metrics, logs = await check(odd)
    assert metrics.errors == 0
    assert len(metrics.failed_filters) > 3
    assert set(metrics.failed_filters) == {"NodeVolumeLimits"}
    [line] = warnings(logs)
    assert (line["plugin"], line["nodes"], line["number"]) == ("NodeVolumeLimits", ["n1"], 1)
    assert "converting volume(i0) from inline to csi" in line["error"]


async def test_where_no_other_node_is_left_the_pod_says_what_is_wrong_and_is_tried_again():
    """No event needs to tell that the fault is over: as after any error it is tried until it succeeds."""
    odd = pod_with("odd", inline=[BAD_DISK], node="n1")
    metrics = Results()
    async with World(metrics=metrics) as world:
        world.add(*NODES[:2], csi_node("n1", [(DRIVER, 9)], MIGRATED), claim("a", bound_to="v"), csi_volume("v"), odd)
        world.add(make_pod("big", "n2", cpu="8"), pod_with("p", "a", cpu="1"))
        await world.advance(30)
        assert metrics.errors > 2
        assert world.notes("p")[-1].startswith('running "NodeVolumeLimits" filter plugin: converting volume(i0)')
        assert world.notes("p")[-1].endswith("(on node n1)")
        world.delete(odd)
        await world.advance(15)
        assert world.node_of("p") == "n1"


@pytest.mark.parametrize(
    "pod",
    [pod_with("p", "bad"), pod_with("p", inline=[BAD_DISK]), pod_with("p", inline=[SHARED_DISK])],
    ids=["VolumeBinding", "NodeVolumeLimits", "NodeVolumeLimits, of a kind that is gone"],
)
async def test_a_pod_whose_own_volume_cannot_be_read_on_some_nodes_runs_on_others(pod):
    """Only where the kubelet leaves the type to a CSI driver does it have to be translated."""
    objects = [csi_node("n1", migrated=MIGRATED), claim("bad", bound_to="v"), volume("v", **BAD_DISK, phase="Bound")]
    metrics = Results()
    async with World(metrics=metrics) as world:
        world.add(make_node("n1"), make_node("n2"), *objects, pod)
        await world.settle()
        assert world.node_of("p") == "n2"
    assert (metrics.errors, len(metrics.failed_filters)) == (0, 1)
