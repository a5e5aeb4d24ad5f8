"""Two and three replicas: one schedules, the others wait, and whatever happens, no bind is sent by one whose lease may have run out."""

import asyncio
import itertools
import os
import signal
import time
from datetime import datetime

import pytest

from schedcache.testing import Answer, Delay, FaultProxy, Hang, LoseResponse, Reset, wait_until
from tests.e2e.replicas import (
    DURATION,
    LEASE,
    LEASES,
    QUICK,
    RETRY,
    assert_only_holders_wrote,
    hand_over,
    lease_writes,
    replicas,
    tell,
)
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted

pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]

POD_CPU = "100m"


async def a_stream_of_pods(cluster, seconds, each=0.05):
    """Pods that come all the time, so that whoever may bind does."""
    made = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await cluster.make_pods(1, name=f"stream-{made}", requests={"cpu": POD_CPU})
        made += 1
        await asyncio.sleep(each)
    return made


async def assert_sound(cluster, leader, pods):
    """All is bound, once, and the one that leads by now knows it."""
    await cluster.wait_until_bound(pods)
    binds = await assert_only_holders_wrote(cluster)
    await assert_bound_once(cluster)
    await assert_no_node_is_overcommitted(cluster)
    dump = await assert_dump_is_truth(cluster, leader.dump)
    assert dump.assumed == ()
    return binds


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_clean_stop_hands_over_within_the_retry_period(cluster, tmp_path, source):
    """With the default timings: two seconds."""
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, 2, "--leader-elect", f"--event-source={source}") as (first, second):
        assert await first.standing() == "ok"
        assert (await second.standing()).startswith("ok: standby, the leader is ")
        pods = asyncio.create_task(a_stream_of_pods(cluster, 4))
        await asyncio.sleep(1)
        assert await first.stop() == 0
        await wait_until(second.leads, 5)
        assert await second.standing() == "ok"
        binds = await assert_sound(cluster, second, await pods)
        took = await hand_over(cluster)
        tell(f"hand-over on release, {source}: {took:.2f} s; binds {sorted(binds.values())}")
        assert took <= 2
        assert set(binds) == {first.user, second.user}
        assert (first.complaints(), second.complaints()) == ([], [])
        lease = (await cluster.get(LEASE))["spec"]
        assert (lease["leaseDurationSeconds"], lease["leaseTransitions"]) == (15, 1)


async def test_nothing_that_was_decided_arrives_after_the_release(cluster, tmp_path):
    """A condition that is on its way when the leader is stopped; whoever takes over may have written another one by then."""
    await cluster.make_nodes(1, capacity={"cpu": "1", "pods": "10"})
    async with replicas(cluster, tmp_path, 2, "--leader-elect", proxied=True) as (first, second):
        slow = first.proxy.add(Delay(2.0), method="PATCH", path=r"/pods/.*/status$")
        await cluster.make_pods(1, name="large", requests={"cpu": "64"})
        await slow.wait(1)
        assert await first.stop() == 0
        await wait_until(second.leads, 5)
        released = next(each.received for each in await lease_writes(cluster) if not each.holder)
        patches = [
            datetime.fromisoformat(event.received).timestamp()
            for event in cluster.audit.events(resource="pods", subresource="status", user=first.user)
        ]
        assert patches, "the condition was on its way"
        assert max(patches) < released
        assert await hand_over(cluster) <= 2


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_crash_hands_over_when_the_lease_has_run_out(cluster, tmp_path, source):
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, 3, *QUICK, f"--event-source={source}") as (first, *others):
        pods = asyncio.create_task(a_stream_of_pods(cluster, DURATION + 3))
        await asyncio.sleep(1)
        await first.kill()
        leader = await leader_among(others)
        binds = await assert_sound(cluster, leader, await pods)
        took = await hand_over(cluster)
        tell(f"hand-over on a crash, {source}, lease of {DURATION:g} s: {took:.2f} s; binds {sorted(binds.values())}")
        assert DURATION <= took <= DURATION + 3
        assert first.user in binds
        assert leader.user in binds


async def test_a_crash_with_the_default_timings_hands_over_within_20_seconds(cluster, tmp_path):
    await cluster.make_nodes(2)
    async with replicas(cluster, tmp_path, 2, "--leader-elect") as (first, second):
        await first.kill()
        await wait_until(second.leads, 25)
        await cluster.make_pods(3)
        await assert_sound(cluster, second, 3)
        took = await hand_over(cluster)
        tell(f"hand-over on a crash, default timings: {took:.2f} s")
        assert took <= 20


