"""A pod that changes while it is being tried: nothing of that is lost, and nothing of it spares the pod its backoff."""

from structlog.testing import capture_logs

from schedcache.framework import Framework
from schedcache.ports import RefusedError
from schedcache.testing import settle
from tests.scheduling.world import Sort, World, during_attempts, make_pod, raises


def labelled(cpu):
    return make_pod("x", cpu=cpu, labels={"new": "label"}).shape


async def test_a_change_during_a_failing_attempt_is_in_the_queue_afterwards(monkeypatch):
    """kubernetes/kubernetes#141645: the pod went back as it had been popped."""
    async with World() as world:
        world.add_node("n1")
        during_attempts(monkeypatch, lambda pod: world.api.change(pod.uid, shape=labelled("64")))
        world.api.create("a", cpu="64")
        await settle()
        (info,) = world.queue.unschedulable_pods()
        assert info.pod.labels == {"new": "label"}
        assert world.queue.in_flight() == []


async def test_a_change_during_a_failing_bind_does_not_shorten_the_backoff():
    """kubernetes/kubernetes#141645."""
    async with World() as world:
        world.add_node("n1")

        async def slow_and_refused(pod, node):
            await world.clock.sleep(3)
            raise RefusedError("forbidden", status=403)

        world.api.before_bind.append(slow_and_refused)
        world.api.create("a")
        await settle()
        world.api.change("a", shape=labelled("100m"))
        await world.advance(3)
        (info,) = world.queue.error_backoff_pods()
        assert info.pod.labels == {"new": "label"}
        over = world.queue.next_flush_at()
        assert over is not None
        await world.advance(over - world.clock() - 0.01)
        assert len(world.api.posts) == 1
        await world.advance(0.02)
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


async def test_a_pod_that_an_event_brings_back_during_its_attempt_is_taken_by_the_pop_that_waits(monkeypatch):
    """kubernetes/kubernetes#139186: it was seen as still in flight, and dropped."""
    async with World() as world:
        world.add_node("n1", "1")
        schedule = Framework.schedule

        def room_comes_too_late(self, pod, *rest):
            try:
                return schedule(self, pod, *rest)
            finally:
                world.add_node(f"m{len(world.api.posts)}{world.api.version()}", "4")

        monkeypatch.setattr(Framework, "schedule", room_comes_too_late)
        world.api.create("a", cpu="2")
        await settle()
        assert world.api.node_of("a").startswith("m")
        assert world.metrics.attempts == ["unschedulable", "scheduled"]
        world.check_at_rest()


async def test_an_error_that_repeats_is_a_warning_once(capsys):
    """A pod that is refused, as in a namespace that is being deleted, is so after each backoff."""
    async with World() as world:
        world.add_node("n1")
        for message in ("forbidden", "forbidden", "forbidden", "too many", "forbidden"):
            world.api.before_bind.append(raises(RefusedError(message, status=403)))
        world.api.create("a")
        await settle()
        await world.advance(60)
        assert world.api.node_of("a") == "n1"
    lines = [line for line in capsys.readouterr().out.splitlines() if "scheduling failed; retrying" in line]
    told = [("warning" in line, "forbidden" in line) for line in lines]
    assert told == [(True, True), (False, True), (False, True), (True, False), (True, True)]


async def test_a_queue_sort_that_always_fails_costs_nothing_but_its_order(monkeypatch):
    """No pod is lost, nothing is read afresh for it, and it is told once, by name."""

    def fails(_self, _info):
        raise RuntimeError("out of order")

    monkeypatch.setattr(Sort, "sort_key", fails)
    with capture_logs() as logs:
        async with World() as world:
            for i in range(5):
                world.api.create(f"p{i}", cpu="1", priority=i)
            await settle()
            world.add_node("n1", "3")
            await world.advance(30)
            assert sorted(uid for uid, _ in world.api.posts) == ["p2", "p3", "p4"]
            world.api.delete("p4")
            await world.advance(30)
            assert [uid for uid, _ in world.api.posts[3:]] == ["p1"]
            assert world.queue.pending_counts()["unschedulable"] == 1
            assert (world.rebuilds, world.metrics.errors) == ([], [])
            world.check_at_rest()
    told = [line["plugin"] for line in logs if line["event"] == "plugin failed in the queue"]
    assert told == ["Sort"]
