"""The example operator, run as its page says, with the rights that it ships: right answers, and a clean end."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

from schedcache.testing import Answer, FaultProxy, read_manifest, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "kopf-operator"
USER = "system:serviceaccount:kube-system:room-for-more"
ASK, ROOM, STOPPED_BY = (f"example.com/{name}" for name in ("ask-room-for", "room", "room-stopped-by"))
COMMAND = "kopf run --all-namespaces --standalone room_for_more.py"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
pytestmark = pytest.mark.controlplane


class Operator:
    """`kopf run` with the file, as an async context manager."""

    def __init__(self, kubeconfig, log):
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "LOOK_SECONDS": "0.3"}
        self._log = log

    async def __aenter__(self):
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *COMMAND.split()),
                cwd=EXAMPLE,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self

    async def __aexit__(self, *_):
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self):
        self._process.send_signal(signal.SIGTERM)
        return await self.ended(20)

    async def ended(self, timeout):
        async with asyncio.timeout(timeout):
            return await self._process.wait()

    def log(self):
        return self._log.read_text()


@pytest.fixture
async def kubeconfig(cluster):
    await cluster.apply_manifest(EXAMPLE / "rbac.yaml")
    return cluster.control_plane.kubeconfig_for(await cluster.service_account_token("kube-system", "room-for-more"))


def deployment(name, requests, **annotations):
    container = {"name": "main", "image": "registry.example/app:1", "resources": requests}
    labels = {"app": name}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def answered(cluster, name, room, stopped_by=None):
    """Wait for exactly this answer."""
    found = {}

    async def so():
        annotations = (await cluster.get(f"{DEPLOYMENTS}/{name}"))["metadata"].get("annotations", {})
        found.update(room=annotations.get(ROOM), stopped_by=annotations.get(STOPPED_BY))
        return found == {"room": room, "stopped_by": stopped_by}

    try:
        await wait_until(so, 15)
    except TimeoutError:
        assert found == {"room": room, "stopped_by": stopped_by}


async def test_it_answers_as_the_cluster_changes_and_ends_cleanly(cluster, kubeconfig, tmp_path):
    await cluster.make_nodes(3, capacity={"cpu": "4", "memory": "16Gi", "pods": "110"})
    await cluster.create(DEPLOYMENTS, deployment("web", {"requests": {"cpu": "1500m"}}, **{ASK: "50"}))
    await cluster.create(DEPLOYMENTS, deployment("limited", {"limits": {"memory": "10Gi"}}, **{ASK: "50"}))
    await cluster.create(DEPLOYMENTS, deployment("silent", {"requests": {"cpu": "1"}}))
    await cluster.create(DEPLOYMENTS, deployment("odd", {}, **{ASK: "many"}))
    async with Operator(kubeconfig, tmp_path / "log") as operator:
        await answered(cluster, "web", "6", "0/3 nodes are available: 3 Insufficient cpu.")
        await answered(cluster, "limited", "3", "0/3 nodes are available: 3 Insufficient memory.")
        await answered(cluster, "odd", None, f"{ASK}: expected a whole number from 1 to 500, got 'many'")

        # Pods of any scheduler count, from the moment they are bound to that of their end.
        big, other = await cluster.make_pods(2, requests={"cpu": "3"}, scheduler_name="default-scheduler")
        await cluster.bind(big, "node-0")
        await cluster.bind(other, "node-1")
        await answered(cluster, "web", "2", "0/3 nodes are available: 3 Insufficient cpu.")
        await cluster.patch(
            f"/api/v1/namespaces/default/pods/{big['metadata']['name']}/status", {"status": {"phase": "Failed"}}
        )
        await answered(cluster, "web", "4", "0/3 nodes are available: 3 Insufficient cpu.")

        await cluster.delete("/api/v1/nodes/node-2")
        await answered(cluster, "web", "2", "0/2 nodes are available: 2 Insufficient cpu.")
        await cluster.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": True}})
        await answered(
            cluster, "web", "0", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
        )

        await cluster.patch(f"{DEPLOYMENTS}/web", {"metadata": {"annotations": {ASK: None}}})
        await answered(cluster, "web", None)
        assert await operator.stop() == 0, operator.log()
    assert "Traceback" not in operator.log()
    assert "[ERROR" not in operator.log()
    assert (await cluster.get(f"{DEPLOYMENTS}/silent"))["metadata"].keys().isdisjoint({"annotations", "finalizers"})
    await keeps_to_its_role(cluster)


async def keeps_to_its_role(cluster):
    """It is refused nothing, and uses every right that it has."""
    await cluster.audit.settled(cluster)
    assert cluster.audit.refused(USER) == []
    used = {(event.resource, event.verb) for event in cluster.audit.events(user=USER) if event.resource}
    [role] = [document for document in yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text()) if "rules" in document]
    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert used == granted
    groups = {event.resource for event in cluster.audit.writes(USER)}
    assert groups == {"deployments"}


async def test_an_answer_that_cannot_be_kept_up_to_date_stays_and_is_not_renewed(cluster, kubeconfig, tmp_path):
    """An operator without a right that it needs answers nothing, and says why."""
    await cluster.make_nodes(1)
    await cluster.create(DEPLOYMENTS, deployment("web", {"requests": {"cpu": "1500m"}}, **{ASK: "50"}))
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/room-for-more"
    rules = (await cluster.get(role))["rules"]
    without = [{**rule, "resources": [r for r in rule["resources"] if r != "nodes"]} for rule in rules]
    await cluster.patch(role, {"rules": without})
    async with Operator(kubeconfig, tmp_path / "log") as operator:

        async def says():
            return "nodes" in operator.log() and "forbidden" in operator.log()

        await wait_until(says, 20)
        await asyncio.sleep(1.0)
        assert ROOM not in (await cluster.get(f"{DEPLOYMENTS}/web"))["metadata"]["annotations"]


async def test_after_kopf_has_given_up_the_next_process_finds_what_happened_meanwhile(cluster, tmp_path):
    """kopf ends on an answer that it does not expect, and the process with it."""
    await cluster.apply_manifest(EXAMPLE / "rbac.yaml")
    token = await cluster.service_account_token("kube-system", "room-for-more")
    await cluster.make_nodes(2, capacity={"cpu": "4", "memory": "16Gi", "pods": "110"})
    await cluster.create(DEPLOYMENTS, deployment("web", {"requests": {"cpu": "1500m"}}, **{ASK: "50"}))
    async with FaultProxy(cluster.control_plane) as proxy:
        kubeconfig = proxy.kubeconfig_for(token)
        async with Operator(kubeconfig, tmp_path / "log") as operator:
            await answered(cluster, "web", "4", "0/2 nodes are available: 2 Insufficient cpu.")
            proxy.add(Answer(410), path="^/api/v1/pods$", watch=True, times=1)
            for watch in [watch for watch in proxy.watches if watch.request.path == "/api/v1/pods"]:
                watch.cut()
            assert await operator.ended(60) == 1
            assert "APIClientError" in operator.log()
        await cluster.delete("/api/v1/nodes/node-0")
        async with Operator(kubeconfig, tmp_path / "second log") as operator:
            await answered(cluster, "web", "2", "0/1 nodes are available: 1 Insufficient cpu.")
            assert await operator.stop() == 0


def test_the_page_says_how_it_is_run():
    assert f"\n{COMMAND}\n" in (EXAMPLE / "README.md").read_text()


def test_the_manifest_is_valid():
    assert {item["kind"] for item in read_manifest(EXAMPLE / "rbac.yaml")} == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    }