async def test_a_standby_that_does_not_see_the_cluster_leaves_the_lease_to_others(cluster, tmp_path):
    """It would hold the lease and schedule nothing, while another one waits that could."""
    await cluster.make_nodes(2)
    async with replicas(cluster, tmp_path, 2, *QUICK, proxied=True) as (first, second):
        second.proxy.add(Answer(503), method="GET", path=r"^/api/v1/(pods|nodes)$")
        for watch in second.proxy.watches:
            watch.cut(reset=True)

        async def is_blind():
            return "no connection for" in await second.standing()

        await wait_until(is_blind, 40)
        await first.kill()
        await asyncio.sleep(DURATION + 3)
        assert not await second.leads()
        second.proxy.clear()
        await wait_until(second.leads, 40)
        await cluster.make_pods(3)
        await assert_sound(cluster, second, 3)


async def any_leads(found):
    return any([await each.leads() for each in found])


async def leader_among(found):
    """Who leads, once somebody does; on a machine that is busy, its lease may be renewed late and leading be suspended for a moment."""
    leading = []

    async def one_leads():
        leading[:] = [each for each in found if await each.leads()]
        return len(leading) == 1

    await wait_until(one_leads, DURATION + 15)
    return leading[0]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("fault", [Hang(), Reset()], ids=["silence", "resets"])
async def test_a_leader_that_is_cut_off_stops_before_the_next_one_starts(cluster, tmp_path, count, fault):
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, count, *QUICK, proxied=True) as (first, *others):
        pods = asyncio.create_task(a_stream_of_pods(cluster, 9))
        await asyncio.sleep(1)
        first.proxy.add(fault)
        await leader_among(others)
        assert not await first.leads()
        assert "suspended, the lease was not renewed" in await first.standing()
        assert (await first.get("/livez", probe=True))[0] == 200, "a restart would not help"
        await asyncio.sleep(1)
        first.proxy.clear()
        assert await exit_status(first) == 1
        assert "held by" in first.complaints()[-1]["reason"]
        leader = await leader_among(others)
        binds = await assert_sound(cluster, leader, await pods)
        tell(f"hand-over of a leader cut off: {await hand_over(cluster):.2f} s; binds {sorted(binds.values())}")
        assert set(binds) == {first.user, leader.user}


async def exit_status(replica):
    async with asyncio.timeout(20):
        return await replica.process.wait()


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_leader_that_was_stopped_for_longer_than_its_lease_binds_nothing_more(cluster, tmp_path, source):
    """It wakes with decided pods, open connections and a full queue."""
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    slowly = ("--kube-api-qps=20", "--kube-api-burst=1")
    async with replicas(cluster, tmp_path, 2, *QUICK, f"--event-source={source}", *slowly) as (first, second):
        await cluster.make_pods(200, requests={"cpu": POD_CPU})
        await asyncio.sleep(1.5)
        os.kill(first.process.pid, signal.SIGSTOP)
        await wait_until(second.leads, DURATION + 5)
        await asyncio.sleep(1)
        os.kill(first.process.pid, signal.SIGCONT)
        assert await exit_status(first) == 1
        binds = await assert_sound(cluster, second, 200)
        tell(f"binds of the one that was stopped and of the other, {source}: {binds[first.user]}, {binds[second.user]}")
        assert binds[first.user] < 100


async def test_a_leader_that_was_stopped_again_and_again_never_binds_beside_another(cluster, tmp_path):
    """At any moment, also between deciding and sending."""
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "900"})
    async with replicas(cluster, tmp_path, 3, *QUICK) as found:
        pods = asyncio.create_task(a_stream_of_pods(cluster, 14, 0.01))
        for seconds in (0.4, DURATION + 1.2, DURATION + 0.9):
            await asyncio.sleep(0.7)
            leader = await leader_among(found)
            os.kill(leader.process.pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            os.kill(leader.process.pid, signal.SIGCONT)
            if seconds > DURATION:
                assert await exit_status(leader) == 1
                found.remove(leader)
        leader = await leader_among(found)
        binds = await assert_sound(cluster, leader, await pods)
        tell(f"binds by leader: {binds}")


async def test_a_wall_clock_that_jumps_changes_nothing(cluster, tmp_path):
    """An hour ahead, a day back: at the leader, at the standby, at both."""
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, 2, *QUICK, module="tests.e2e.time_traveller") as (first, second):
        pods = asyncio.create_task(a_stream_of_pods(cluster, 8))
        for jumps in ((first,), (second,), (first, second), (second,)):
            for replica in jumps:
                os.kill(replica.process.pid, signal.SIGUSR1)
            await asyncio.sleep(DURATION / 2)
            assert await first.leads()
        await assert_sound(cluster, first, await pods)
        renewed = datetime.fromisoformat((await cluster.get(LEASE))["spec"]["renewTime"])
        assert abs(renewed.timestamp() - time.time()) > 1000, "its clock did jump"
        assert len({write.holder for write in await lease_writes(cluster)}) == 1


