"""A cache that is kept in step and nothing else."""

from collections import Counter

import pytest

from schedcache.cache import CacheCorruptedError, ClusterObjects, SchedulerCache
from schedcache.model import MalformedObjectError
from schedcache.model.objects import Namespace
from schedcache.ports import NoMetrics
from schedcache.scheduling import PodStore, make_cache_sink
from schedcache.testing import make_node, make_pod


class World:
    def __init__(self):
        self.cache = SchedulerCache(validate=True)
        self.objects = ClusterObjects(validate=True)
        self.pods = PodStore()
        self.sink = make_cache_sink(self.cache, self.objects, self.pods)

    def counted(self):
        """Node -> names of its pods."""
        infos = self.cache.dump().nodes
        return {name: sorted(found.name for found in info.pods) for name, info in infos.items()}


@pytest.fixture
def world():
    made = World()
    made.sink.on_add("Node", make_node("a"))
    made.sink.on_add("Node", make_node("b"))
    return made


def test_pods_count_from_their_binding_to_their_end(world):
    waiting, bound = make_pod("p"), make_pod("p", "a", resource_version=2)
    world.sink.on_add("Pod", waiting)
    assert world.counted() == {"a": [], "b": []}
    world.sink.on_update("Pod", waiting, bound)
    assert world.counted() == {"a": ["p"], "b": []}
    world.sink.on_delete("Pod", bound, missed=False)
    assert world.counted() == {"a": [], "b": []}
    assert len(world.pods) == 0


def test_a_pod_of_our_own_name_is_not_queued_but_held(world):
    world.sink.on_add("Pod", make_pod("p", schedulerName="schedcache"))
    assert [held.name for held in world.pods.values()] == ["p"]
    assert world.cache.pod_count() == 0


def test_what_is_assumed_is_confirmed_by_its_event(world):
    waiting = make_pod("p")
    world.sink.on_add("Pod", waiting)
    world.cache.assume_pod(waiting.with_node("a"))
    world.sink.on_update("Pod", waiting, make_pod("p", "a", resource_version=2))
    assert world.counted() == {"a": ["p"], "b": []}
    assert world.cache.assumed_pods == {}


def test_what_is_assumed_moves_where_somebody_else_bound_it(world):
    waiting = make_pod("p")
    world.sink.on_add("Pod", waiting)
    world.cache.assume_pod(waiting.with_node("a"))
    world.sink.on_update("Pod", waiting, make_pod("p", "b", resource_version=2))
    assert world.counted() == {"a": [], "b": ["p"]}


def test_what_is_assumed_goes_with_its_pod(world):
    waiting = make_pod("p")
    world.sink.on_add("Pod", waiting)
    world.cache.assume_pod(waiting.with_node("a"))
    world.sink.on_delete("Pod", waiting, missed=True)
    assert world.counted() == {"a": [], "b": []}


def test_a_rebuild_keeps_what_is_assumed_of_pods_without_a_node(world):
    waiting, gone = make_pod("waiting"), make_pod("gone")
    for found in (waiting, gone):
        world.sink.on_add("Pod", found)
        world.cache.assume_pod(found.with_node("a"))
    world.sink.on_rebuild({"Pod": [waiting, make_pod("other", "b")], "Node": [make_node("a"), make_node("b")]})
    assert world.counted() == {"a": ["waiting"], "b": ["other"]}
    assert set(world.cache.assumed_pods) == {waiting.uid}


def test_a_contradiction_is_raised_and_a_rebuild_mends_it(world):
    placed = make_pod("p", "a")
    world.sink.on_add("Pod", placed)
    with pytest.raises(CacheCorruptedError, match="everything has to be read again") as caught:
        world.sink.on_update("Pod", placed, make_pod("p", "b", resource_version=2))
    assert caught.value.kind == "corruption"
    assert "cached on 'a' but its update is on 'b'" in str(caught.value.__context__)
    world.sink.on_rebuild({"Pod": [make_pod("p", "b", resource_version=2)], "Node": [make_node("a"), make_node("b")]})
    assert world.counted() == {"a": [], "b": ["p"]}


def test_told_by_hand_it_bears_what_a_careless_feeder_does(world):
    placed = make_pod("p", "a", resource_version=5)
    for _ in range(2):
        world.sink.on_add("Pod", placed)
    world.sink.on_update("Pod", placed, make_pod("p", "a", resource_version=4, requests={"cpu": "4"}))
    assert world.cache.dump().nodes["a"].requested.milli_cpu == 0, "the past is no news"
    world.sink.on_delete("Pod", make_pod("never", "a"), missed=False)
    world.sink.on_delete("Node", make_node("never"), missed=False)
    world.sink.on_update("Pod", placed, make_pod("p", "a", resource_version=6, phase="Succeeded"))
    assert world.counted() == {"a": [], "b": []}


def test_other_kinds_go_to_their_stores(world):
    first = Namespace.from_dict({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}})
    world.sink.on_add("Namespace", first)
    assert world.objects.get("Namespace", "", "n") is first
    world.sink.on_delete("Namespace", first, missed=False)
    assert list(world.objects.list("Namespace")) == []


def test_everything_but_the_cache_may_be_left_out_and_metrics_are_told():
    counted = Counter()

    class Counting(NoMetrics):
        def event_handled(self, event, seconds):
            counted[event, seconds] += 1

        def malformed_object(self, kind):
            counted[kind] += 1

    cache = SchedulerCache()
    sink = make_cache_sink(cache, metrics=Counting(), clock=iter(range(100)).__next__)
    sink.on_add("Node", make_node("a"))
    sink.on_malformed("Pod", MalformedObjectError("Pod", "default/p", "spec.containers", "expected a list"))
    sink.on_synced("Node")
    assert cache.node_count() == 1
    assert counted["Pod"] == 1
    assert counted.total() == 2
    assert sink.synced_kinds == {"Node"}
