import textwrap

import kubernetes
import pytest

from schedcache.testing import ApiStatusError, read_manifest

pytestmark = pytest.mark.controlplane

READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pod-reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pod-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pod-reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: readers}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: readers}
---
# After what is in it, on purpose.
apiVersion: v1
kind: Namespace
metadata: {name: readers}
"""


@pytest.fixture
def reader_manifest(tmp_path):
    path = tmp_path / "reader.yaml"
    path.write_text(READER)
    return path


async def test_nodes_are_ready_untainted_and_spread_over_zones(cluster):
    await cluster.make_nodes(6, zones=["a", "b", "c"], capacity={"cpu": "8", "example.com/gpu": "2"})
    nodes = {node["metadata"]["name"]: node for node in await cluster.list_all("/api/v1/nodes")}
    assert len(nodes) == 6
    zones = [nodes[f"node-{number}"]["metadata"]["labels"]["topology.kubernetes.io/zone"] for number in range(6)]
    assert zones == ["a", "b", "c", "a", "b", "c"]
    for node in nodes.values():
        assert "taints" not in node["spec"]
        assert node["status"]["allocatable"]["cpu"] == "8"
        assert node["status"]["allocatable"]["example.com/gpu"] == "2"
        assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][0].items()


async def test_a_nodes_own_taints_stay(cluster):
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    [node] = await cluster.make_nodes(1, taints=[taint], unschedulable=True)
    assert node["spec"] == {"unschedulable": True, "taints": [taint]}


async def test_pods_are_made_and_bound(cluster):
    await cluster.make_nodes(1)
    pods = await cluster.make_pods(3, requests={"cpu": "100m"}, labels={"app": "x"}, priority=None)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"schedcache"}
    await cluster.bind(pods[0], "node-0")
    [bound] = await cluster.wait_until_bound(1)
    assert (bound["metadata"]["name"], bound["spec"]["nodeName"]) == (pods[0]["metadata"]["name"], "node-0")
    with pytest.raises(TimeoutError, match="1 of 2 pods were bound within"):
        await cluster.wait_until_bound(2, timeout=0.2)
    with pytest.raises(ApiStatusError) as again:
        await cluster.bind(pods[0], "node-0")
    assert (again.value.status, again.value.reason) == (409, "Conflict")


async def test_long_lists_are_read_page_by_page(cluster, monkeypatch):
    monkeypatch.setattr("schedcache.testing.api_client.LIST_PAGE", 10)
    await cluster.make_pods(25)
    assert {pod["metadata"]["name"] for pod in await cluster.list_pods()} == {f"pod-{n}" for n in range(25)}
    await cluster.audit.settled(cluster)
    assert len(cluster.audit.events(verb="list", resource="pods", user="admin")) >= 3


async def test_clean_goes_back_to_the_beginning(cluster, reader_manifest):
    async def everything():
        return {
            (resource.kind, item["metadata"].get("namespace"), item["metadata"]["name"])
            for resource, items in await cluster._everything()
            for item in items
        }

    before = await everything()
    await cluster.apply_manifest(reader_manifest)
    await cluster.make_nodes(2)
    [pod, *_] = await cluster.make_pods(3)
    await cluster.bind(pod, "node-0")
    await cluster.delete("/api/v1/namespaces/default/pods/" + pod["metadata"]["name"])
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "readers"}}
    held["metadata"]["finalizers"] = ["example.com/never"]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    await cluster.apply_manifest([held, claim, priority])
    assert len(await everything() - before) == 12
    await cluster.clean()
    assert await everything() == before
    await cluster.create_namespace("readers")
    assert await cluster.list_all("/api/v1/namespaces/readers/configmaps") == []


async def test_a_service_account_may_do_exactly_what_its_role_says(cluster, reader_manifest):
    await cluster.apply_manifest(reader_manifest)
    await cluster.apply_manifest(reader_manifest)  # again: an update, not an error
    token = await cluster.service_account_token("readers", "reader")
    await cluster.make_pods(1)
    async with cluster.client_of(token) as reader:
        assert len(await reader.list_all("/api/v1/pods")) == 1
        for method, path in [
            ("DELETE", "/api/v1/namespaces/default/pods/pod-0"),
            ("GET", "/api/v1/nodes"),
            ("POST", "/api/v1/namespaces/default/pods/pod-0/binding"),
        ]:
            with pytest.raises(ApiStatusError, match=r"system:serviceaccount:readers:reader.* cannot"):
                await reader.request(method, path, {} if method == "POST" else None)
    await cluster.audit.settled(cluster)
    user = "system:serviceaccount:readers:reader"
    assert [(event.verb, event.resource) for event in cluster.audit.refused(user)] == [
        ("delete", "pods"),
        ("list", "nodes"),
        ("create", "pods"),
    ]
    with pytest.raises(ApiStatusError) as missing:
        await cluster.service_account_token("readers", "nobody")
    assert missing.value.status == 404


async def test_a_token_nobody_issued_is_refused(cluster):
    async with cluster.client_of("made-up") as stranger:
        with pytest.raises(ApiStatusError) as refused:
            await stranger.get("/api/v1/pods")
    assert (refused.value.status, refused.value.reason) == (401, "Unauthorized")


async def test_a_kubeconfig_works_with_the_official_client(cluster, reader_manifest):
    await cluster.apply_manifest(reader_manifest)
    token = await cluster.service_account_token("readers", "reader")
    kubeconfig = cluster.control_plane.kubeconfig_for(token)
    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    with client:
        assert kubernetes.client.CoreV1Api(client).list_pod_for_all_namespaces().items == []
        with pytest.raises(kubernetes.client.ApiException) as refused:
            kubernetes.client.CoreV1Api(client).list_node()
        assert refused.value.status == 403


async def test_a_kind_that_is_not_served_is_named(cluster):
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    with pytest.raises(LookupError, match=r"no kind Gadget in apiVersion example\.com/v1"):
        await cluster.apply_manifest([gadget])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Pod\nmetadata: {name: x}", "document 1: apiVersion missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", "document 1: metadata.name missing"),
        ("---\n---\njust text", "document 2: expected an object with apiVersion, kind and metadata, found 'just text'"),
        ("a: [", "not YAML"),
    ],
)
def test_a_bad_manifest_is_named(tmp_path, text, complaint):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as error:
        read_manifest(path)
    assert str(path) in str(error.value)


def test_a_list_is_read_item_by_item_and_empty_documents_are_left_out(tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text(
        textwrap.dedent("""
            ---
            ---
            apiVersion: v1
            kind: List
            items:
            - {apiVersion: v1, kind: Namespace, metadata: {name: a}}
            - {apiVersion: v1, kind: Namespace, metadata: {name: b}}
        """)
    )
    assert [item["metadata"]["name"] for item in read_manifest(path)] == ["a", "b"]
