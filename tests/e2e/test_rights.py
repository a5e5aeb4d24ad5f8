"""The rights that the chart renders to deploy/ are enough, and none is missing: run with the ServiceAccounts' own tokens."""

from pathlib import Path

import pytest

from schedcache.app.program import assembled
from schedcache.app.settings import Settings
from schedcache.config import config_from_dict
from schedcache.kube.watch.kinds import KINDS
from schedcache.testing import FakeKubelet, FakeVolumeController, FaultProxy, LoseResponse, read_manifest, wait_until
from tests.e2e.acts import claim, local_volume, storage_class
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_dump_is_truth, believed, unfinished

DEPLOY = Path(__file__).parents[2] / "deploy"
SOURCES = ("reflector", "kopf")
pytestmark = pytest.mark.controlplane


async def kubeconfig_of(cluster, folder, account, way=None):
    """What is in the folder, but for the Deployment, and a kubeconfig with the account's token."""
    objects = [item for file in sorted((DEPLOY / folder).glob("*.yaml")) for item in read_manifest(file)]
    await cluster.apply_manifest(item for item in objects if item["kind"] != "Deployment")
    token = await cluster.service_account_token("kube-system", account)
    if way is not None:
        return way.kubeconfig_for(token)
    return cluster.control_plane.kubeconfig_for(token, user=account)


async def test_the_role_allows_to_watch_every_kind_that_is_watched_and_no_other(unreachable_kubeconfig):
    """Both ways (kubernetes-sigs/scheduler-plugins#922): what the program lists, and what the role lets it list."""
    async with assembled(Settings(kubeconfig=unreachable_kubeconfig)) as program:
        watched = {(KINDS[kind].group, KINDS[kind].plural) for kind in program.source.ages()}
    (role,) = [item for item in read_manifest(DEPLOY / "scheduler" / "rbac.yaml") if item["kind"] == "ClusterRole"]
    allowed = {
        (group, resource)
        for rule in role["rules"]
        if "watch" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert watched == allowed


async def workload(cluster):
    await cluster.make_nodes(5)
    await cluster.make_pods(20, requests={"cpu": "100m"})
    await cluster.make_pods(2, name="big-{}", requests={"cpu": "64"})
    await cluster.make_pods(2, name="other-{}", scheduler_name="default-scheduler")


async def condition_of(cluster, name):
    (pod,) = await cluster.list_pods("default", fieldSelector=f"metadata.name={name}")
    return next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), None)


@pytest.mark.parametrize("source", SOURCES)
async def test_the_scheduler_needs_no_more_than_its_role(cluster, tmp_path, source):
    kubeconfig = await kubeconfig_of(cluster, "scheduler", "schedcache")
    user = "system:serviceaccount:kube-system:schedcache"
    # Should somebody have deleted the one that the manifests bring along.
    await cluster.delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/schedcache")
    async with SchedulerProcess(
        kubeconfig, tmp_path / "log", f"--event-source={source}", "--leader-elect"
    ) as scheduler:
        await workload(cluster)
        await cluster.wait_until_bound(20)

        async def told():
            events = await cluster.list_all("/apis/events.k8s.io/v1/events")
            reasons = [event["reason"] for event in events]
            condition = await condition_of(cluster, "big-0")
            return reasons.count("Scheduled") == 20 and "FailedScheduling" in reasons and condition is not None

        await wait_until(told)
        assert (await condition_of(cluster, "big-0"))["message"] == (
            "0/5 nodes are available: 5 Insufficient cpu. "
            "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
        )
        await storage_class("late")(cluster)
        await storage_class("local", provisioner="kubernetes.io/no-provisioner")(cluster)
        await local_volume("disk", "node-0", "local")(cluster)
        async with FakeVolumeController(cluster):
            for name in ("late", "local"):
                await claim(name, class_name=name)(cluster)
                volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
                await cluster.make_pods(1, name=f"with-{name}", requests={"cpu": "100m"}, volumes=volumes)
            await cluster.wait_until_bound(22)
        await assert_dump_is_truth(cluster, scheduler.dump)
    await cluster.audit.settled(cluster)
    assert cluster.audit.events(user=user)
    assert cluster.audit.refused(user) == []
    assert {(event.verb, event.resource, event.subresource) for event in cluster.audit.writes(user)} == {
        ("patch", "persistentvolumeclaims", ""),
        ("patch", "persistentvolumes", ""),
        ("create", "pods", "binding"),
        ("patch", "pods", "status"),
        ("create", "events", ""),
        ("create", "leases", ""),
        ("update", "leases", ""),
    }
    assert scheduler.complaints() == []
    others = await cluster.list_pods(fieldSelector="spec.schedulerName=default-scheduler")
    assert [pod["spec"].get("nodeName") for pod in others] == [None, None]