async def test_when_nobody_is_answered_the_leader_goes_on_afterwards_with_all_that_it_knows(cluster, tmp_path):
    """An outage of the API server: nobody else can have led, so nothing is lost and nobody is restarted."""
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, 2, *QUICK, proxied=True) as (first, second):
        await cluster.make_pods(20, name="before-{}", requests={"cpu": POD_CPU})
        await cluster.wait_until_bound(20)
        for replica in (first, second):
            replica.proxy.add(Hang())
        await cluster.make_pods(20, name="during-{}", requests={"cpu": POD_CPU})
        await asyncio.sleep(2 * DURATION)
        assert not await any_leads((first, second))
        for replica in (first, second):
            replica.proxy.clear()
        leader = await leader_among((first, second))
        await assert_sound(cluster, leader, 40)
        assert leader is not first or first.process.returncode is None


async def test_one_replica_outlasts_an_outage_of_the_api_server(cluster, tmp_path):
    await cluster.make_nodes(2, capacity={"cpu": "40"})
    async with replicas(cluster, tmp_path, 1, *QUICK, proxied=True) as (only,):
        only.proxy.add(Reset())
        await asyncio.sleep(2 * DURATION)
        assert not await only.leads()
        only.proxy.clear()
        await wait_until(only.leads, 10)
        await cluster.make_pods(5)
        await assert_sound(cluster, only, 5)
        assert (await cluster.get(LEASE))["spec"]["leaseTransitions"] == 0
        assert only.complaints() == []


async def test_refused_renewals_end_binding_and_then_the_process(cluster, tmp_path):
    await cluster.make_nodes(2, capacity={"cpu": "40"})
    async with replicas(cluster, tmp_path, 1, *QUICK, proxied=True) as (only,):
        only.proxy.add(Answer(403), path=LEASES)
        asked = time.monotonic()
        pods = asyncio.create_task(a_stream_of_pods(cluster, 4))
        assert await exit_status(only) == 1
        assert time.monotonic() - asked < DURATION + 3
        assert "renewing the lease is refused" in only.complaints()[-1]["reason"]
        await pods
        await assert_only_holders_wrote(cluster)


async def test_a_conflict_with_another_holder_ends_it_within_a_second(cluster, tmp_path):
    await cluster.make_nodes(2)
    async with replicas(cluster, tmp_path, 1, *QUICK) as (only,):
        await cluster.patch(LEASE, {"spec": {"holderIdentity": "other"}})
        async with asyncio.timeout(RETRY + 1):
            assert await only.process.wait() == 1
        assert (await cluster.get(LEASE))["spec"]["holderIdentity"] == "other", "it is not released for somebody else"


async def test_renewals_that_take_long_or_lose_their_answer_do_no_harm(cluster, tmp_path):
    await cluster.make_nodes(5, capacity={"cpu": "40", "pods": "500"})
    async with replicas(cluster, tmp_path, 2, *QUICK, proxied=True) as (first, second):
        pods = asyncio.create_task(a_stream_of_pods(cluster, 8))
        for fault in (Delay(0.7), LoseResponse(), LoseResponse(silent=True), Delay(0.6, response=True)):
            rule = first.proxy.add(fault, method="PUT", path=LEASES, times=3)
            await rule.wait(3)
            await asyncio.sleep(0.5)
        leader = await leader_among((first, second))
        await assert_sound(cluster, leader, await pods)


