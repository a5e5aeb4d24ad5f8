"""Where each event of the cluster goes (kube-scheduler's eventhandlers.go, 1.37)."""

import pytest

from schedcache.cache import CacheCorruptedError
from schedcache.model import MalformedObjectError
from schedcache.testing import make_node, settle
from tests.scheduling.world import World, make_pod


@pytest.fixture
def world():
    """Events only: nothing is scheduled between them."""
    return World()


def queue_of(world, name):
    found = world.queue.find("default", name)
    return found and found[0]


def test_pods_without_a_node_are_queued_when_they_are_ours(world):
    world.api.create("ours")
    world.api.create("theirs", scheduler_name="default-scheduler")
    assert queue_of(world, "ours") == "active"
    assert queue_of(world, "theirs") is None
    assert len(world.pods) == 2


def test_pods_of_all_schedulers_are_counted_on_their_nodes(world):
    world.add_node("n1")
    world.api.create("theirs", scheduler_name="default-scheduler", node="n1", cpu="300m")
    world.api.create("ours", node="n1", cpu="200m")
    assert world.requested("n1") == 500


def test_a_pod_bound_by_another_component_leaves_the_queue(world):
    world.add_node("n1")
    world.api.create("a")
    world.api.change("a", node_name="n1")
    assert queue_of(world, "a") is None
    assert world.requested("n1") == 100


def test_a_pod_that_finishes_gives_its_room_back_and_does_not_return(world):
    world.add_node("n1")
    world.api.create("a", node="n1")
    world.api.change("a", phase="Succeeded")
    assert world.requested("n1") == 0
    world.api.change("a", phase="Failed")
    assert world.requested("n1") == 0
    assert len(world.pods) == 0


def test_a_finished_pod_that_is_new_is_not_held(world):
    world.api.create("a", node="n1", status={"phase": "Failed"})
    assert len(world.pods) == 0
    assert world.cache.pod_count() == 0


def test_equal_resource_versions_change_nothing(world):
    """kubernetes/kubernetes#96071."""
    pod = world.api.create("a")
    world.queue.pop_nowait()
    world.update(pod, pod)
    assert world.queue.active_pods() == []
    assert world.queue.in_flight_events() == [("pod", "a")]


def test_an_older_state_never_comes_back(world):
    world.add_node("n1")
    old = world.api.create("a", node="n1", cpu="300m")
    world.api.change("a", requests=make_pod("x", cpu="100m").requests)
    world.update(old, old)
    assert world.requested("n1") == 100


@pytest.mark.parametrize("node", ["", "n2"])
def test_delete_and_create_merged_into_one_update_is_a_new_pod(world, node):
    """kubernetes/kubernetes#85726: two UIDs in one update are a deletion and an addition."""
    world.add_node("n1")
    world.add_node("n2")
    old = world.api.create("u1", "web-0", node="n1")
    new = make_pod("web-0", uid="u2", node=node, resource_version=world.api.version())
    world.update(old, new)
    assert world.requested("n1") == 0
    assert world.requested("n2") == (100 if node else 0)
    assert queue_of(world, "web-0") == (None if node else "active")
    assert world.rebuilds == []


def test_a_tombstone_without_node_removes_the_pod_from_its_node(world):
    """kubernetes/kubernetes#106102."""
    world.add_node("n1")
    unbound = world.api.create("a")
    world.api.change("a", node_name="n1")
    world.api.delete("a", missed=True, last_known=unbound)
    assert world.requested("n1") == 0
    assert world.rebuilds == []


def test_a_contradiction_asks_for_a_rebuild_and_is_counted(world):
    """kube-scheduler ends its process here (kubernetes/kubernetes#42063)."""
    world.add_node("n1")
    world.add_node("n2")
    pod = world.api.create("a", node="n1")
    moved = make_pod("a", uid="a", node="n2", resource_version=world.api.version())
    world.update(pod, moved)
    assert world.metrics.errors == [CacheCorruptedError.kind]
    assert world.rebuilds == ["cache error: corruption"]
    world.scheduler.handlers.on_rebuild({"Pod": [moved], "Node": [make_node("n1"), make_node("n2")]})
    assert world.requested("n1") == 0
    assert world.requested("n2") == 100


