"""What PreBind of VolumeBinding writes, on a real API server: these fields, of that version of the object, and nothing else."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import RequestSettings
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.volume_writer import ApiVolumeWriter
from schedcache.model import ClaimRef, PersistentVolume, PersistentVolumeClaim
from schedcache.ports import ConflictError, NotFoundError, OutcomeUnknownError, RefusedError
from schedcache.testing import Answer, LoseResponse

pytestmark = pytest.mark.controlplane

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@pytest.fixture
async def writer(proxy) -> AsyncIterator[ApiVolumeWriter]:
    async with Transport(load_credentials(proxy.kubeconfig), RequestSettings(request_timeout_seconds=2)) as transport:
        yield ApiVolumeWriter(transport, TokenBucket(-1, 1))


async def a_volume(cluster, **spec):
    common = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    body = {"metadata": {"name": "v", "annotations": {"mine": "too"}}, "spec": {**common, **spec}}
    return PersistentVolume.from_dict(await cluster.create(VOLUMES, body))


async def a_claim(cluster):
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c", "annotations": {"mine": "too"}}, "spec": spec}
    return PersistentVolumeClaim.from_dict(await cluster.create(CLAIMS, body))


async def test_a_volume_is_reserved_and_keeps_the_rest(cluster, writer):
    volume, claim = await a_volume(cluster), await a_claim(cluster)
    before = await cluster.get(f"{VOLUMES}/v")
    assumed = replace(volume, annotations={**volume.annotations, BOUND_BY_CONTROLLER: "yes"})
    stored = await writer.prebind(assumed, claim)
    after = await cluster.get(f"{VOLUMES}/v")
    assert stored.resource_version == after["metadata"]["resourceVersion"] != volume.resource_version
    assert stored.claim_ref == ClaimRef("default", "c", claim.uid)
    assert after["metadata"]["annotations"] == {"mine": "too", BOUND_BY_CONTROLLER: "yes"}
    assert after["spec"].pop("claimRef") == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
    }
    assert after["spec"] == before["spec"]


async def test_a_volume_that_a_person_reserved_by_name_gets_the_uid_and_no_mark(cluster, writer):
    volume = await a_volume(cluster, claimRef={"namespace": "default", "name": "c"})
    claim = await a_claim(cluster)
    stored = await writer.prebind(volume, claim)
    assert stored.claim_ref == ClaimRef("default", "c", claim.uid)
    assert stored.annotations == {"mine": "too"}


async def test_a_node_is_selected_for_a_claim_and_it_keeps_the_rest(cluster, writer):
    claim = await a_claim(cluster)
    before = await cluster.get(f"{CLAIMS}/c")
    stored = await writer.select_node(claim, "node-0")
    after = await cluster.get(f"{CLAIMS}/c")
    assert stored.resource_version == after["metadata"]["resourceVersion"] != claim.resource_version
    assert stored.annotations == after["metadata"]["annotations"] == {"mine": "too", SELECTED: "node-0"}
    assert after["spec"] == before["spec"]


async def test_what_has_changed_meanwhile_is_left_alone(cluster, writer):
    volume, claim = await a_volume(cluster), await a_claim(cluster)
    for path in (f"{VOLUMES}/v", f"{CLAIMS}/c"):
        await cluster.patch(path, {"metadata": {"labels": {"new": "label"}}})
    with pytest.raises(ConflictError, match="v"):
        await writer.prebind(volume, claim)
    with pytest.raises(ConflictError, match="c"):
        await writer.select_node(claim, "node-0")
    assert "claimRef" not in (await cluster.get(f"{VOLUMES}/v"))["spec"]
    assert SELECTED not in (await cluster.get(f"{CLAIMS}/c"))["metadata"]["annotations"]


async def test_what_was_made_again_under_the_name_is_left_alone(cluster, writer):
    claim = await a_claim(cluster)
    await cluster.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
    await cluster.delete(f"{CLAIMS}/c")
    with pytest.raises(NotFoundError):
        await writer.select_node(claim, "node-0")
    await a_claim(cluster)
    with pytest.raises((ConflictError, RefusedError)):
        await writer.select_node(claim, "node-0")
    assert SELECTED not in (await cluster.get(f"{CLAIMS}/c"))["metadata"]["annotations"]


async def test_a_lost_answer_leaves_the_outcome_open(cluster, writer, proxy):
    claim = await a_claim(cluster)
    proxy.add(LoseResponse(), method="PATCH", path=r"/persistentvolumeclaims/c$", times=1)
    with pytest.raises(OutcomeUnknownError):
        await writer.select_node(claim, "node-0")
    assert (await cluster.get(f"{CLAIMS}/c"))["metadata"]["annotations"][SELECTED] == "node-0"


async def test_so_does_an_answer_that_cannot_be_read(cluster, writer, proxy):
    claim = await a_claim(cluster)
    proxy.add(Answer(200, body=b'{"metadata": {}}'), method="PATCH", path=r"/persistentvolumeclaims/c$", times=1)
    with pytest.raises(OutcomeUnknownError, match="cannot be read"):
        await writer.select_node(claim, "node-0")
