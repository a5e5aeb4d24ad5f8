"""The chart on a real API server: accepted, admitted, enough to schedule with, and gone without a trace."""

import asyncio
import os
import re
import sys

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from schedcache.testing import ApiStatusError, FakeKubelet, wait_until
from schedcache.testing.control_plane import free_ports
from tests.e2e.scheduler_process import SchedulerProcess
from tests.packaging.helm import CHART, CI_VALUES, NAMESPACE, HelmError, container, helm, is_hook, one, render
from tests.packaging.queries import FROM_PROMETHEUS, chosen
from tests.packaging.test_alerts import queries

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("helm_built")]
each_values = pytest.mark.parametrize("values", [None, *CI_VALUES], ids=lambda path: path.stem if path else "default")
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
FOREIGN = {"Certificate", "PrometheusRule", "ServiceMonitor"}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NOT_LEFT_BY_HELM = {"events", "nodes"}


async def try_out(cluster, namespace, found):
    """Have the API server check an object, by its fields and by admission, without storing it."""
    resource = await cluster.resource(found["apiVersion"], found["kind"])
    await cluster.request(
        "POST",
        resource.path(found["metadata"].get("namespace", namespace) if resource.namespaced else None),
        found,
        params={"dryRun": "All", "fieldValidation": "Strict"},
    )


@each_values
async def test_the_api_server_takes_every_object(cluster, values):
    for found in render(values, namespace="kube-system"):
        if found["kind"] not in FOREIGN:
            await try_out(cluster, "kube-system", found)


def pods_of(objects):
    """Every pod that comes of them."""
    template = one("Deployment", objects)["spec"]["template"]
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": template["spec"],
        "metadata": {**template["metadata"], "name": "x"},
    }
    for found in objects:
        if found["kind"] == "Pod":
            yield found


@each_values
async def test_every_pod_is_admitted_where_restricted_is_enforced(cluster, values):
    await cluster.create_namespace("guarded", RESTRICTED)
    for pod in pods_of(render(values, namespace="guarded")):
        await try_out(cluster, "guarded", pod)


async def test_a_pod_that_is_less_restricted_would_be_refused(cluster):
    await cluster.create_namespace("guarded", RESTRICTED)
    lax = {"securityContext": {"allowPrivilegeEscalation": True}}
    (pod, *_) = pods_of(render(lax, namespace="guarded"))
    with pytest.raises(ApiStatusError, match="allowPrivilegeEscalation"):
        await try_out(cluster, "guarded", pod)


async def everything(cluster):
    """Names of all objects, but for what no installation brings along."""
    return {
        (resource.plural, item["metadata"].get("namespace"), item["metadata"]["name"])
        for resource, items in await cluster._everything()
        if resource.plural not in NOT_LEFT_BY_HELM
        for item in items
        # The API server's own Lease.
        if not item["metadata"]["name"].startswith("apiserver-")
    }


def admin_kubeconfig(cluster):
    return cluster.control_plane.kubeconfig_for(cluster.control_plane.admin_token)


async def account_of(cluster, name="schedcache", namespace=NAMESPACE):
    return cluster.control_plane.kubeconfig_for(await cluster.service_account_token(namespace, name))


def flags_of(objects, tmp_path):
    """Those of the Deployment that matter here: whom it schedules, and which Lease it holds."""
    (tmp_path / "config.yaml").unlink(missing_ok=True)
    for found in objects:
        if found["kind"] == "ConfigMap" and found["metadata"]["name"].endswith("-config"):
            (tmp_path / "config.yaml").write_text(found["data"]["config.yaml"])
    flags = [
        flag.replace("/etc/schedcache", str(tmp_path))
        for flag in container(objects)["args"][1:]
        if re.match("--(leader-elect|scheduler-name|config|observe)", flag)
    ]
    # Extenders are nowhere to be found here.
    assert not any("config" in flag for flag in flags) or (tmp_path / "config.yaml").exists()
    return flags


def pods_end(cluster):
    """The kubelet's part in `helm test`: a pod that has a node runs, and ends well."""
    return FakeKubelet(cluster, run_for=lambda pod: 0.1 if is_hook(pod) else None)


async def test_installed_tested_upgraded_and_uninstalled_without_a_trace(cluster, tmp_path):
    before = await everything(cluster)

    async def run(*arguments):
        return await asyncio.to_thread(
            helm, *arguments, "--namespace", NAMESPACE, "--kubeconfig", str(admin_kubeconfig(cluster))
        )

    await cluster.make_nodes(2)
    await run("install", "schedcache", CHART)
    kubeconfig = await account_of(cluster)
    async with SchedulerProcess(kubeconfig, tmp_path / "log", *flags_of(render(), tmp_path)) as scheduler:
        lease = f"{LEASES}/schedcache"

        async def leads():
            return (await cluster.get(lease))["spec"].get("holderIdentity")

        await wait_until(leads)
        async with pods_end(cluster):
            assert "Phase:          Succeeded" in await run(
                "test", "schedcache", "--filter", "name=schedcache-test-0", "--timeout", "60s"
            )
        assert await cluster.list_pods() == [], "a test that went well leaves no pod"
        identity = await leads()
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump({"replicaCount": 3, "kubeApi": {"qps": 77}, "dashboard": {"enabled": True}}))
        await run("upgrade", "schedcache", CHART, "--values", str(values))
        deployment = await cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/schedcache")
        assert deployment["spec"]["replicas"] == 3
        assert "--kube-api-qps=77" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert await leads() == identity, "an upgrade leaves the Lease with whoever holds it"
        assert scheduler.complaints() == []
        # While it still runs, as pods do for some seconds: it must not bring its Lease back.
        await run("uninstall", "schedcache")
        await asyncio.sleep(5)
        await scheduler.kill()
    assert await everything(cluster) == before


