"""Pods whose claims wait for their first consumer: first the volume, then the pod (kubernetes/kubernetes#86262)."""

from functools import partial

import pytest

from schedcache.config import config_from_dict
from schedcache.testing import FakeVolumeController, FaultProxy, LoseResponse, wait_until
from tests.e2e.acts import CLAIMS, PODS, VOLUMES, bind_claim, claim, local_volume, storage_class
from tests.e2e.in_process import assumed, requested, scheduler
from tests.e2e.watching_queue import condition, queued, until_in

SELECTED = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
pytestmark = pytest.mark.controlplane


async def pod(cluster, name, *claims, **spec):
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    (made,) = await cluster.make_pods(1, name=name, requests={"cpu": "100m"}, volumes=volumes, **spec)
    return made


async def node_of(cluster, name):
    return (await cluster.get(f"{PODS}/{name}"))["spec"].get("nodeName")


async def bound(cluster, name, timeout=20):
    (found,) = await cluster.wait_until_bound(1, timeout=timeout, fieldSelector=f"metadata.name={name},spec.nodeName!=")
    return found["spec"]["nodeName"]


async def selected(cluster, name):
    """The node that the claim's volume is asked for on."""
    return (await cluster.get(f"{CLAIMS}/{name}"))["metadata"].get("annotations", {}).get(SELECTED)


async def until_selected(cluster, name, node):
    async def it_is():
        return await selected(cluster, name) == node

    await wait_until(it_is)


async def reserved_by(cluster, volume):
    return (await cluster.get(f"{VOLUMES}/{volume}"))["spec"].get("claimRef", {}).get("name")


async def until_told(cluster, name, text):
    async def told():
        return text in (await condition(cluster, name)).get("message", "")

    await wait_until(told)
    return await condition(cluster, name)


async def until_forgotten(program, name):
    """No cycle runs for the pod, and no node has it."""

    async def forgotten():
        return name not in assumed(program) and queued(program, name) is not None

    await wait_until(forgotten, interval=0.01)
    assert program.scheduler.state.cache.dump().assumed_pods == frozenset()


def nothing_assumed(program):
    objects = program.scheduler.handlers.objects
    return not objects.assumed("PersistentVolume") and not objects.assumed("PersistentVolumeClaim")


async def late(cluster, *names):
    await storage_class("late")(cluster)
    for name in names:
        await claim(name, class_name="late")(cluster)


async def local(cluster, *names):
    await storage_class("local", provisioner=NO_PROVISIONER)(cluster)
    for name in names:
        await claim(name, class_name="local")(cluster)


async def free(cluster, name, node):
    """A local volume that the controller has seen."""
    await local_volume(name, node, "local")(cluster)

    async def available():
        return (await cluster.get(f"{VOLUMES}/{name}"))["status"].get("phase") in ("Available", "Bound")

    await wait_until(available)


async def test_a_volume_is_made_for_the_node_before_the_pod_is_bound(cluster):
    await cluster.make_nodes(3)
    await late(cluster, "a", "b")
    async with FakeVolumeController(cluster) as storage, scheduler(cluster.kubeconfig) as program:
        await pod(cluster, "p", "a", "b")
        node = await bound(cluster, "p")
        assert sorted(storage.provisioned) == [("a", node), ("b", node)]
        assert nothing_assumed(program)
    await cluster.audit.settled(cluster)
    writes = [
        (event.resource, event.subresource)
        for event in cluster.audit.writes()
        if event.user_agent.startswith("schedcache/") and event.resource != "events"
    ]
    claims, nomination = [("persistentvolumeclaims", "")] * 2, [("pods", "status")]
    assert sorted(writes[:-1]) == claims + nomination
    assert writes[-1] == ("pods", "binding")


async def test_the_volume_of_a_node_is_reserved_before_the_pod_is_bound(cluster):
    await cluster.make_nodes(3)
    await local(cluster, "data")
    async with FakeVolumeController(cluster), scheduler(cluster.kubeconfig) as program:
        await free(cluster, "disk", "node-1")
        await pod(cluster, "p", "data")
        assert await bound(cluster, "p") == "node-1"
        volume = await cluster.get(f"{VOLUMES}/disk")
        reference = volume["spec"]["claimRef"]
        assert (reference["kind"], reference["namespace"], reference["name"]) == (
            "PersistentVolumeClaim",
            "default",
            "data",
        )
        assert reference["uid"] == (await cluster.get(f"{CLAIMS}/data"))["metadata"]["uid"]
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert nothing_assumed(program)


