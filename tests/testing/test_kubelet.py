import asyncio

import pytest

from schedcache.testing import FakeKubelet, wait_until

pytestmark = pytest.mark.controlplane


async def phases(cluster):
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await cluster.list_pods()}


async def reach(cluster, **wanted):
    wanted = {name.replace("_", "-"): phase for name, phase in wanted.items()}
    try:
        await wait_until(lambda: is_equal(cluster, wanted), timeout=10)
    except TimeoutError:
        assert await phases(cluster) == wanted
        raise


async def is_equal(cluster, wanted):
    return await phases(cluster) == wanted


async def bound(cluster, count):
    await cluster.make_nodes(1)
    pods = await cluster.make_pods(count)
    for pod in pods:
        await cluster.bind(pod, "node-0")
    return pods


async def test_pods_run_once_they_have_a_node_and_end_when_told(cluster):
    await cluster.make_nodes(1)
    pods = await cluster.make_pods(3)
    await cluster.bind(pods[0], "node-0")  # before the kubelet is there
    async with FakeKubelet(cluster) as kubelet:
        await reach(cluster, pod_0="Running", pod_1="Pending", pod_2="Pending")
        await cluster.bind(pods[1], "node-0")
        await reach(cluster, pod_0="Running", pod_1="Running", pod_2="Pending")
        running = await cluster.get("/api/v1/namespaces/default/pods/pod-1")
        assert running["status"]["startTime"]
        assert "podIP" not in running["status"]
        conditions = {one["type"]: one["status"] for one in running["status"]["conditions"]}
        assert conditions == dict.fromkeys(("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True")
        await kubelet.finish("default", "pod-0")
        failed = await kubelet.finish("default", "pod-1", "Failed", reason="OutOfcpu")
        assert failed["status"]["reason"] == "OutOfcpu"
        await reach(cluster, pod_0="Succeeded", pod_1="Failed", pod_2="Pending")
        with pytest.raises(ValueError, match="phase: expected one of Failed, Succeeded, not 'Done'"):
            await kubelet.finish("default", "pod-1", "Done")


async def test_pods_end_after_their_time(cluster):
    await bound(cluster, 2)

    def half_a_second(pod):
        return 0.5 if pod["metadata"]["name"] == "pod-0" else None

    async with FakeKubelet(cluster, run_for=half_a_second):
        await reach(cluster, pod_0="Running", pod_1="Running")
        await reach(cluster, pod_0="Succeeded", pod_1="Running")


async def test_a_deletion_takes_its_time_and_is_completed(cluster):
    pods = await bound(cluster, 1)
    async with FakeKubelet(cluster, termination_seconds=0.5):
        await reach(cluster, pod_0="Running")
        await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=30)
        [pod] = await cluster.list_pods()
        assert pod["metadata"]["uid"] == pods[0]["metadata"]["uid"]
        assert pod["metadata"]["deletionTimestamp"]
        await reach(cluster)
        # The next of that name is another pod.
        [again] = await bound_again(cluster)
        await reach(cluster, pod_0="Running")
        assert again["metadata"]["uid"] != pod["metadata"]["uid"]


async def bound_again(cluster):
    pods = await cluster.make_pods(1)
    await cluster.bind(pods[0], "node-0")
    return pods


async def test_without_a_kubelet_a_deletion_waits(cluster):
    await bound(cluster, 1)
    await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=30)
    await asyncio.sleep(0.5)
    assert len(await cluster.list_pods()) == 1


async def test_it_survives_a_restart_of_the_api_server(cluster):
    servers = cluster.control_plane
    pods = [*await bound(cluster, 1), *await cluster.make_pods(1, name="late-{}")]
    async with FakeKubelet(cluster, run_for=lambda pod: 0.3 if pod["metadata"]["name"] == "pod-0" else None):
        await reach(cluster, pod_0="Running", late_0="Pending")
        servers.stop_api_server()
        try:
            await asyncio.sleep(0.5)  # pod-0 ends meanwhile, and nobody is there to be told
        finally:
            await asyncio.to_thread(servers.start_api_server)
        await cluster.bind(pods[1], "node-0")
        await reach(cluster, pod_0="Succeeded", late_0="Running")


async def test_a_late_write_does_not_reach_the_next_pod_of_that_name(cluster):
    [old] = await bound(cluster, 1)
    await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    await bound_again(cluster)
    kubelet = FakeKubelet(cluster, run_for=lambda _: 0.0)
    await kubelet._run({**old, "status": {"phase": "Pending"}})
    assert await phases(cluster) == {"pod-0": "Pending"}