async def test_a_standby_keeps_everything_warm(cluster, tmp_path):
    """What it will need is there before it leads: nothing is listed again."""
    await cluster.make_nodes(3, capacity={"cpu": "2"})
    async with replicas(cluster, tmp_path, 2, *QUICK) as (first, second):
        await cluster.make_pods(10, name="fits-{}", requests={"cpu": "500m"})
        await cluster.wait_until_bound(10)
        await cluster.make_pods(3, name="waits-{}", requests={"cpu": "5"})

        async def knows():
            dump = await second.dump()
            return sum(pod.state == "bound" for pod in dump.pods.values()) == 10 and len(dump.queue.pods) == 3

        await wait_until(knows, 10)
        writes = [event for event in cluster.audit.writes(second.user) if event.resource != "leases"]
        assert writes == [], "a standby writes nothing"
        await first.stop()
        await wait_until(second.leads, 5)
        await cluster.make_nodes(1, name="large-{}", capacity={"cpu": "40"})
        await assert_sound(cluster, second, 13)
        lists = cluster.audit.events(user=second.user, verb="list", resource="pods")
        # The others ask whether the server is there, and what its version is.
        assert len([event for event in lists if "limit=1" not in event.uri.partition("?")[2].split("&")]) == 1


async def test_the_lease_of_the_main_scheduler_is_neither_read_nor_written(cluster, tmp_path):
    """kube-scheduler's own, which is in the default configuration, stands for one named after us."""
    main = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    spec = {
        "holderIdentity": "main_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-05T08:00:00.000000Z",
        "renewTime": "2026-01-05T08:00:00.000000Z",
        "leaseTransitions": 1,
    }
    before = await cluster.create(main, {"metadata": {"name": "kube-scheduler"}, "spec": spec})
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: true, resourceName: kube-scheduler, resourceNamespace: kube-system}\n"
        "profiles: [{schedulerName: other}]\n"
    )
    async with (
        FaultProxy(cluster.control_plane) as proxy,
        SchedulerProcess(proxy.kubeconfig, tmp_path / "a", "--leader-elect", "--scheduler-name=schedcache") as one,
        SchedulerProcess(proxy.kubeconfig, tmp_path / "b", "--leader-elect", f"--config={file}") as other,
    ):
        for process in (one, other):
            await process.ready()

            async def leads(process=process):
                return (await process.get("/readyz", probe=True))[1] == "ok"

            await wait_until(leads, 5)
        held = {item["metadata"]["name"]: item["spec"]["holderIdentity"] for item in await cluster.list_all(main)}
        assert held.keys() >= {"schedcache", "schedcache-other"}
        assert len({held["schedcache"], held["schedcache-other"]}) == 2
    assert await cluster.get(f"{main}/kube-scheduler") == before
    await cluster.audit.settled(cluster)
    touched = [
        event
        for event in cluster.audit.events(resource="leases", name="kube-scheduler")
        if event.user_agent.startswith("schedcache/")
    ]
    assert touched == []


async def test_the_history_of_the_lease_is_one_holder_after_the_other(cluster, tmp_path):
    """As a watch of the Lease shows it, independent of the audit log: acquired, renewed, released; never two at a time."""
    seen = []

    async def follow():
        async for kind, lease in cluster.watch(LEASE.rpartition("/")[0], "0"):
            if lease["metadata"]["name"] == "schedcache" and kind != "DELETED":
                seen.append(lease["spec"])

    following = asyncio.create_task(follow())
    try:
        await cluster.make_nodes(1)
        async with replicas(cluster, tmp_path, 3, *QUICK) as (first, second, third):
            await asyncio.sleep(2)
            await first.stop()
            leader = await leader_among((second, third))
            last = third if leader is second else second
            await leader.kill()
            await wait_until(last.leads, DURATION + 5)
            await asyncio.sleep(1)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    holders = [spec["holderIdentity"] for spec in seen]
    changes = [holder for number, holder in enumerate(holders) if number == 0 or holder != holders[number - 1]]
    assert [bool(holder) for holder in changes] == [True, False, True, True, False]
    transitions = [spec["leaseTransitions"] for spec in seen]
    assert transitions == sorted(transitions)
    assert transitions[-1] == 2
    for before, after in itertools.pairwise(seen):
        if before["holderIdentity"] == after["holderIdentity"]:
            assert before["acquireTime"] == after["acquireTime"]
            assert before["renewTime"] < after["renewTime"]
    assert len(await lease_writes(cluster)) == len(seen)