async def test_of_two_pods_one_gets_the_volume_and_the_other_the_next(cluster):
    await cluster.make_nodes(2)
    await local(cluster, "a", "b")
    async with FakeVolumeController(cluster), scheduler(cluster.kubeconfig) as program:
        await free(cluster, "first", "node-0")
        await pod(cluster, "pa", "a")
        await pod(cluster, "pb", "b")
        await cluster.wait_until_bound(1, timeout=20)
        names = {"pa", "pb"}
        (winner,) = [name for name in names if await node_of(cluster, name)]
        (loser,) = names - {winner}
        await until_in(program, "unschedulable", loser)
        await free(cluster, "second", "node-1")
        assert await bound(cluster, loser) == "node-1"
        assert await reserved_by(cluster, "second") == loser[1]


async def test_many_pods_at_once_get_each_its_own(cluster):
    await cluster.make_nodes(4)
    count = 12
    await local(cluster, *(f"s{i}" for i in range(count)))
    await storage_class("late")(cluster)
    async with FakeVolumeController(cluster) as storage:
        for i in range(count):
            await claim(f"d{i}", class_name="late")(cluster)
            await free(cluster, f"disk{i}", f"node-{i % 4}")
        async with scheduler(cluster.kubeconfig) as program:
            for i in range(count):
                await pod(cluster, f"p{i}", f"s{i}", f"d{i}")
            pods = await cluster.wait_until_bound(count, timeout=60)
            nodes = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}
            assert sorted(storage.provisioned) == sorted((f"d{i}", nodes[f"p{i}"]) for i in range(count))
            chosen = [(await cluster.get(f"{CLAIMS}/s{i}"))["spec"]["volumeName"] for i in range(count)]
            assert sorted(chosen) == sorted(f"disk{i}" for i in range(count))
            assert all(nodes[f"p{i}"] == f"node-{int(name[4:]) % 4}" for i, name in enumerate(chosen))
            assert nothing_assumed(program)


async def test_where_provisioning_fails_another_node_is_tried(cluster):
    await cluster.make_nodes(1)
    await late(cluster, "data")
    preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": "better", "operator": "Exists"}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    refuses = lambda _claim, node: node == "node-0"  # noqa: E731  an argument with a name
    async with FakeVolumeController(cluster, refuses=refuses) as storage, scheduler(cluster.kubeconfig) as program:
        await pod(cluster, "p", "data", affinity=affinity)
        told = await until_told(cluster, "p", "provisioning failed")
        assert told["reason"] == "SchedulerError"
        assert told["message"] == (
            'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
        )
        await cluster.make_nodes(1, name="other", labels={"better": "yes"})
        assert await bound(cluster, "p") == "other"
        assert storage.refused[0] == ("data", "node-0")
        assert storage.provisioned == [("data", "other")]
        assert requested(program, "node-0") == 0


async def test_a_claim_deleted_meanwhile_makes_the_pod_wait_for_another(cluster):
    await cluster.make_nodes(1)
    await late(cluster, "data")
    held = True
    async with FakeVolumeController(cluster, holds=lambda _: held) as storage, scheduler(cluster.kubeconfig) as program:
        await pod(cluster, "p", "data")
        await until_selected(cluster, "data", "node-0")
        assert assumed(program) == {"p"}
        assert requested(program, "node-0") == 100
        await cluster.delete(f"{CLAIMS}/data")
        await until_forgotten(program, "p")
        assert requested(program, "node-0") == 0
        await until_told(cluster, "p", 'persistentvolumeclaim "data" not found')
        held = False
        await claim("data", class_name="late")(cluster)
        assert await bound(cluster, "p") == "node-0"
        assert storage.provisioned == [("data", "node-0")]