def test_a_deletion_of_a_predecessor_leaves_the_pod_that_has_the_name_now(world):
    old = world.api.create("u1", "web-0")
    world.api.pods.clear()
    world.api.create("u2", "web-0")
    world.scheduler.handlers.on_delete("Pod", old, missed=True)
    assert world.queue.find("default", "web-0")[1].pod.uid == "u2"
    assert world.pods.get("default", "web-0").uid == "u2"


def test_a_changed_scheduler_name_moves_the_pod_in_and_out_of_the_queue(world):
    pod = world.api.create("a")
    world.api.change("a", shape=make_pod("a", scheduler_name="other").shape)
    assert queue_of(world, "a") is None
    world.api.change("a", shape=pod.shape)
    assert queue_of(world, "a") == "active"


def test_a_node_that_is_deleted_wakes_pods_before_it_leaves_the_cache(world):
    world.add_node("n1")
    seen = []
    move = world.queue.move
    world.queue.move = lambda event, *rest: (
        seen.append((event.label, world.cache.dump().nodes["n1"].node)),
        move(event, *rest),
    )
    world.delete(world.cache.dump().nodes["n1"].node)
    assert [label for label, _ in seen] == ["NodeDelete"]
    assert seen[0][1] is not None
    assert world.cache.node_count() == 0


def test_a_node_recreated_under_its_name_keeps_its_pods(world):
    """kubernetes/kubernetes#93938, with the deletion seen only as a change of UID."""
    world.add_node("n1", cpu="4")
    world.api.create("a", node="n1", cpu="1")
    old = world.cache.dump().nodes["n1"].node
    world.update(old, make_node("n1", cpu="2", resource_version="99", uid="another"))
    info = world.cache.dump().nodes["n1"]
    assert (info.allocatable.milli_cpu, info.requested.milli_cpu) == (2000, 1000)


def test_a_heartbeat_wakes_nobody(world):
    node = world.add_node("n1")
    world.api.create("a")
    info = world.queue.pop_nowait()
    info.unschedulable_plugins = {"Fit"}
    world.update(node, make_node("n1", resource_version=world.api.version()))
    assert world.queue.in_flight_events() == [("pod", "a")]


def test_a_malformed_object_is_left_out_and_the_rest_goes_on(world):
    error = MalformedObjectError("Pod", "default/bad", "spec.containers[0].resources.requests.cpu", "no quantity")
    world.scheduler.handlers.on_malformed("Pod", error)
    world.api.create("a")
    assert queue_of(world, "a") == "active"


def test_rebuild_replaces_what_was_missed_and_keeps_what_is_queued(world):
    world.add_node("n1")
    world.add_node("gone")
    world.api.create("stays")
    world.api.create("vanished", node="n1", cpu="1")
    world.api.create("dropped")
    stays = world.pods.get("default", "stays")
    fresh = [
        stays,
        make_pod("new", uid="new", resource_version="9"),
        make_pod("placed", uid="placed", node="n1", resource_version="9", cpu="250m"),
    ]
    world.scheduler.handlers.on_rebuild({"Pod": fresh, "Node": [make_node("n1")]})
    assert sorted(info.pod.uid for info in world.queue.active_pods()) == ["new", "stays"]
    assert world.requested("n1") == 250
    assert world.cache.node_count() == 1
    assert {pod.uid for pod in world.pods.values()} == {"stays", "new", "placed"}


async def test_rebuild_keeps_an_assumed_pod_that_is_being_bound():
    async with World() as world:
        node = world.add_node("n1")
        world.api.watching = False
        world.api.before_bind.append(lambda pod, name: world.clock.sleep(5))
        pod = make_pod("a", uid="a", resource_version="5")
        world.api.pods["default", "a"] = pod
        world.scheduler.handlers.on_add("Pod", pod)
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
        world.scheduler.handlers.on_rebuild({"Pod": [pod], "Node": [node]})
        assert world.cache.dump().assumed_pods == {"a"}
        assert world.requested("n1") == 100
        await world.advance(6)
        world.api.deliver()
        await settle()
        assert world.api.posts == [("a", "n1")]
        world.check_at_rest()


