"""Processes that are stopped, killed and frozen; several of them at once, with and without a leader."""

import asyncio
import time

import pytest

from schedcache.testing import Answer, Delay, Hang, find_binaries
from schedcache.testing.processes import SupervisedProcess
from tests.faults import leases
from tests.faults.clock import shift_library, shifted
from tests.faults.process import Launch
from tests.faults.proxy import SwitchingProxy
from tests.faults.world import BINDING

LEASES = r"/apis/coordination\.k8s\.io/v1/.*leases"
TAKE_OVER_SECONDS = 20.0
RELEASED_SECONDS = 2.0
fault = pytest.mark.fault


@fault("stopped-in-a-burst")
async def test_one_process_after_the_other_in_a_burst(world):
    await world.nodes(10, cpu="16")
    slow = world.proxy.add(Delay(0.5), method="POST", path=BINDING)
    scheduler = await world.start("--kube-api-qps=100", "--kube-api-burst=1")
    async with world.fault():
        for turn in range(3):
            await world.pods(100)
            await slow.wait(slow.hits + 30)
            began = time.monotonic()
            assert await scheduler.stop() == 0, scheduler.text()
            assert time.monotonic() - began < 30, "Kubernetes' grace period"
            scheduler = await world.start("--kube-api-qps=100", "--kube-api-burst=1")
            assert turn < 3
    await world.healed()


@fault("process-frozen")
async def test_the_only_process_stands_still(world):
    await world.nodes(10, cpu="4")
    slow = world.proxy.add(Delay(0.3), method="POST", path=BINDING)
    scheduler = await world.start("--kube-api-qps=50", "--kube-api-burst=1")
    await world.pods(100, name="pod-{}")
    await slow.wait(40)
    scheduler.freeze()
    for number in range(30):
        await world.delete_pod(f"pod-{number}")
    await world.cluster.delete("/api/v1/nodes/node-3")
    await world.pods(20)
    await asyncio.sleep(100)
    world.over = time.monotonic()
    scheduler.thaw()
    assert (await scheduler.probe("/livez"))[0] in (0, 200), "a restart would not help"
    await world.healed()


@fault("two-leaders")
async def test_two_that_elect_nobody(world):
    await world.nodes(10, cpu="40")
    async with world.fault():
        await asyncio.gather(world.start(), world.start("--event-source=kopf"))
        await world.pods(300)
        await world.bound(300)
    await world.healed()