async def test_the_role_allows_to_preempt(cluster, tmp_path):
    kubeconfig = await kubeconfig_of(cluster, "scheduler", "schedcache")
    user = "system:serviceaccount:kube-system:schedcache"
    await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
    await cluster.make_nodes(1, cpu="1")
    async with FakeKubelet(cluster), SchedulerProcess(kubeconfig, tmp_path / "log") as scheduler:
        await cluster.make_pods(1, name="low", cpu="1")
        await cluster.wait_until_bound(1)
        await cluster.make_pods(1, name="high", cpu="1", priorityClassName="high")
        await cluster.wait_until_bound(1, fieldSelector="metadata.name=high,spec.nodeName!=")
    await cluster.audit.settled(cluster)
    assert cluster.audit.refused(user) == []
    assert len(cluster.audit.events(user=user, resource="pods", verb="delete")) == 1
    assert scheduler.complaints() == []


async def test_the_role_allows_to_read_a_pod_whose_binding_is_in_doubt(cluster, tmp_path):
    await cluster.make_nodes(1)
    user = "system:serviceaccount:kube-system:schedcache"
    async with FaultProxy(cluster.control_plane) as proxy:
        proxy.add(LoseResponse(), method="POST", path=r"/binding$", times=1)
        kubeconfig = await kubeconfig_of(cluster, "scheduler", "schedcache", proxy)
        async with SchedulerProcess(kubeconfig, tmp_path / "log") as scheduler:
            await cluster.make_pods(1, requests={"cpu": "100m"})
            await cluster.wait_until_bound(1)
            await assert_dump_is_truth(cluster, scheduler.dump)

            async def doubted():
                return 'scheduler_bind_doubts_total{outcome="bound"} 1.0' in (await scheduler.get("/metrics"))[1]

            # The watch may confirm the pod before it has been read.
            await wait_until(doubted)
    await cluster.audit.settled(cluster)
    assert cluster.audit.events(user=user, resource="pods", verb="get")
    assert cluster.audit.refused(user) == []


@pytest.mark.parametrize("source", SOURCES)
async def test_observing_needs_rights_to_read_and_writes_nothing(cluster, tmp_path, source):
    kubeconfig = await kubeconfig_of(cluster, "observe", "schedcache-observer")
    user = "system:serviceaccount:kube-system:schedcache-observer"
    await workload(cluster)
    flags = ("--observe", f"--event-source={source}")
    async with SchedulerProcess(kubeconfig, tmp_path / "log", *flags) as observer:
        await observer.ready()
        pods = await cluster.list_pods(fieldSelector="spec.schedulerName=default-scheduler")
        await cluster.bind(pods[0], "node-0")
        await cluster.delete("/api/v1/namespaces/default/pods/pod-3", grace_seconds=0)
        dump = await assert_dump_is_truth(cluster, observer.dump)
        assert believed(dump) == await unfinished(cluster)
        assert dump.nodes["node-0"].pods == (pods[0]["metadata"]["uid"],)
        assert 'scheduler_cache_size{type="nodes"} 5.0' in (await observer.get("/metrics"))[1]
    await cluster.audit.settled(cluster)
    assert cluster.audit.events(user=user)
    assert cluster.audit.writes(user) == []
    assert cluster.audit.refused(user) == []
    assert observer.complaints() == []


def without_volumes(kubeconfig):
    """Settings of a scheduler none of whose plugins reads anything about storage."""
    plugins = [{"name": name} for name in ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")]
    profile = {"schedulerName": "schedcache", "plugins": {"multiPoint": {"disabled": plugins}}}
    configuration = config_from_dict({"profiles": [profile]}).config
    return Settings(configuration=configuration, kubeconfig=str(kubeconfig))


async def test_kinds_of_storage_are_watched_only_where_a_profile_reads_them(unreachable_kubeconfig):
    async with assembled(without_volumes(unreachable_kubeconfig)) as program:
        groups = {KINDS[kind].group for kind in program.source.ages()}
        assert "storage.k8s.io" not in groups
        assert not {"PersistentVolume", "PersistentVolumeClaim"} & program.source.ages().keys()


async def test_without_the_right_to_a_kind_nothing_is_scheduled_until_it_is_given(cluster, tmp_path):
    """As with kube-scheduler, whose informer of the kind never syncs: nobody knows then which nodes reach which volumes."""
    kubeconfig = await kubeconfig_of(cluster, "scheduler", "schedcache")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/schedcache"
    role = await cluster.get(path)
    full = role["rules"]
    lacking = [{**rule, "resources": [r for r in rule["resources"] if r != "csinodes"]} for rule in full]
    role = await cluster.replace(path, {**role, "rules": lacking})
    await cluster.make_nodes(1)
    async with SchedulerProcess(kubeconfig, tmp_path / "log") as scheduler:

        async def says_so():
            return any(line["event"].startswith("not allowed") for line in scheduler.complaints())

        await wait_until(says_so)
        (line,) = scheduler.complaints()
        assert line["resource"] == "csinodes"
        await cluster.make_pods(1, requests={"cpu": "100m"})
        status, text = await scheduler.get("/readyz", probe=True)
        assert status != 200
        assert "not listed yet: csinodes" in text
        (pod,) = await cluster.list_pods("default")
        assert "nodeName" not in pod["spec"]
        await cluster.replace(path, {**role, "rules": full})
        await cluster.wait_until_bound(1)