async def test_observing_follows_and_does_nothing():
    async with World(observe=True) as world:
        world.add_node("n1")
        world.api.create("a")
        world.api.create("b", node="n1")
        await world.advance(60)
        assert world.api.posts == []
        assert world.recorder.events == []
        assert world.recorder.patches == []
        assert world.requested("n1") == 100
        assert world.queue.active_pods() == []
        assert len(world.pods) == 2


def moves_of(world):
    """Labels of the events that the queue is told, from now on."""
    labels, move = [], world.queue.move

    def told(event, *rest):
        labels.append(event.label)
        move(event, *rest)

    world.queue.move = told
    return labels


def test_a_node_recreated_under_its_name_is_a_deletion_and_an_addition(world):
    node = world.add_node("n1")
    labels = moves_of(world)
    world.update(node, make_node("n1", resource_version="99", uid="another"))
    assert labels == ["NodeDelete", "NodeAdd"]


def test_a_late_deletion_of_a_nodes_predecessor_leaves_the_node(world):
    old = world.add_node("n1")
    world.update(old, make_node("n1", resource_version="99", uid="another"))
    world.scheduler.handlers.on_delete("Node", old, missed=True)
    assert world.cache.dump().nodes["n1"].node is not None


async def waiting_for_room(world):
    """A pod of ours that found n1 full."""
    world.api.create("small", cpu="1")
    await settle()
    assert "small" in [info.pod.uid for info in world.queue.unschedulable_pods()]


async def test_room_that_an_external_bind_leaves_where_we_assumed_the_pod_wakes_who_waits_for_it():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(100))
        world.api.create("a", cpu="1")
        await settle()
        await waiting_for_room(world)
        world.api.change("a", node_name="n2")
        await world.advance(3)
        assert world.api.node_of("small") == "n1"


async def nominated(world):
    """A pod of higher priority for which room on n1 is kept, though it does not fit there yet."""
    world.add_node("n1", "2")
    world.api.create("tenant", cpu="1", node="n1")
    preemptor = world.api.create("h", cpu="2", priority=10)
    await settle()
    world.api.change("h", nominated_node_name="n1")
    await waiting_for_room(world)
    return preemptor


async def test_a_nominated_pod_bound_elsewhere_by_others_wakes_who_made_way_for_it():
    """kubernetes/kubernetes#134859."""
    async with World() as world:
        await nominated(world)
        world.api.change("h", node_name="n9")
        await world.advance(3)
        assert world.api.node_of("small") == "n1"


async def test_a_nomination_that_is_withdrawn_wakes_who_made_way_for_it():
    async with World() as world:
        await nominated(world)
        world.api.change("h", nominated_node_name="")
        await world.advance(3)
        assert world.api.node_of("small") == "n1"


async def test_rebuild_wakes_pods_for_what_was_missed_and_takes_bound_ones_out_of_the_queue():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("big", cpu="2")
        world.api.create("bound-unseen", cpu="2")
        await settle()
        pods = [
            world.api.by_uid("big"),
            make_pod("bound-unseen", uid="bound-unseen", node="n1", resource_version="99999", cpu="100m"),
        ]
        world.scheduler.handlers.on_rebuild({"Pod": pods, "Node": [make_node("n1", cpu="4")]})
        assert world.queue.find("default", "bound-unseen") is None
        await world.advance(3)
        assert world.api.posts == [("big", "n1")]


def test_writes_that_wait_for_pods_that_are_gone_are_dropped(world):
    world.api.create("gone")
    world.api.create("vanished")
    forgotten = []
    world.recorder.forget = forgotten.append
    world.api.delete("gone")
    world.scheduler.handlers.on_rebuild({"Pod": [], "Node": []})
    assert forgotten == ["gone", "vanished"]