@fault("beside-kube-scheduler", quick=("reflector",))
async def test_kube_scheduler_places_its_pods_on_the_same_nodes(world):
    """Where both have placed a pod in the same place, the kubelet rejects one of them, and we count it no more."""
    binary = find_binaries(("kube-scheduler",))["kube-scheduler"]
    await world.nodes(5, cpu="4")
    await world.start()
    folder = world.cluster.control_plane.directory
    command = [
        *(str(binary), f"--kubeconfig={world.cluster.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
        *(f"--authentication-kubeconfig={world.cluster.kubeconfig}", "--authorization-always-allow-paths=/healthz"),
    ]
    other = SupervisedProcess(command, folder / "kube-scheduler.log")
    try:
        async with world.fault():
            await asyncio.gather(
                world.pods(24, name="ours-{}", requests={"cpu": "500m"}),
                world.pods(12, name="theirs-{}", requests={"cpu": "500m"}, scheduler_name="default-scheduler"),
            )
            await world.bound(36)
            for pod in await reject_what_is_too_much(world.cluster):
                assert pod["metadata"]["name"]
        await world.healed()
    finally:
        other.kill()


async def reject_what_is_too_much(cluster):
    """As kubelets do: whatever comes last and has no room is failed with OutOfcpu."""
    room, rejected = dict.fromkeys((f"node-{n}" for n in range(5)), 8), []
    for pod in sorted(await cluster.list_pods(), key=lambda pod: int(pod["metadata"]["resourceVersion"])):
        node = pod["spec"]["nodeName"]
        room[node] -= 1
        if room[node] < 0:
            status = {"phase": "Failed", "reason": "OutOfcpu"}
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
            rejected.append(await cluster.patch(path, {"status": status}))
    return rejected


@fault("clock-jump", quick=("reflector",))
async def test_the_wall_clock_jumps(world):
    """An hour ahead from the start, since certificates are valid from now on; then back, and ahead again."""
    library = shift_library(world.folder)
    with shifted(library, 3600) as clock:
        await world.nodes(5, cpu="8")
        scheduler = await world.start(launch=Launch(environment=clock.environment))
        await world.pods(20)
        await world.bound(20)
        async with world.fault():
            for seconds in (0, 7200, 3600):
                clock.set(seconds)
                world.proxy.cut_watches()
                await world.pods(60)
                await asyncio.sleep(3)
        # From here on it stays where it is: an hour ahead of everybody else.
        await world.healed()
        world.always_ready()
        assert scheduler.running


@fault("clock-jump")
async def test_the_monotonic_clock_begins_somewhere_else(world):
    """A time namespace, 30 years of uptime: no deadline is counted from zero."""
    year = 365 * 24 * 3600
    launch = Launch(
        prefix=("unshare", "--time", f"--monotonic={30 * year}", f"--boottime={30 * year}", "--kill-child", "--")
    )
    await world.nodes(5, cpu="8")
    await world.start(launch=launch)
    async with world.fault():
        await world.pods(60)
        await world.bound(60)
    await world.healed()
    world.always_ready()


async def replicas(world, *flags):
    """Two that elect a leader, each with an identity and a proxy of its own; the leader first."""
    ways, made = [], []
    for name in ("one", "two"):
        way = await world.enter(SwitchingProxy(world.cluster.control_plane))
        ways.append(way)
        kubeconfig = await leases.identity(world.cluster, name, way)
        made.append(await world.start("--leader-elect=true", *flags, kubeconfig=kubeconfig))
    await world.leader_is(leases.user_of("one"))
    return ways, made


@fault("leader-killed")
@pytest.mark.servers
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
async def test_the_leader_ends(world, how):
    await world.nodes(10, cpu="16")
    ways, (leader, standby) = await replicas(world)
    slow = ways[0].add(Delay(0.3), method="POST", path=BINDING)
    await world.pods(200)
    await slow.wait(20)
    async with world.fault():
        if how == "SIGKILL":
            leader.kill()
        else:
            assert await leader.stop() == 0
    await world.pods(10)
    patience = TAKE_OVER_SECONDS if how == "SIGKILL" else RELEASED_SECONDS
    await world.leader_is(leases.user_of("two"), patience)
    await world.healed()
    assert standby.running


@fault("leader-frozen")
@pytest.mark.servers
async def test_the_leader_stands_still_and_comes_back(world):
    await world.nodes(10, cpu="16")
    ways, (leader, _) = await replicas(world)
    slow = ways[0].add(Delay(0.3), method="POST", path=BINDING)
    await world.pods(200)
    await slow.wait(20)
    async with world.fault():
        leader.freeze()
        await world.leader_is(leases.user_of("two"), TAKE_OVER_SECONDS)
        await asyncio.sleep(10)
        thawed = time.time()
        leader.thaw()
        await world.pods(50)
        await asyncio.sleep(3)
    await world.healed()
    late = [moment for moment in leases.bound_by(world.cluster, leases.user_of("one")) if moment > thawed + 0.5]
    assert not late, "bound after it had come back"


@fault("lease-refused")
@pytest.mark.servers
async def test_the_leader_can_do_everything_but_renew(world):
    await world.nodes(10, cpu="16")
    ways, _ = await replicas(world)
    async with world.fault():
        ways[0].add(Answer(403), path=LEASES, where=lambda request: request.method != "GET")
        began = time.monotonic()
        while time.monotonic() - began < TAKE_OVER_SECONDS + 5:
            await world.pods(3)
            await asyncio.sleep(1)
        await world.leader_is(leases.user_of("two"), 1.0)
    ways[0].clear()
    await world.healed()


@fault("leader-cut-off")
@pytest.mark.servers
async def test_the_leader_alone_is_cut_off(world):
    await world.nodes(10, cpu="16")
    ways, (leader, _) = await replicas(world)
    async with world.fault():
        ways[0].add(Hang())
        ways[0].hold_watches()
        await world.pods(50)
        await world.leader_is(leases.user_of("two"), TAKE_OVER_SECONDS)
        await world.bound(50)
        await asyncio.sleep(20)
    world.unready(TAKE_OVER_SECONDS + 15, scheduler=leader)
    ways[0].clear()
    ways[0].cut_watches()
    await world.healed()


@fault("clock-jump")
@pytest.mark.servers
async def test_replicas_whose_wall_clocks_are_an_hour_apart(world):
    library = shift_library(world.folder)
    with shifted(library, 3600) as clock:
        await world.nodes(10, cpu="16")
        first = await leases.identity(world.cluster, "one")
        second = await leases.identity(world.cluster, "two")
        await world.start("--leader-elect=true", kubeconfig=first)
        await world.leader_is(leases.user_of("one"))
        await world.start("--leader-elect=true", kubeconfig=second, launch=Launch(environment=clock.environment))
        async with world.fault():
            for seconds in (7200, 0, 3600):
                clock.set(seconds)
                await world.pods(20)
                await asyncio.sleep(6)
        await world.healed()
        assert leases.holders(world.cluster) == [leases.user_of("one")], "nobody had a reason to take over"
        await leases.assert_fenced(world.cluster)