async def test_a_claim_bound_elsewhere_meanwhile_takes_the_pod_there(cluster):
    await cluster.make_nodes(2)
    await local(cluster, "data")
    held = True
    async with FakeVolumeController(cluster, holds=lambda _: held), scheduler(cluster.kubeconfig) as program:
        await free(cluster, "here", "node-0")
        await pod(cluster, "p", "data")

        async def reserved():
            return await reserved_by(cluster, "here") == "data"

        await wait_until(reserved)
        await local_volume("there", "node-1", "local")(cluster)
        uid = (await cluster.get(f"{CLAIMS}/data"))["metadata"]["uid"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": uid}
        await cluster.patch(f"{VOLUMES}/there", {"spec": {"claimRef": reference}})
        await bind_claim("data", "there")(cluster)
        held = False
        assert await bound(cluster, "p") == "node-1"
        assert requested(program, "node-0") == 0

        async def free_again():
            return await reserved_by(cluster, "here") is None

        await wait_until(free_again)


async def test_a_pod_deleted_meanwhile_is_let_go_at_once(cluster):
    await cluster.make_nodes(1)
    await late(cluster, "data")
    async with FakeVolumeController(cluster, holds=lambda _: True), scheduler(cluster.kubeconfig) as program:
        await pod(cluster, "p", "data")
        await until_selected(cluster, "data", "node-0")
        await cluster.delete(f"{PODS}/p", grace_seconds=0)

        async def let_go():
            return not assumed(program) and not len(program.scheduler.bindings)

        await wait_until(let_go, timeout=2, interval=0.01)
        assert requested(program, "node-0") == 0


async def test_a_node_deleted_meanwhile_is_given_up(cluster):
    await cluster.make_nodes(1)
    await local(cluster, "data")
    held = True
    async with FakeVolumeController(cluster, holds=lambda _: held), scheduler(cluster.kubeconfig) as program:
        await free(cluster, "disk", "node-0")
        await pod(cluster, "p", "data")

        async def waits():
            return await reserved_by(cluster, "disk") == "data" and assumed(program) == {"p"}

        await wait_until(waits)
        await cluster.delete("/api/v1/nodes/node-0")
        await until_told(cluster, "p", 'failed to get node "node-0"')
        await until_forgotten(program, "p")
        held = False
        await cluster.make_nodes(1)
        assert await bound(cluster, "p") == "node-0"


@pytest.mark.parametrize("kind", ["provisioned", "reserved"])
async def test_a_scheduler_that_ends_in_the_middle_is_taken_over_from(cluster, kind):
    await cluster.make_nodes(3)
    await (late if kind == "provisioned" else local)(cluster, "data")
    held = True
    async with FakeVolumeController(cluster, holds=lambda _: held) as storage:
        await local_volume("disk", "node-1", "local")(cluster)

        async def asked_for():
            found = await selected(cluster, "data") or await reserved_by(cluster, "disk")
            return found is not None

        async with scheduler(cluster.kubeconfig):
            await pod(cluster, "p", "data")
            await wait_until(asked_for)
        node = await selected(cluster, "data") or "node-1"
        assert await node_of(cluster, "p") is None
        async with scheduler(cluster.kubeconfig) as program:
            # The same claim and volume as before: nothing is written again.
            await wait_until(partial(under_way, program, "p"))
            held = False
            assert await bound(cluster, "p") == node
        assert storage.provisioned == ([("data", node)] if kind == "provisioned" else [])
    await cluster.audit.settled(cluster)
    ours = [e for e in cluster.audit.writes() if e.user_agent.startswith("schedcache/")]
    assert len([e for e in ours if e.resource in ("persistentvolumes", "persistentvolumeclaims")]) == 1


async def under_way(program, name):
    return name in assumed(program)


async def test_after_the_bind_time_out_the_pod_is_tried_again(cluster):
    await cluster.make_nodes(1)
    await late(cluster, "data")
    held = True
    config = {
        "profiles": [
            {
                "schedulerName": "schedcache",
                "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}],
            }
        ]
    }
    configuration = config_from_dict(config).config
    storage = FakeVolumeController(cluster, holds=lambda _: held)
    async with storage, scheduler(cluster.kubeconfig, configuration=configuration) as program:
        await pod(cluster, "p", "data")
        told = await until_told(cluster, "p", "deadline")
        assert told["message"] == ('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded')
        held = False
        assert await bound(cluster, "p") == "node-0"
        assert requested(program, "node-0") == 100


async def test_a_write_whose_answer_is_lost_is_found_done(cluster):
    await cluster.make_nodes(2)
    await late(cluster, "data")
    async with FaultProxy(cluster.control_plane) as proxy, FakeVolumeController(cluster) as storage:
        proxy.add(LoseResponse(), method="PATCH", path=r"/persistentvolumeclaims/data$", times=1)
        async with scheduler(proxy.kubeconfig) as program:
            await pod(cluster, "p", "data")
            node = await bound(cluster, "p")
            assert storage.provisioned == [("data", node)]
            assert nothing_assumed(program)


async def test_stopping_does_not_wait_for_provisioners(cluster):
    await cluster.make_nodes(1)
    await late(cluster, "data")
    async with FakeVolumeController(cluster, holds=lambda _: True), scheduler(cluster.kubeconfig) as program:
        await pod(cluster, "p", "data")
        await until_selected(cluster, "data", "node-0")
        started = program.scheduler.state.clock()
        await program.scheduler.drain(10)
        assert program.scheduler.state.clock() - started < 2
        assert not len(program.scheduler.bindings)