async def test_helm_test_fails_where_nothing_schedules(cluster):
    await cluster.make_nodes(1)
    arguments = ("--namespace", NAMESPACE, "--kubeconfig", str(admin_kubeconfig(cluster)))
    await asyncio.to_thread(helm, "install", "schedcache", CHART, *arguments)
    async with pods_end(cluster):
        with pytest.raises(HelmError):
            await asyncio.to_thread(
                helm, "test", "schedcache", *arguments, "--filter", "name=schedcache-test-0", "--timeout", "5s"
            )


PLAIN = {
    "kubeSchedulerConfiguration": {
        "profiles": [
            {
                "schedulerName": "schedcache",
                "plugins": {
                    "multiPoint": {
                        "disabled": [
                            {"name": name}
                            for name in (
                                *("DefaultPreemption", "VolumeBinding", "VolumeRestrictions", "VolumeZone"),
                                *("NodeVolumeLimits", "PodTopologySpread", "InterPodAffinity"),
                            )
                        ]
                    }
                },
            }
        ]
    }
}


async def test_the_rights_of_a_profile_with_few_plugins_are_enough_for_it(cluster, tmp_path):
    objects = render(PLAIN)
    await cluster.apply_manifest(item for item in objects if item["kind"] != "Deployment" and not is_hook(item))
    await cluster.make_nodes(2)
    user = f"system:serviceaccount:{NAMESPACE}:schedcache"
    flags = flags_of(objects, tmp_path)
    async with SchedulerProcess(await account_of(cluster), tmp_path / "log", *flags) as scheduler:
        await cluster.make_pods(5, requests={"cpu": "100m"})
        await cluster.make_pods(1, name="big", requests={"cpu": "640"})
        await cluster.wait_until_bound(5)

        async def told():
            return any(
                e["reason"] == "FailedScheduling" for e in await cluster.list_all("/apis/events.k8s.io/v1/events")
            )

        await wait_until(told)
    await cluster.audit.settled(cluster)
    assert cluster.audit.events(user=user)
    assert cluster.audit.refused(user) == []
    assert scheduler.complaints() == []


async def script(name, **environment):
    """A script of the chart's tests, as its pod runs it; status and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        (CHART / "tests" / f"{name}.py").read_text(),
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_the_dump_is_for_its_readers_and_for_nobody_else(cluster, tmp_path):
    """What `helm test` asks, asked of a scheduler with the rendered rights, through HTTPS."""
    objects = [item for item in render() if item["kind"] not in ("Deployment", "Pod")]
    await cluster.apply_manifest(objects)
    await cluster.make_nodes(1)
    with free_ports(1) as (port,):
        pass
    reader, token = "schedcache-test-reader", tmp_path / "token"
    token.write_text(await cluster.service_account_token(NAMESPACE, reader))
    url = f"https://127.0.0.1:{port}/dump"
    flags = (f"--secure-port={port}", "--bind-address=127.0.0.1")
    async with SchedulerProcess(await account_of(cluster), tmp_path / "log", *flags) as scheduler:
        await cluster.make_pods(1, requests={"cpu": "100m"})
        (pod,) = await cluster.wait_until_bound(1)
        asking = {"URL": url, "TOKEN_FILE": str(token), "POD_UID": pod["metadata"]["uid"], "NODE": "node-0"}
        assert await script("reader", **asking) == (0, "found on node-0\n")
        assert await script("anonymous", URL=url) == (0, "refused with 401\n")
        # Neither could tell otherwise.
        token.write_text(await cluster.service_account_token(NAMESPACE, "schedcache"))
        status, said = await script("reader", **asking)
        assert status != 0
        assert "403" in said
        status, said = await script("anonymous", URL=f"https://127.0.0.1:{port}/livez")
        assert (status, said) == (1, "anybody may read the dump: 200\n")
    await cluster.audit.settled(cluster)
    assert cluster.audit.refused(f"system:serviceaccount:{NAMESPACE}:schedcache") == []
    assert scheduler.complaints() == []


async def test_alerts_and_dashboard_read_what_metrics_has(cluster, tmp_path):
    await cluster.make_nodes(2)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log", "--leader-elect") as scheduler:
        await cluster.make_pods(20, requests={"cpu": "100m"})
        await cluster.make_pods(1, name="big", requests={"cpu": "640"})
        await cluster.wait_until_bound(20)

        async def rejected():
            return "scheduler_unschedulable_pods{" in (await scheduler.get("/metrics"))[1]

        await wait_until(rejected)
        families = {found.name: found for found in text_string_to_metric_families((await scheduler.get("/metrics"))[1])}
    there, values = {}, {}
    for name, found in families.items():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(found.type, ("",))
        there.update((f"{name}{suffix}", set()) for suffix in suffixes)
        for sample in found.samples:
            there.setdefault(sample.name, set()).update(sample.labels)
            for label in sample.labels.items():
                values.setdefault(sample.name, set()).add(label)
    for where, query in queries().items():
        for metric, labels in chosen(query):
            assert metric in there, f"{where}: no metric {metric}"
            for label, operator, value in labels:
                if label in FROM_PROMETHEUS or not there[metric]:
                    continue
                assert label in there[metric], f"{where}: {metric} has no label {label}"
                if operator == "MatchOp.Equal" and (label, value) != ("result", "error") and label != "code":
                    assert (label, value) in values[metric], f"{where}: {metric} never has {label}={value}"
